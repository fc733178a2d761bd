package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a value, with the file's number.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindText
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

// kinds has what errors call a kind, and the least bytes of a value of it.
var kinds = [...]struct {
	name string
	size int
}{
	kindUint8:   {"an 8-bit integer", 1},
	kindInt8:    {"an 8-bit integer", 1},
	kindUint16:  {"a 16-bit integer", 2},
	kindInt16:   {"a 16-bit integer", 2},
	kindUint32:  {"a 32-bit integer", 4},
	kindInt32:   {"a 32-bit integer", 4},
	kindFloat32: {"a float32", 4},
	kindBool:    {"a boolean", 1},
	kindText:    {"a text", 8},
	kindArray:   {"an array", 12},
	kindUint64:  {"a 64-bit integer", 8},
	kindInt64:   {"a 64-bit integer", 8},
	kindFloat64: {"a float64", 8},
}

func (k kind) isKnown() bool { return int(k) < len(kinds) }

// value is a key's value as the file has it. It is decoded when it is asked for: most keys of a
// file are never read.
type value struct {
	kind kind

	// elementKind and length are those of an array.
	elementKind kind
	length      int

	// raw has the bytes of a number, a text, or an array's elements one after the other.
	raw []byte
}

// describe returns the name of the value's type, for errors.
func (v value) describe() string {
	if v.kind == kindArray {
		return fmt.Sprintf("an array of %d, each %s", v.length, kinds[v.elementKind].name)
	}
	return kinds[v.kind].name
}

// decodeInteger reads a number of an integer kind. ok is false for another kind and for a number
// beyond int.
func decodeInteger(k kind, raw []byte) (n int, ok bool) {
	size := kinds[k].size
	var bits uint64
	for i, b := range raw[:min(size, len(raw))] {
		bits |= uint64(b) << (8 * i)
	}
	wide := int64(bits)
	switch k {
	case kindUint8, kindUint16, kindUint32, kindUint64:
		return int(wide), wide >= 0 && int64(int(wide)) == wide
	case kindInt8, kindInt16, kindInt32, kindInt64:
		unused := 64 - 8*size
		wide = wide << unused >> unused // extends the sign
		return int(wide), int64(int(wide)) == wide
	}
	return 0, false
}

// checkSize returns an error for an array that would take much memory once it is decoded: a text of
// 8 bytes becomes a string of 24.
func (v value) checkSize(key string) error {
	if v.kind != kindArray {
		return nil
	}
	if v.length > MaxItems {
		return fmt.Errorf("key %s is an array of %d, want at most %d", key, v.length, MaxItems)
	}
	if len(v.raw) > MaxItemBytes {
		return fmt.Errorf("key %s has %d bytes, want at most %d", key, len(v.raw), MaxItemBytes)
	}
	return nil
}

// Has reports whether the file has a key.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// lookUp returns a key's value if accepts says that it is of the wanted kind; a missing key is an
// error.
func (f *File) lookUp(key, want string, accepts func(v value) bool) (value, error) {
	v, ok := f.values[key]
	if !ok {
		return value{}, fmt.Errorf("key %s is absent", key)
	}
	if !accepts(v) {
		return value{}, fmt.Errorf("key %s is %s, want %s", key, v.describe(), want)
	}
	return v, v.checkSize(key)
}

// Int returns an integer. A missing key, another type, and a value beyond int are errors.
func (f *File) Int(key string) (n int, err error) {
	_, err = f.lookUp(key, "an integer", func(v value) (ok bool) {
		n, ok = decodeInteger(v.kind, v.raw)
		return ok
	})
	return n, err
}

// intInRange returns an integer, an error for one that is not from low to high.
func (f *File) intInRange(key string, low, high int) (int, error) {
	n, err := f.Int(key)
	if err == nil && (n < low || n > high) {
		err = fmt.Errorf("key %s is %d, want %d to %d", key, n, low, high)
	}
	return n, err
}

// Float returns a floating-point number or an integer. A key that is missing or of another type is
// an error, here and below.
func (f *File) Float(key string) (x float64, err error) {
	_, err = f.lookUp(key, "a number", func(v value) bool {
		switch v.kind {
		case kindFloat32:
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw)))
			return true
		case kindFloat64:
			x = math.Float64frombits(binary.LittleEndian.Uint64(v.raw))
			return true
		}
		n, ok := decodeInteger(v.kind, v.raw)
		x = float64(n)
		return ok
	})
	return x, err
}

// Bool returns a boolean.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.lookUp(key, "a boolean", func(v value) bool { return v.kind == kindBool })
	return err == nil && v.raw[0] == 1, err
}

// Text returns a text.
func (f *File) Text(key string) (string, error) {
	v, err := f.lookUp(key, "a text", func(v value) bool { return v.kind == kindText })
	return string(v.raw), err
}

// Texts returns an array of texts.
func (f *File) Texts(key string) ([]string, error) {
	v, err := f.lookUp(key, "an array of texts", func(v value) bool {
		return v.kind == kindArray && v.elementKind == kindText
	})
	if err != nil {
		return nil, err
	}
	texts := make([]string, v.length)
	unread := v.raw
	for i := range texts {
		n := binary.LittleEndian.Uint64(unread)
		texts[i] = string(unread[8 : 8+n])
		unread = unread[8+n:]
	}
	return texts, nil
}

// Ints returns an array of integers.
func (f *File) Ints(key string) ([]int, error) {
	v, err := f.lookUp(key, "an array of integers", func(v value) bool {
		if v.kind != kindArray {
			return false
		}
		switch v.elementKind {
		case kindText, kindFloat32, kindFloat64, kindBool:
			return false
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	size := kinds[v.elementKind].size
	numbers := make([]int, v.length)
	for i := range numbers {
		n, ok := decodeInteger(v.elementKind, v.raw[i*size:])
		if !ok {
			return nil, fmt.Errorf("key %s: element %d is beyond an integer", key, i)
		}
		numbers[i] = n
	}
	return numbers, nil
}
