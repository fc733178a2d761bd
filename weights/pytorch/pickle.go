package pytorch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// The opcodes of protocols 2 to 5 that occur in data (CPython, Lib/pickletools.py). Opcodes that
// only code needs (INST, OBJ, EXT, PERSID) and the text forms of protocol 0 are refused.
const (
	opMark, opStop, opPop, opPopMark, opDup                          = '(', '.', '0', '1', '2'
	opBinInt, opBinInt1, opBinInt2, opLong1, opLong4                 = 'J', 'K', 'M', 0x8a, 0x8b
	opNone, opTrue, opFalse, opBinFloat                              = 'N', 0x88, 0x89, 'G'
	opShortString, opString                                          = 'U', 'T'
	opUnicode, opShortUnicode, opUnicode8                            = 'X', 0x8c, 0x8d
	opBytes, opShortBytes, opBytes8, opByteArray8                    = 'B', 'C', 0x8e, 0x96
	opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple              = ')', 0x85, 0x86, 0x87, 't'
	opEmptyList, opAppend, opAppends, opList                         = ']', 'a', 'e', 'l'
	opEmptyDict, opDict, opSetItem, opSetItems                       = '}', 'd', 's', 'u'
	opEmptySet, opAddItems, opFrozenSet                              = 0x8f, 0x90, 0x91
	opGlobal, opStackGlobal, opReduce, opNewObj, opNewObjEx, opBuild = 'c', 0x93, 'R', 0x81, 0x92, 'b'
	opBinPersID, opProto, opFrame                                    = 'Q', 0x80, 0x95
	opBinGet, opLongBinGet, opBinPut, opLongBinPut, opMemoize        = 'h', 'j', 'q', 'r', 0x94
)

// mark is where a variable number of operands begins.
type mark struct{}

// machine runs a pickle. Its memory is limited by MaxValues and by the pickle's size.
type machine struct {
	in     []byte
	pos    int
	stack  []any
	memo   map[uint32]any
	values int
	find   func(id any) (any, error) // resolves persistent ids: storages
}

// unpickle returns the value of the pickle that program begins with, and its length. find resolves
// persistent ids.
func unpickle(program []byte, find func(id any) (any, error)) (v any, n int, err error) {
	m := &machine{in: program, memo: map[uint32]any{}, find: find}
	for {
		at := m.pos
		op, err := m.byte()
		if err == nil && op == opStop {
			var v any
			if v, err = m.pop(); err == nil {
				return v, m.pos, nil
			}
		}
		if err == nil {
			err = m.step(op)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("byte %d: %w", at, err)
		}
	}
}

var errUnderflow = errors.New("the stack is empty")

func (m *machine) push(v any) error {
	if m.values++; m.values > MaxValues {
		return fmt.Errorf("more than %d values", MaxValues)
	}
	m.stack = append(m.stack, v)
	return nil
}

// pop removes the top value, which must not be a mark.
func (m *machine) pop() (any, error) {
	v, err := m.top()
	if err == nil {
		m.stack = m.stack[:len(m.stack)-1]
	}
	return v, err
}

func (m *machine) top() (any, error) {
	if len(m.stack) == 0 {
		return nil, errUnderflow
	}
	v := m.stack[len(m.stack)-1]
	if _, ok := v.(mark); ok {
		return nil, errors.New("a mark stands where a value is wanted")
	}
	return v, nil
}

// pop2 removes the two top values and returns the lower one first.
func (m *machine) pop2() (a, b any, err error) {
	if b, err = m.pop(); err == nil {
		a, err = m.pop()
	}
	return a, b, err
}

// sinceMark removes the last mark and returns what was pushed after it.
func (m *machine) sinceMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			items := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("there is no mark on the stack")
}

func (m *machine) byte() (byte, error) {
	b, err := m.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// take returns the next n bytes of the pickle itself, so a wrong length allocates nothing.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.in)-m.pos) {
		return nil, fmt.Errorf("%d bytes are wanted, the pickle has %d more", n, len(m.in)-m.pos)
	}
	b := m.in[m.pos : m.pos+int(n)]
	m.pos += int(n)
	return b, nil
}

// uint reads a little-endian number of n bytes.
func (m *machine) uint(n uint64) (uint64, error) {
	b, err := m.take(n)
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v, err
}

// sized reads a length of n bytes, then that many bytes.
func (m *machine) sized(n uint64) ([]byte, error) {
	size, err := m.uint(n)
	if err != nil {
		return nil, err
	}
	return m.take(size)
}

func (m *machine) line() (string, error) {
	i := bytes.IndexByte(m.in[m.pos:], '\n')
	if i < 0 {
		return "", errors.New("a name has no end")
	}
	b, err := m.take(uint64(i + 1))
	return string(b[:i]), err
}

// step runs one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case opMark:
		return m.push(mark{})
	case opPop:
		if len(m.stack) == 0 {
			return errUnderflow
		}
		m.stack = m.stack[:len(m.stack)-1]
		return nil
	case opPopMark:
		_, err := m.sinceMark()
		return err
	case opDup:
		v, err := m.top()
		return m.pushed(v, err)
	case opProto:
		v, err := m.byte()
		if err == nil && (v < 2 || v > 5) {
			err = fmt.Errorf("protocol %d, want 2 to 5", v)
		}
		return err
	case opFrame:
		n, err := m.uint(8)
		if err == nil && n > uint64(len(m.in)-m.pos) {
			err = fmt.Errorf("a frame of %d bytes, the pickle has %d more", n, len(m.in)-m.pos)
		}
		return err
	case opBinPersID:
		id, err := m.pop()
		if err != nil {
			return err
		}
		v, err := m.find(id)
		return m.pushed(v, err)
	case opBinGet, opLongBinGet, opBinPut, opLongBinPut, opMemoize:
		return m.remember(op)
	case opGlobal, opStackGlobal, opReduce, opNewObj, opNewObjEx, opBuild:
		return m.object(op)
	}
	if v, ok, err := m.scalar(op); ok || err != nil {
		return m.pushed(v, err)
	}
	return m.container(op)
}

// pushed pushes v, unless there was an error.
func (m *machine) pushed(v any, err error) error {
	if err != nil {
		return err
	}
	return m.push(v)
}

// scalar reads opcodes that push one immutable value.
func (m *machine) scalar(op byte) (v any, ok bool, err error) {
	switch op {
	case opNone:
		return nil, true, nil
	case opTrue, opFalse:
		return op == opTrue, true, nil
	case opBinInt1:
		n, err := m.uint(1)
		return int64(n), true, err
	case opBinInt2:
		n, err := m.uint(2)
		return int64(n), true, err
	case opBinInt:
		n, err := m.uint(4)
		return int64(int32(n)), true, err
	case opLong1, opLong4:
		b, err := m.sized(map[byte]uint64{opLong1: 1, opLong4: 4}[op])
		if err == nil && len(b) > 1024 {
			err = fmt.Errorf("a number of %d bytes, want 1024", len(b))
		}
		return long(b), true, err
	case opBinFloat:
		b, err := m.take(8)
		if err != nil {
			return nil, true, err
		}
		var n uint64
		for _, c := range b {
			n = n<<8 | uint64(c)
		}
		return math.Float64frombits(n), true, nil
	case opUnicode, opShortUnicode, opUnicode8:
		b, err := m.sized(map[byte]uint64{opShortUnicode: 1, opUnicode: 4, opUnicode8: 8}[op])
		return string(b), true, err // a path in the settings may have surrogates
	case opShortString, opString:
		b, err := m.sized(map[byte]uint64{opShortString: 1, opString: 4}[op])
		return string(b), true, err
	case opShortBytes, opBytes, opBytes8, opByteArray8:
		b, err := m.sized(map[byte]uint64{opShortBytes: 1, opBytes: 4, opBytes8: 8,
			opByteArray8: 8}[op])
		return b, true, err
	}
	return nil, false, nil
}

// long returns a little-endian two's complement number: an int64, or text if it is larger.
func long(b []byte) any {
	if len(b) <= 8 {
		var v int64
		for i := len(b) - 1; i >= 0; i-- {
			v = v<<8 | int64(b[i])
		}
		if n := 64 - 8*len(b); n < 64 {
			v = v << n >> n
		}
		return v
	}
	be := make([]byte, len(b))
	for i, c := range b {
		be[len(b)-1-i] = c
	}
	v := new(big.Int).SetBytes(be)
	if be[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v.String()
}

// container reads opcodes that build tuples, lists, dictionaries and sets.
func (m *machine) container(op byte) error {
	switch op {
	case opEmptyTuple:
		return m.push(&tuple{})
	case opTuple1, opTuple2, opTuple3:
		items := make([]any, int(op)-opTuple1+1)
		for i := len(items) - 1; i >= 0; i-- {
			var err error
			if items[i], err = m.pop(); err != nil {
				return err
			}
		}
		return m.push(&tuple{items})
	case opEmptyList:
		return m.push(&list{})
	case opEmptyDict:
		return m.push(newDict())
	case opEmptySet:
		return m.push(&Object{Class: "builtins.set"})
	case opAppend:
		v, err := m.pop()
		if err != nil {
			return err
		}
		return m.onTop(appendItems, []any{v})
	case opSetItem:
		k, v, err := m.pop2()
		if err != nil {
			return err
		}
		return m.onTop(setItems, []any{k, v})
	case opTuple, opList, opDict, opFrozenSet, opAppends, opAddItems, opSetItems:
	default:
		return fmt.Errorf("opcode 0x%02x is not allowed: checkpoints are data of protocols 2 to 5",
			op)
	}
	items, err := m.sinceMark()
	if err != nil {
		return err
	}
	switch op {
	case opTuple:
		return m.push(&tuple{items})
	case opList:
		return m.push(&list{items})
	case opFrozenSet:
		return m.push(&Object{Class: "builtins.frozenset", list: &list{items}})
	case opDict:
		d := newDict()
		return m.pushed(d, setItems(d, items))
	case opSetItems:
		return m.onTop(setItems, items)
	}
	return m.onTop(appendItems, items)
}

// onTop applies items to the value below them.
func (m *machine) onTop(f func(any, []any) error, items []any) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	return f(v, items)
}

// object reads opcodes that name and build objects.
func (m *machine) object(op byte) error {
	switch op {
	case opGlobal:
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		g, err := nameGlobal(module, name)
		return m.pushed(g, err)
	case opStackGlobal:
		a, b, err := m.pop2()
		if err != nil {
			return err
		}
		module, ok1 := a.(string)
		name, ok2 := b.(string)
		if !ok1 || !ok2 {
			return fmt.Errorf("a name of %s and %s, want strings", kindOf(a), kindOf(b))
		}
		g, err := nameGlobal(module, name)
		return m.pushed(g, err)
	case opNewObjEx:
		kwargs, err := m.pop()
		if err != nil {
			return err
		}
		class, args, err := m.pop2()
		if err != nil {
			return err
		}
		v, err := instance(class, args)
		if o, ok := v.(*Object); ok {
			o.state = kwargs
		}
		return m.pushed(v, err)
	}
	a, b, err := m.pop2()
	if err != nil {
		return err
	}
	var v any
	switch op {
	case opReduce:
		v, err = call(a, b)
	case opNewObj:
		v, err = instance(a, b)
	default:
		v, err = a, restore(a, b)
	}
	return m.pushed(v, err)
}

// remember writes and reads the memo.
func (m *machine) remember(op byte) error {
	var key uint64
	var err error
	switch op {
	case opMemoize:
		key = uint64(len(m.memo))
	case opBinGet, opBinPut:
		key, err = m.uint(1)
	default:
		key, err = m.uint(4)
	}
	if err != nil {
		return err
	}
	if op == opBinGet || op == opLongBinGet {
		v, ok := m.memo[uint32(key)]
		if !ok {
			return fmt.Errorf("memo %d was never written", key)
		}
		return m.push(v)
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	if m.values++; m.values > MaxValues {
		return fmt.Errorf("more than %d values", MaxValues)
	}
	m.memo[uint32(key)] = v
	return nil
}
