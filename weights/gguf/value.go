package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a value, with the file's number.
type kind uint32

const (
	u8 kind = iota
	i8
	u16
	i16
	u32
	i32
	f32
	boolean
	text
	array
	u64
	i64
	f64
)

var kinds = [...]struct {
	name string
	size int // bytes, at least
}{
	u8: {"an 8-bit integer", 1}, i8: {"an 8-bit integer", 1}, u16: {"a 16-bit integer", 2},
	i16: {"a 16-bit integer", 2},
	u32: {"a 32-bit integer", 4}, i32: {"a 32-bit integer", 4}, f32: {"a float32", 4},
	boolean: {"a boolean", 1},
	text:    {"a text", 8}, array: {"an array", 12}, u64: {"a 64-bit integer", 8},
	i64: {"a 64-bit integer", 8}, f64: {"a float64", 8},
}

func (k kind) known() bool { return int(k) < len(kinds) }

// value is a key's value: the bytes of a number, a text, or an array's elements one after the
// other.
type value struct {
	kind kind
	of   kind // of an array's elements
	n    int  // elements of an array
	raw  []byte
}

// what returns the name of the value's type.
func (v value) what() string {
	if v.kind == array {
		return fmt.Sprintf("an array of %d, each %s", v.n, kinds[v.of].name)
	}
	return kinds[v.kind].name
}

// integer reads a number of a kind.
func integer(k kind, raw []byte) (int, bool) {
	var bits uint64
	for i, b := range raw[:min(kinds[k].size, len(raw))] {
		bits |= uint64(b) << (8 * i)
	}
	switch n := int64(bits); k {
	case u8, u16, u32, u64:
		return int(n), n >= 0 && int64(int(n)) == n
	case i8, i16, i32, i64:
		above := 64 - 8*kinds[k].size
		n = n << above >> above // with its sign
		return int(n), int64(int(n)) == n
	}
	return 0, false
}

// small returns an error for an array that would take much memory once it is read.
func (v value) small(key string) error {
	switch {
	case v.kind != array:
	case v.n > MaxItems:
		return fmt.Errorf("key %s is an array of %d, want at most %d", key, v.n, MaxItems)
	case len(v.raw) > MaxItemBytes:
		return fmt.Errorf("key %s has %d bytes, want at most %d", key, len(v.raw), MaxItemBytes)
	}
	return nil
}

// Has reports whether the file has a key.
func (f *File) Has(key string) bool {
	_, ok := f.meta[key]
	return ok
}

// get returns a key's value if ok says that it is what is wanted; a missing key is an error.
func (f *File) get(key, want string, ok func(v value) bool) (value, error) {
	v, there := f.meta[key]
	switch {
	case !there:
		return value{}, fmt.Errorf("key %s is absent", key)
	case !ok(v):
		return value{}, fmt.Errorf("key %s is %s, want %s", key, v.what(), want)
	}
	return v, v.small(key)
}

// Int returns an integer. A missing key, another type, and a value beyond int are errors.
func (f *File) Int(key string) (n int, err error) {
	_, err = f.get(key, "an integer", func(v value) (ok bool) {
		n, ok = integer(v.kind, v.raw)
		return ok
	})
	return n, err
}

// within returns an integer of least to most.
func (f *File) within(key string, least, most int) (int, error) {
	n, err := f.Int(key)
	if err == nil && (n < least || n > most) {
		err = fmt.Errorf("key %s is %d, want %d to %d", key, n, least, most)
	}
	return n, err
}

// Float returns a floating-point number or an integer.
func (f *File) Float(key string) (x float64, err error) {
	_, err = f.get(key, "a number", func(v value) bool {
		switch v.kind {
		case f32:
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw)))
			return true
		case f64:
			x = math.Float64frombits(binary.LittleEndian.Uint64(v.raw))
			return true
		}
		n, ok := integer(v.kind, v.raw)
		x = float64(n)
		return ok
	})
	return x, err
}

// Bool returns a boolean.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.get(key, "a boolean", func(v value) bool { return v.kind == boolean })
	return err == nil && v.raw[0] == 1, err
}

// Text returns a text.
func (f *File) Text(key string) (string, error) {
	v, err := f.get(key, "a text", func(v value) bool { return v.kind == text })
	return string(v.raw), err
}

// Texts returns an array of texts.
func (f *File) Texts(key string) ([]string, error) {
	v, err := f.get(key, "an array of texts", func(v value) bool {
		return v.kind == array && v.of == text
	})
	if err != nil {
		return nil, err
	}
	all := make([]string, v.n)
	for i, rest := 0, v.raw; i < v.n; i++ {
		n := binary.LittleEndian.Uint64(rest)
		all[i], rest = string(rest[8:8+n]), rest[8+n:]
	}
	return all, nil
}

// Ints returns an array of integers.
func (f *File) Ints(key string) ([]int, error) {
	v, err := f.get(key, "an array of integers", func(v value) bool {
		return v.kind == array && v.of != text && v.of != f32 && v.of != f64 && v.of != boolean
	})
	if err != nil {
		return nil, err
	}
	size := kinds[v.of].size
	all := make([]int, v.n)
	for i := range all {
		var ok bool
		if all[i], ok = integer(v.of, v.raw[i*size:]); !ok {
			return nil, fmt.Errorf("key %s: element %d is beyond an integer", key, i)
		}
	}
	return all, nil
}
