package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"unmask/internal/sniff"
	"unmask/weights"
)

// types are the tensors' types by their number in ggml.
var types = map[uint32]weights.DType{
	0: weights.F32, 1: weights.F16, 2: weights.Q4_0, 3: weights.Q4_1, 6: weights.Q5_0,
	7: weights.Q5_1, 8: weights.Q8_0, 10: weights.Q2_K, 11: weights.Q3_K, 12: weights.Q4_K,
	13: weights.Q5_K, 14: weights.Q6_K, 20: weights.IQ4_NL,
	24: weights.I8, 25: weights.I16, 26: weights.I32, 27: weights.I64, 28: weights.F64,
	30: weights.BF16,
}

// known lists the types for errors.
const known = "F32, F16, BF16, F64, an integer or one of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, " +
	"Q3_K, Q4_K, Q5_K, Q6_K and IQ4_NL"

// others are the names of types that are not read (ggml.h, enum ggml_type).
var others = map[uint32]string{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
	19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0",
	39: "MXFP4"}

// parse reads a whole file. Texts and arrays of the header are copied; the tensors' data are slices
// of data.
func (f *File) parse(data []byte) ([]*weights.Tensor, map[string]string, error) {
	r := &reader{rest: data[:min(len(data), MaxHeader)]}
	magic, err := r.take(4, "the magic")
	if err != nil {
		return nil, nil, err
	}
	if err := sniff.Instead(data); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(magic, []byte("GGUF")) {
		return nil, nil, fmt.Errorf("the first bytes are %q, want \"GGUF\"", magic)
	}
	if f.Version, err = r.u32("the version"); err != nil {
		return nil, nil, err
	}
	if f.Version != 2 && f.Version != 3 {
		return nil, nil, fmt.Errorf("the version is %d, want 2 or 3", f.Version)
	}
	tensors, err := r.count("tensors", MaxTensors, 8+4+8+4+8)
	if err != nil {
		return nil, nil, err
	}
	keys, err := r.count("keys", MaxKeys, 8+4+1)
	if err != nil {
		return nil, nil, err
	}
	if err := f.readKeys(r, keys); err != nil {
		return nil, nil, err
	}
	align, err := f.alignment()
	if err != nil {
		return nil, nil, err
	}
	infos := make([]info, tensors)
	for i := range infos {
		if err := infos[i].read(r); err != nil {
			return nil, nil, fmt.Errorf("tensor %d of %d: %w", i+1, tensors, err)
		}
	}
	head := min(len(data), MaxHeader) - len(r.rest)
	begin := (head + align - 1) / align * align
	if begin > len(data) {
		begin = len(data)
	}
	all, err := layOut(infos, data[begin:], align)
	return all, nil, err
}

// readKeys reads n keys.
func (f *File) readKeys(r *reader, n int) error {
	f.meta = make(map[string]value, n)
	for i := range n {
		key, err := r.text("a key's name", MaxName)
		if err != nil {
			return fmt.Errorf("key %d of %d: %w", i+1, n, err)
		}
		if !utf8.Valid(key) || len(key) == 0 {
			return fmt.Errorf("key %d of %d: the name is %.40q, want UTF-8 text", i+1, n, key)
		}
		name := string(key)
		if f.Has(name) {
			return fmt.Errorf("key %.80q is there twice", name)
		}
		v, err := r.value()
		if err != nil {
			return fmt.Errorf("key %.80q: %w", name, err)
		}
		f.meta[name] = v
		f.keys = append(f.keys, name)
	}
	slices.Sort(f.keys)
	return nil
}

func (f *File) alignment() (int, error) {
	if !f.Has(alignmentKey) {
		return alignment, nil
	}
	n, err := f.Int(alignmentKey)
	if err == nil && (n < minAlignment || n > maxAlignment || n&(n-1) != 0) {
		err = fmt.Errorf("key %s is %d, want a power of two from %d to %d", alignmentKey, n, minAlignment,
			maxAlignment)
	}
	return n, err
}

// info is the entry of a tensor.
type info struct {
	name   string
	shape  []int // slowest first
	dtype  weights.DType
	offset uint64
	bytes  uint64
}

func (t *info) read(r *reader) error {
	name, err := r.text("the name", MaxName)
	if err != nil {
		return err
	}
	t.name = string(name)
	if err := t.readRest(r); err != nil {
		return fmt.Errorf("%.80q: %w", t.name, err)
	}
	return nil
}

func (t *info) readRest(r *reader) error {
	dims, err := r.u32("the number of dimensions")
	if err != nil {
		return err
	}
	if dims < 1 || dims > maxDims {
		return fmt.Errorf("dimensions are %d, want 1 to %d", dims, maxDims)
	}
	t.shape = make([]int, dims)
	n := uint64(1)
	for i := range t.shape {
		d, err := r.u64("a dimension")
		if err != nil {
			return err
		}
		hi, lo := bits.Mul64(n, d)
		if d == 0 || hi != 0 || lo > math.MaxInt/8 {
			return fmt.Errorf("dimension %d is %d after %d elements, want 1 to %d in all", i+1, d, n,
				math.MaxInt/8)
		}
		n = lo
		t.shape[len(t.shape)-1-i] = int(d)
	}
	number, err := r.u32("the type")
	if err != nil {
		return err
	}
	dtype, ok := types[number]
	if !ok {
		name := cmp.Or(others[number], strconv.Itoa(int(number)))
		return fmt.Errorf("type is %s, want %s", name, known)
	}
	t.dtype = dtype
	values, size := dtype.Block()
	if width := t.shape[len(t.shape)-1]; width%values != 0 {
		return fmt.Errorf("rows have %d values, want a multiple of %d for %s", width, values, dtype)
	}
	hi, lo := bits.Mul64(n/uint64(values), uint64(size))
	if hi != 0 || lo > math.MaxInt64 {
		return fmt.Errorf("shape %v of %s has more than %d bytes", t.shape, dtype, int64(math.MaxInt64))
	}
	t.bytes = lo
	t.offset, err = r.u64("the offset")
	return err
}

// layOut divides data into tensors, which must not overlap.
func layOut(infos []info, data []byte, align int) ([]*weights.Tensor, error) {
	slices.SortStableFunc(infos, func(a, b info) int {
		switch {
		case a.offset < b.offset:
			return -1
		case a.offset > b.offset:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	all := make([]*weights.Tensor, len(infos))
	end := uint64(0)
	for i, t := range infos {
		switch {
		case t.offset%uint64(align) != 0:
			return nil, fmt.Errorf("tensor %.80q: offset is %d, want a multiple of %d", t.name, t.offset,
				align)
		case t.offset < end:
			return nil, fmt.Errorf("tensor %.80q: offset is %d, want %d at least, where the tensor before "+
				"it ends", t.name, t.offset, end)
		case t.offset > uint64(len(data)) || t.bytes > uint64(len(data))-t.offset:
			return nil, fmt.Errorf("tensor %.80q: %d bytes from byte %d on, the file has %d bytes of data",
				t.name, t.bytes, t.offset, len(data))
		}
		end = t.offset + t.bytes
		all[i] = &weights.Tensor{Name: t.name, DType: t.dtype, Shape: t.shape,
			Data: data[t.offset:end:end]}
	}
	return all, nil
}

// reader reads a header from its front.
type reader struct{ rest []byte }

func (r *reader) take(n uint64, what string) ([]byte, error) {
	if n > uint64(len(r.rest)) {
		return nil, fmt.Errorf("%s has %d bytes, the header has %d more", what, n, len(r.rest))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b, nil
}

func (r *reader) u32(what string) (uint32, error) {
	b, err := r.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *reader) u64(what string) (uint64, error) {
	b, err := r.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of entries, each of which takes at least `each` bytes.
func (r *reader) count(what string, most, each int) (int, error) {
	n, err := r.u64("the number of " + what)
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, fmt.Errorf("%s are %d, want %d at most", what, n, most)
	}
	if n > uint64(len(r.rest)/each) {
		return 0, fmt.Errorf("%s are %d, the header has room for %d", what, n, len(r.rest)/each)
	}
	return int(n), nil
}

func (r *reader) text(what string, most uint64) ([]byte, error) {
	n, err := r.u64(what)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, fmt.Errorf("%s has %d bytes, want %d at most", what, n, most)
	}
	return r.take(n, what)
}

// value reads a type and a value of that type.
func (r *reader) value() (value, error) {
	number, err := r.u32("the type")
	if err != nil {
		return value{}, err
	}
	k := kind(number)
	switch {
	case !k.known():
		return value{}, fmt.Errorf("type is %d, want 0 to %d", number, len(kinds)-1)
	case k == array:
		return r.array()
	}
	raw, err := r.element(k)
	return value{kind: k, raw: bytes.Clone(raw)}, err
}

// element reads and checks a value that is not an array.
func (r *reader) element(k kind) ([]byte, error) {
	if k == text {
		b, err := r.text("the text", MaxHeader)
		return b, err
	}
	b, err := r.take(uint64(kinds[k].size), "the value")
	if err == nil && k == boolean && b[0] > 1 {
		err = fmt.Errorf("a boolean is %d, want 0 or 1", b[0])
	}
	return b, err
}

func (r *reader) array() (value, error) {
	number, err := r.u32("the elements' type")
	if err != nil {
		return value{}, err
	}
	of := kind(number)
	if !of.known() || of == array {
		return value{}, fmt.Errorf("elements have type %d, want 0 to %d and no arrays", number,
			len(kinds)-1)
	}
	n, err := r.count("elements", MaxHeader, kinds[of].size)
	if err != nil {
		return value{}, err
	}
	all := r.rest
	for i := range n {
		if _, err := r.element(of); err != nil {
			return value{}, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return value{kind: array, of: of, n: n, raw: bytes.Clone(all[:len(all)-len(r.rest)])}, nil
}
