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
	magic := r.take(4, "the magic")
	if err := cmp.Or(r.err, sniff.CheckPlaceholder(data)); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(magic, []byte("GGUF")) {
		return nil, nil, fmt.Errorf("the first bytes are %q, want \"GGUF\"", magic)
	}
	if f.Version = r.u32("the version"); f.Version != 2 && f.Version != 3 {
		r.fail("the version is %d, want 2 or 3", f.Version)
	}
	tensors := r.count("tensors", MaxTensors, 8+4+8+4+8)
	keys := r.count("keys", MaxKeys, 8+4+1)
	f.meta = make(map[string]value, keys)
	for i := 0; i < keys && r.err == nil; i++ {
		f.readKey(r, fmt.Sprintf("key %d of %d", i+1, keys))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	align, err := f.alignment()
	if err != nil {
		return nil, nil, err
	}
	infos := make([]info, tensors)
	for i := range infos {
		infos[i].read(r)
		if r.err != nil {
			return nil, nil, fmt.Errorf("tensor %d of %d: %w", i+1, tensors, r.err)
		}
	}
	head := min(len(data), MaxHeader) - len(r.rest)
	begin := min((head+align-1)/align*align, len(data))
	all, err := layOut(infos, data[begin:], align)
	return all, nil, err
}

// readKey reads a key with its value.
func (f *File) readKey(r *reader, which string) {
	name := string(r.text("a key's name", MaxName))
	switch {
	case r.err != nil:
		r.err = fmt.Errorf("%s: %w", which, r.err)
	case !utf8.ValidString(name) || name == "":
		r.fail("%s: the name is %.40q, want UTF-8 text", which, name)
	case f.Has(name):
		r.fail("key %.80q is there twice", name)
	default:
		f.meta[name] = r.value()
		if r.err != nil {
			r.err = fmt.Errorf("key %.80q: %w", name, r.err)
		}
	}
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

func (t *info) read(r *reader) {
	t.name = string(r.text("the name", MaxName))
	if r.err != nil {
		return
	}
	if t.readRest(r); r.err != nil {
		r.err = fmt.Errorf("%.80q: %w", t.name, r.err)
	}
}

func (t *info) readRest(r *reader) {
	dims := r.u32("the number of dimensions")
	if dims < 1 || dims > maxDims {
		r.fail("dimensions are %d, want 1 to %d", dims, maxDims)
		return
	}
	t.shape = make([]int, dims)
	n := uint64(1)
	for i := range t.shape {
		d := r.u64("a dimension")
		hi, lo := bits.Mul64(n, d)
		if d == 0 || hi != 0 || lo > math.MaxInt/8 {
			r.fail("dimension %d is %d after %d elements, want 1 to %d in all", i+1, d, n, math.MaxInt/8)
			return
		}
		n = lo
		t.shape[len(t.shape)-1-i] = int(d)
	}
	number := r.u32("the type")
	dtype, ok := types[number]
	if !ok {
		r.fail("type is %s, want %s", cmp.Or(others[number], strconv.Itoa(int(number))), known)
		return
	}
	t.dtype = dtype
	values, size := dtype.Block()
	if width := t.shape[len(t.shape)-1]; width%values != 0 {
		r.fail("rows have %d values, want a multiple of %d for %s", width, values, dtype)
	}
	hi, lo := bits.Mul64(n/uint64(values), uint64(size))
	if hi != 0 || lo > math.MaxInt64 {
		r.fail("shape %v of %s has more than %d bytes", t.shape, dtype, int64(math.MaxInt64))
	}
	t.bytes, t.offset = lo, r.u64("the offset")
}

// layOut divides data into tensors, which must not overlap.
func layOut(infos []info, data []byte, align int) ([]*weights.Tensor, error) {
	slices.SortStableFunc(infos, func(a, b info) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), strings.Compare(a.name, b.name))
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

// reader reads a header from its front. It keeps the first error; what its methods return after one
// is not used.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) take(n uint64, what string) []byte {
	if n > uint64(len(r.rest)) {
		r.fail("%s has %d bytes, the header has %d more", what, n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a number of entries, each of which takes at least `each` bytes; it is 0 after an
// error.
func (r *reader) count(what string, most, each int) int {
	n := r.u64("the number of " + what)
	if n > uint64(most) {
		r.fail("%s are %d, want %d at most", what, n, most)
	}
	if room := len(r.rest) / each; n > uint64(room) {
		r.fail("%s are %d, the header has room for %d", what, n, room)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text(what string, most uint64) []byte {
	n := r.u64(what)
	if n > most {
		r.fail("%s has %d bytes, want %d at most", what, n, most)
	}
	return r.take(n, what)
}

// value reads a type and a value of that type.
func (r *reader) value() value {
	switch k := kind(r.u32("the type")); {
	case !k.known():
		r.fail("type is %d, want 0 to %d", k, len(kinds)-1)
		return value{}
	case k == array:
		return r.array()
	default:
		return value{kind: k, raw: bytes.Clone(r.element(k))}
	}
}

// element reads and checks a value that is not an array.
func (r *reader) element(k kind) []byte {
	if k == text {
		return r.text("the text", MaxHeader)
	}
	b := r.take(uint64(kinds[k].size), "the value")
	if k == boolean && b != nil && b[0] > 1 {
		r.fail("a boolean is %d, want 0 or 1", b[0])
	}
	return b
}

func (r *reader) array() value {
	of := kind(r.u32("the elements' type"))
	if !of.known() || of == array {
		r.fail("elements have type %d, want 0 to %d and no arrays", of, len(kinds)-1)
		return value{}
	}
	n := r.count("elements", MaxHeader, kinds[of].size)
	all := r.rest
	for i := 0; i < n && r.err == nil; i++ {
		if r.element(of); r.err != nil {
			r.err = fmt.Errorf("element %d: %w", i, r.err)
		}
	}
	return value{kind: array, of: of, n: n, raw: bytes.Clone(all[:len(all)-len(r.rest)])}
}
