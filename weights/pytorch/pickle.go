package pytorch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// opcodes are those of protocols 2 to 5 that occur in data, with CPython's names
// (Lib/pickletools.py). Opcodes that only code needs (INST, OBJ, EXT, PERSID) and the text forms of
// protocol 0 are refused. STOP is read by unpickle.
var opcodes = map[byte]func(m *machine){
	'(':  func(m *machine) { m.push(mark{}) }, // MARK
	'0':  (*machine).drop,                     // POP
	'1':  func(m *machine) { m.sinceMark() },  // POP_MARK
	'2':  func(m *machine) { m.push(m.top()) },
	0x80: (*machine).protocol,
	0x95: (*machine).frame,
	'Q':  func(m *machine) { m.made(m.find(m.pop())) }, // BINPERSID

	'h': func(m *machine) { m.recall(m.uint(1)) }, // BINGET
	'j': func(m *machine) { m.recall(m.uint(4)) },
	'q': func(m *machine) { m.remember(m.uint(1)) }, // BINPUT
	'r': func(m *machine) { m.remember(m.uint(4)) },
	0x94: func(m *machine) { // MEMOIZE
		m.remember(uint64(len(m.memo)))
	},

	'N':  func(m *machine) { m.push(nil) },
	0x88: func(m *machine) { m.push(true) },
	0x89: func(m *machine) { m.push(false) },
	'K':  func(m *machine) { m.push(int64(m.uint(1))) }, // BININT1
	'M':  func(m *machine) { m.push(int64(m.uint(2))) },
	'J':  func(m *machine) { m.push(int64(int32(m.uint(4)))) },
	0x8a: func(m *machine) { m.push(long(m.sized(1))) }, // LONG1
	0x8b: func(m *machine) { m.push(long(m.sized(4))) },
	'G':  (*machine).float,
	'U':  func(m *machine) { m.push(string(m.sized(1))) }, // SHORT_BINSTRING
	'T':  func(m *machine) { m.push(string(m.sized(4))) },
	0x8c: func(m *machine) { m.push(string(m.sized(1))) }, // SHORT_BINUNICODE; surrogates may be in it
	'X':  func(m *machine) { m.push(string(m.sized(4))) },
	0x8d: func(m *machine) { m.push(string(m.sized(8))) },
	'C':  func(m *machine) { m.push(m.sized(1)) }, // SHORT_BINBYTES
	'B':  func(m *machine) { m.push(m.sized(4)) },
	0x8e: func(m *machine) { m.push(m.sized(8)) },
	0x96: func(m *machine) { m.push(m.sized(8)) }, // BYTEARRAY8

	')':  func(m *machine) { m.push(&tuple{}) },
	0x85: func(m *machine) { m.push(&tuple{m.popped(1)}) }, // TUPLE1
	0x86: func(m *machine) { m.push(&tuple{m.popped(2)}) },
	0x87: func(m *machine) { m.push(&tuple{m.popped(3)}) },
	't':  func(m *machine) { m.push(&tuple{m.sinceMark()}) },
	']':  func(m *machine) { m.push(&list{}) },
	'l':  func(m *machine) { m.push(&list{m.sinceMark()}) },
	'a':  func(m *machine) { items := m.popped(1); m.note(appendItems(m.top(), items)) }, // APPEND
	'e':  func(m *machine) { items := m.sinceMark(); m.note(appendItems(m.top(), items)) },
	'}':  func(m *machine) { m.push(newDict()) },
	'd': func(m *machine) { // DICT
		d := newDict()
		m.made(d, setItems(d, m.sinceMark()))
	},
	's':  func(m *machine) { items := m.popped(2); m.note(setItems(m.top(), items)) }, // SETITEM
	'u':  func(m *machine) { items := m.sinceMark(); m.note(setItems(m.top(), items)) },
	0x8f: func(m *machine) { m.push(&Object{Class: "builtins.set"}) },
	0x90: func(m *machine) { // ADDITEMS
		items := m.sinceMark()
		m.note(appendItems(m.top(), items))
	},
	0x91: func(m *machine) { // FROZENSET
		m.push(&Object{Class: "builtins.frozenset", list: &list{m.sinceMark()}})
	},

	'c':  func(m *machine) { m.made(nameGlobal(m.line(), m.line())) }, // GLOBAL
	0x93: (*machine).stackGlobal,
	'R':  func(m *machine) { v := m.popped(2); m.made(call(v[0], v[1])) },          // REDUCE
	0x81: func(m *machine) { v := m.popped(2); m.made(instance(v[0], v[1])) },      // NEWOBJ
	0x92: (*machine).newObjEx,                                                      // with keywords
	'b':  func(m *machine) { v := m.popped(2); m.made(v[0], restore(v[0], v[1])) }, // BUILD
}

// mark is where a variable number of operands begins.
type mark struct{}

// machine runs a pickle. Its memory is limited by MaxValues and by the pickle's size. It keeps the
// first error; what its methods return after one is not used.
type machine struct {
	in     []byte
	pos    int
	stack  []any
	memo   map[uint32]any
	values int
	find   func(id any) (any, error) // resolves persistent ids: storages
	err    error
}

// unpickle returns the value of the pickle that program begins with, and its length. find resolves
// persistent ids.
func unpickle(program []byte, find func(id any) (any, error)) (v any, n int, err error) {
	m := &machine{in: program, memo: map[uint32]any{}, find: find}
	for {
		at := m.pos
		switch op := byte(m.uint(1)); {
		case m.err != nil:
		case op == '.': // STOP
			if v := m.pop(); m.err == nil {
				return v, m.pos, nil
			}
		case opcodes[op] == nil:
			m.fail("opcode 0x%02x is not allowed: checkpoints are data of protocols 2 to 5", op)
		default:
			opcodes[op](m)
		}
		if m.err != nil {
			return nil, 0, fmt.Errorf("byte %d: %w", at, m.err)
		}
	}
}

func (m *machine) note(err error) { m.err = cmp.Or(m.err, err) }

func (m *machine) fail(format string, args ...any) { m.note(fmt.Errorf(format, args...)) }

// made pushes v, unless there was an error.
func (m *machine) made(v any, err error) {
	m.note(err)
	m.push(v)
}

func (m *machine) push(v any) {
	m.count()
	m.stack = append(m.stack, v)
}

// count counts a value that is kept.
func (m *machine) count() {
	if m.values++; m.values > MaxValues {
		m.fail("more than %d values", MaxValues)
	}
}

var errUnderflow = errors.New("the stack is empty")

// popped removes the n top values, which must not be marks.
func (m *machine) popped(n int) []any {
	from := len(m.stack) - n
	if from < 0 {
		m.note(errUnderflow)
		return make([]any, n)
	}
	items := slices.Clone(m.stack[from:])
	if slices.Contains(items, any(mark{})) {
		m.fail("a mark stands where a value is wanted")
	}
	m.stack = m.stack[:from]
	return items
}

func (m *machine) pop() any { return m.popped(1)[0] }

// top returns the top value.
func (m *machine) top() any {
	v := m.pop()
	m.stack = append(m.stack, v)
	return v
}

// drop removes the top value or mark.
func (m *machine) drop() {
	if len(m.stack) == 0 {
		m.note(errUnderflow)
		return
	}
	m.stack = m.stack[:len(m.stack)-1]
}

// sinceMark removes the last mark and returns what was pushed after it.
func (m *machine) sinceMark() []any {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if m.stack[i] == any(mark{}) {
			items := slices.Clone(m.stack[i+1:])
			m.stack = m.stack[:i]
			return items
		}
	}
	m.fail("there is no mark on the stack")
	return nil
}

// take returns the next n bytes of the pickle itself, so a wrong length allocates nothing.
func (m *machine) take(n uint64) []byte {
	if n > uint64(len(m.in)-m.pos) {
		m.fail("%d bytes are wanted, the pickle has %d more", n, len(m.in)-m.pos)
		return nil
	}
	b := m.in[m.pos : m.pos+int(n)]
	m.pos += int(n)
	return b
}

// uint reads a little-endian number of n bytes.
func (m *machine) uint(n uint64) (v uint64) {
	for i, b := range m.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// sized reads a length of n bytes, then that many bytes.
func (m *machine) sized(n uint64) []byte { return m.take(m.uint(n)) }

func (m *machine) line() string {
	i := bytes.IndexByte(m.in[m.pos:], '\n')
	if i < 0 {
		m.fail("a name has no end")
		return ""
	}
	return string(m.take(uint64(i + 1))[:i])
}

// protocol reads PROTO.
func (m *machine) protocol() {
	if v := m.uint(1); v < 2 || v > 5 {
		m.fail("protocol %d, want 2 to 5", v)
	}
}

// frame reads FRAME.
func (m *machine) frame() {
	if n := m.uint(8); n > uint64(len(m.in)-m.pos) {
		m.fail("a frame of %d bytes, the pickle has %d more", n, len(m.in)-m.pos)
	}
}

// float reads BINFLOAT, which is big-endian.
func (m *machine) float() {
	var n uint64
	for _, c := range m.take(8) {
		n = n<<8 | uint64(c)
	}
	m.push(math.Float64frombits(n))
}

// long returns a little-endian two's complement number: an int64, or an object for a larger one.
func long(b []byte) any {
	if len(b) > 8 {
		return &Object{Class: "builtins.int"}
	}
	var v int64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	if n := 64 - 8*len(b); n < 64 {
		v = v << n >> n
	}
	return v
}

// stackGlobal reads STACK_GLOBAL.
func (m *machine) stackGlobal() {
	v := m.popped(2)
	module, ok1 := v[0].(string)
	name, ok2 := v[1].(string)
	if !ok1 || !ok2 {
		m.fail("a name of %s and %s, want strings", kindOf(v[0]), kindOf(v[1]))
		return
	}
	m.made(nameGlobal(module, name))
}

// newObjEx reads NEWOBJ_EX, whose keywords are kept as the object's state.
func (m *machine) newObjEx() {
	v := m.popped(3)
	made, err := instance(v[0], v[1])
	if o, ok := made.(*Object); ok {
		o.state = v[2]
	}
	m.made(made, err)
}

// remember writes the top value to the memo.
func (m *machine) remember(key uint64) {
	m.count()
	m.memo[uint32(key)] = m.top()
}

// recall pushes a value of the memo.
func (m *machine) recall(key uint64) {
	v, ok := m.memo[uint32(key)]
	if !ok {
		m.fail("memo %d was never written", key)
	}
	m.push(v)
}
