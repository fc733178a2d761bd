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
	'0':  (*machine).dropTop,                  // POP
	'1':  func(m *machine) { m.popToMark() },  // POP_MARK
	'2':  func(m *machine) { m.push(m.top()) },
	0x80: (*machine).readProtocol,
	0x95: (*machine).readFrame,
	'Q':  func(m *machine) { m.pushResult(m.resolveID(m.pop())) }, // BINPERSID

	'h': func(m *machine) { m.pushMemo(m.readUint(1)) }, // BINGET
	'j': func(m *machine) { m.pushMemo(m.readUint(4)) },
	'q': func(m *machine) { m.writeMemo(m.readUint(1)) }, // BINPUT
	'r': func(m *machine) { m.writeMemo(m.readUint(4)) },
	0x94: func(m *machine) { // MEMOIZE
		m.writeMemo(uint64(len(m.memo)))
	},

	'N':  func(m *machine) { m.push(nil) },
	0x88: func(m *machine) { m.push(true) },
	0x89: func(m *machine) { m.push(false) },
	'K':  func(m *machine) { m.push(int64(m.readUint(1))) }, // BININT1
	'M':  func(m *machine) { m.push(int64(m.readUint(2))) },
	'J':  func(m *machine) { m.push(int64(int32(m.readUint(4)))) },
	0x8a: func(m *machine) { m.push(decodeLong(m.readSized(1))) }, // LONG1
	0x8b: func(m *machine) { m.push(decodeLong(m.readSized(4))) },
	'G':  (*machine).pushFloat,
	'U':  func(m *machine) { m.push(string(m.readSized(1))) }, // SHORT_BINSTRING
	'T':  func(m *machine) { m.push(string(m.readSized(4))) },
	0x8c: func(m *machine) { m.push(string(m.readSized(1))) },
	// SHORT_BINUNICODE; surrogates may be in it
	'X':  func(m *machine) { m.push(string(m.readSized(4))) },
	0x8d: func(m *machine) { m.push(string(m.readSized(8))) },
	'C':  func(m *machine) { m.push(m.readSized(1)) }, // SHORT_BINBYTES
	'B':  func(m *machine) { m.push(m.readSized(4)) },
	0x8e: func(m *machine) { m.push(m.readSized(8)) },
	0x96: func(m *machine) { m.push(m.readSized(8)) }, // BYTEARRAY8

	')':  func(m *machine) { m.push(&tuple{}) },
	0x85: func(m *machine) { m.push(&tuple{m.popValues(1)}) }, // TUPLE1
	0x86: func(m *machine) { m.push(&tuple{m.popValues(2)}) },
	0x87: func(m *machine) { m.push(&tuple{m.popValues(3)}) },
	't':  func(m *machine) { m.push(&tuple{m.popToMark()}) },
	']':  func(m *machine) { m.push(&list{}) },
	'l':  func(m *machine) { m.push(&list{m.popToMark()}) },
	'a':  func(m *machine) { m.appendToTop(m.popValues(1)) }, // APPEND
	'e':  func(m *machine) { m.appendToTop(m.popToMark()) },  // APPENDS
	'}':  func(m *machine) { m.push(newDict()) },
	'd': func(m *machine) { // DICT
		d := newDict()
		m.pushResult(d, setItems(d, m.popToMark()))
	},
	's':  func(m *machine) { m.setOnTop(m.popValues(2)) }, // SETITEM
	'u':  func(m *machine) { m.setOnTop(m.popToMark()) },  // SETITEMS
	0x8f: func(m *machine) { m.push(&Object{Class: "builtins.set"}) },
	0x90: func(m *machine) { m.appendToTop(m.popToMark()) }, // ADDITEMS
	0x91: func(m *machine) { // FROZENSET
		m.push(&Object{Class: "builtins.frozenset", list: &list{m.popToMark()}})
	},

	'c':  func(m *machine) { m.pushResult(nameGlobal(m.readLine(), m.readLine())) }, // GLOBAL
	0x93: (*machine).pushGlobal,
	'R':  (*machine).pushCall,     // REDUCE
	0x81: (*machine).pushNewObj,   // NEWOBJ
	0x92: (*machine).pushNewObjEx, // NEWOBJ_EX, with keywords
	'b':  (*machine).setTopState,  // BUILD
}

// mark is where a variable number of operands begins.
type mark struct{}

// machine runs a pickle. Its memory is limited by MaxValues and by the pickle's size. It keeps the
// first error; what its methods return after one is not used.
type machine struct {
	program []byte
	pos     int // in program, of the next byte
	stack   []any
	memo    map[uint32]any

	// values counts those that the pickle built, up to MaxValues.
	values int

	// resolveID returns the storage of a persistent id.
	resolveID func(id any) (any, error)

	err error
}

// unpickle returns the value of the pickle that program begins with, and its length. resolveID
// returns what persistent ids stand for.
func unpickle(program []byte, resolveID func(id any) (any, error)) (v any, n int, err error) {
	m := &machine{program: program, memo: map[uint32]any{}, resolveID: resolveID}
	for {
		begin := m.pos
		opcode := byte(m.readUint(1))
		switch {
		case m.err != nil:
		case opcode == '.': // STOP
			v := m.pop()
			if m.err == nil {
				return v, m.pos, nil
			}
		case opcodes[opcode] == nil:
			m.fail("opcode 0x%02x is not allowed: checkpoints are data of protocols 2 to 5", opcode)
		default:
			opcodes[opcode](m)
		}
		if m.err != nil {
			return nil, 0, fmt.Errorf("byte %d: %w", begin, m.err)
		}
	}
}

// keepError keeps an error unless there was one before.
func (m *machine) keepError(err error) { m.err = cmp.Or(m.err, err) }

func (m *machine) fail(format string, args ...any) { m.keepError(fmt.Errorf(format, args...)) }

// pushResult pushes v and keeps the error of what made it.
func (m *machine) pushResult(v any, err error) {
	m.keepError(err)
	m.push(v)
}

func (m *machine) push(v any) {
	m.countValue()
	m.stack = append(m.stack, v)
}

// countValue counts a value that is kept.
func (m *machine) countValue() {
	m.values++
	if m.values > MaxValues {
		m.fail("more than %d values", MaxValues)
	}
}

var errUnderflow = errors.New("the stack is empty")

// popValues removes the n top values, which must not be marks.
func (m *machine) popValues(n int) []any {
	bottom := len(m.stack) - n
	if bottom < 0 {
		m.keepError(errUnderflow)
		return make([]any, n)
	}
	items := slices.Clone(m.stack[bottom:])
	if slices.Contains(items, any(mark{})) {
		m.fail("a mark stands where a value is wanted")
	}
	m.stack = m.stack[:bottom]
	return items
}

func (m *machine) pop() any { return m.popValues(1)[0] }

// top returns the top value.
func (m *machine) top() any {
	v := m.pop()
	m.stack = append(m.stack, v)
	return v
}

// dropTop removes the top value or mark.
func (m *machine) dropTop() {
	if len(m.stack) == 0 {
		m.keepError(errUnderflow)
		return
	}
	m.stack = m.stack[:len(m.stack)-1]
}

// popToMark removes the last mark and returns what was pushed after it.
func (m *machine) popToMark() []any {
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

// takeBytes returns the next n bytes of the pickle itself, so a wrong length allocates nothing.
func (m *machine) takeBytes(n uint64) []byte {
	if n > uint64(len(m.program)-m.pos) {
		m.fail("%d bytes are wanted, the pickle has %d more", n, len(m.program)-m.pos)
		return nil
	}
	b := m.program[m.pos : m.pos+int(n)]
	m.pos += int(n)
	return b
}

// readUint reads a little-endian number of n bytes.
func (m *machine) readUint(n uint64) (v uint64) {
	for i, b := range m.takeBytes(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// readSized reads a length of n bytes, then that many bytes.
func (m *machine) readSized(n uint64) []byte { return m.takeBytes(m.readUint(n)) }

// readLine reads an argument that ends with its line.
func (m *machine) readLine() string {
	i := bytes.IndexByte(m.program[m.pos:], '\n')
	if i < 0 {
		m.fail("a name has no end")
		return ""
	}
	return string(m.takeBytes(uint64(i + 1))[:i])
}

// readProtocol reads PROTO.
func (m *machine) readProtocol() {
	if v := m.readUint(1); v < 2 || v > 5 {
		m.fail("protocol %d, want 2 to 5", v)
	}
}

// readFrame reads FRAME. Frames only help readers that buffer; this one has the whole pickle.
func (m *machine) readFrame() {
	n := m.readUint(8)
	if n > uint64(len(m.program)-m.pos) {
		m.fail("a frame of %d bytes, the pickle has %d more", n, len(m.program)-m.pos)
	}
}

// pushFloat reads BINFLOAT, which is big-endian.
func (m *machine) pushFloat() {
	var n uint64
	for _, c := range m.takeBytes(8) {
		n = n<<8 | uint64(c)
	}
	m.push(math.Float64frombits(n))
}

// decodeLong returns a little-endian two's complement number: an int64, or an object for a larger
// one.
func decodeLong(b []byte) any {
	if len(b) > 8 {
		return &Object{Class: "builtins.int"}
	}
	var v int64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	unused := 64 - 8*len(b)
	if unused < 64 {
		v = v << unused >> unused // extends the sign
	}
	return v
}

// pushGlobal reads STACK_GLOBAL.
func (m *machine) pushGlobal() {
	operands := m.popValues(2)
	module, isModule := operands[0].(string)
	name, isName := operands[1].(string)
	if !isModule || !isName {
		m.fail("a name of %s and %s, want strings", describeValue(operands[0]),
			describeValue(operands[1]))
		return
	}
	m.pushResult(nameGlobal(module, name))
}

// appendToTop appends items to the list on top.
func (m *machine) appendToTop(items []any) { m.keepError(appendItems(m.top(), items)) }

// setOnTop sets keys and values, one after the other, in the dictionary on top.
func (m *machine) setOnTop(pairs []any) { m.keepError(setItems(m.top(), pairs)) }

// pushCall reads REDUCE.
func (m *machine) pushCall() {
	operands := m.popValues(2)
	m.pushResult(applyCall(operands[0], operands[1]))
}

// pushNewObj reads NEWOBJ.
func (m *machine) pushNewObj() {
	operands := m.popValues(2)
	m.pushResult(newInstance(operands[0], operands[1]))
}

// setTopState reads BUILD.
func (m *machine) setTopState() {
	operands := m.popValues(2)
	m.pushResult(operands[0], setState(operands[0], operands[1]))
}

// pushNewObjEx reads NEWOBJ_EX, whose keywords are kept as the object's state.
func (m *machine) pushNewObjEx() {
	operands := m.popValues(3)
	v, err := newInstance(operands[0], operands[1])
	if o, ok := v.(*Object); ok {
		o.state = operands[2]
	}
	m.pushResult(v, err)
}

// writeMemo writes the top value to the memo.
func (m *machine) writeMemo(key uint64) {
	m.countValue()
	m.memo[uint32(key)] = m.top()
}

// pushMemo pushes a value of the memo.
func (m *machine) pushMemo(key uint64) {
	v, ok := m.memo[uint32(key)]
	if !ok {
		m.fail("memo %d was never written", key)
	}
	m.push(v)
}
