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

// dtypeByNumber has the types that are read, by their number in ggml (ggml.h, enum ggml_type).
var dtypeByNumber = map[uint32]weights.DType{
	0:  weights.F32,
	1:  weights.F16,
	2:  weights.Q4_0,
	3:  weights.Q4_1,
	6:  weights.Q5_0,
	7:  weights.Q5_1,
	8:  weights.Q8_0,
	10: weights.Q2_K,
	11: weights.Q3_K,
	12: weights.Q4_K,
	13: weights.Q5_K,
	14: weights.Q6_K,
	20: weights.IQ4_NL,
	24: weights.I8,
	25: weights.I16,
	26: weights.I32,
	27: weights.I64,
	28: weights.F64,
	30: weights.BF16,
}

// readableTypes lists the types for errors.
const readableTypes = "F32, F16, BF16, F64, an integer or one of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, " +
	"Q3_K, Q4_K, Q5_K, Q6_K and IQ4_NL"

// unreadableTypes are the names of ggml's other types. An error that says IQ2_XS helps a user to
// choose another file; one that says 17 does not.
var unreadableTypes = map[uint32]string{
	9:  "Q8_1",
	15: "Q8_K",
	16: "IQ2_XXS",
	17: "IQ2_XS",
	18: "IQ3_XXS",
	19: "IQ1_S",
	21: "IQ3_S",
	22: "IQ2_S",
	23: "IQ4_XS",
	29: "IQ1_M",
	34: "TQ1_0",
	35: "TQ2_0",
	39: "MXFP4",
}

// parse reads a whole file. Texts and arrays of the header are copied, so that keys can be read
// after the file is closed; the tensors' data are slices of data.
func (f *File) parse(data []byte) ([]*weights.Tensor, map[string]string, error) {
	r := &reader{unread: data[:min(len(data), MaxHeader)]}
	magic := r.takeBytes(4, "the magic")
	if r.err != nil {
		return nil, nil, r.err
	}
	if err := sniff.CheckPlaceholder(data); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(magic, []byte("GGUF")) {
		return nil, nil, fmt.Errorf("the first bytes are %q, want \"GGUF\"", magic)
	}
	f.Version = r.readUint32("the version")
	if f.Version != 2 && f.Version != 3 {
		r.fail("the version is %d, want 2 or 3", f.Version)
	}

	// The least bytes of an entry: a name's length and its type or dimensions.
	tensors := r.readCount("tensors", MaxTensors, 8+4+8+4+8)
	keys := r.readCount("keys", MaxKeys, 8+4+1)
	f.values = make(map[string]value, keys)
	for i := 0; i < keys && r.err == nil; i++ {
		f.readKey(r, fmt.Sprintf("key %d of %d", i+1, keys))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	align, err := f.readAlignment()
	if err != nil {
		return nil, nil, err
	}

	infos := make([]tensorInfo, tensors)
	for i := range infos {
		infos[i].read(r)
		if r.err != nil {
			return nil, nil, fmt.Errorf("tensor %d of %d: %w", i+1, tensors, r.err)
		}
	}
	headerSize := min(len(data), MaxHeader) - len(r.unread)
	begin := min((headerSize+align-1)/align*align, len(data))
	list, err := layOut(infos, data[begin:], align)
	return list, nil, err
}

// readKey reads a key with its value. position says which key it is in errors about its name.
func (f *File) readKey(r *reader, position string) {
	name := string(r.readText("a key's name", MaxName))
	switch {
	case r.err != nil:
		r.err = fmt.Errorf("%s: %w", position, r.err)
	case !utf8.ValidString(name) || name == "":
		r.fail("%s: the name is %.40q, want UTF-8 text", position, name)
	case f.Has(name):
		r.fail("key %.80q is there twice", name)
	default:
		f.values[name] = r.readValue()
		if r.err != nil {
			r.err = fmt.Errorf("key %.80q: %w", name, r.err)
		}
	}
}

// readAlignment returns the number of bytes to a multiple of which offsets are rounded up.
func (f *File) readAlignment() (int, error) {
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

// tensorInfo is the entry of a tensor in the header.
type tensorInfo struct {
	name   string
	shape  []int // slowest first; the file has the fastest first
	dtype  weights.DType
	offset uint64 // in the data, in bytes
	bytes  uint64
}

// read reads one entry of the list of tensors. An error of what follows the name quotes the name.
func (t *tensorInfo) read(r *reader) {
	t.name = string(r.readText("the name", MaxName))
	if r.err != nil {
		return
	}
	t.readLayout(r)
	if r.err != nil {
		r.err = fmt.Errorf("%.80q: %w", t.name, r.err)
	}
}

// readLayout reads shape, type and offset. Products are checked for overflow before anything is
// computed with them.
func (t *tensorInfo) readLayout(r *reader) {
	dims := r.readUint32("the number of dimensions")
	if dims < 1 || dims > maxDims {
		r.fail("dimensions are %d, want 1 to %d", dims, maxDims)
		return
	}
	t.shape = make([]int, dims)
	elements := uint64(1)
	for i := range t.shape {
		d := r.readUint64("a dimension")
		hi, lo := bits.Mul64(elements, d)
		if d == 0 || hi != 0 || lo > math.MaxInt/8 {
			r.fail("dimension %d is %d after %d elements, want 1 to %d in all", i+1, d, elements,
				math.MaxInt/8)
			return
		}
		elements = lo
		t.shape[len(t.shape)-1-i] = int(d) // the file has the width of a row first
	}

	number := r.readUint32("the type")
	dtype, ok := dtypeByNumber[number]
	if !ok {
		r.fail("type is %s, want %s", cmp.Or(unreadableTypes[number], strconv.Itoa(int(number))),
			readableTypes)
		return
	}
	t.dtype = dtype

	values, size := dtype.Block()
	if width := t.shape[len(t.shape)-1]; width%values != 0 {
		r.fail("rows have %d values, want a multiple of %d for %s", width, values, dtype)
	}
	hi, lo := bits.Mul64(elements/uint64(values), uint64(size))
	if hi != 0 || lo > math.MaxInt64 {
		r.fail("shape %v of %s has more than %d bytes", t.shape, dtype, int64(math.MaxInt64))
	}
	t.bytes = lo
	t.offset = r.readUint64("the offset")
}

// layOut divides data into tensors, which must not overlap. Unlike safetensors, the format allows
// holes: they align the tensors.
func layOut(infos []tensorInfo, data []byte, align int) ([]*weights.Tensor, error) {
	slices.SortStableFunc(infos, func(a, b tensorInfo) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), strings.Compare(a.name, b.name))
	})
	tensors := make([]*weights.Tensor, len(infos))
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
		tensors[i] = &weights.Tensor{
			Name:  t.name,
			DType: t.dtype,
			Shape: t.shape,
			Data:  data[t.offset:end:end],
		}
	}
	return tensors, nil
}

// reader reads a header from its front. It keeps the first error, so that a caller reads several
// values and checks once; what its methods return after an error is not used.
type reader struct {
	unread []byte
	err    error
}

// fail keeps an error unless there was one before.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// takeBytes returns the next n bytes, nil after an error. what names them in an error.
func (r *reader) takeBytes(n uint64, what string) []byte {
	if n > uint64(len(r.unread)) {
		r.fail("%s has %d bytes, the header has %d more", what, n, len(r.unread))
	}
	if r.err != nil {
		return nil
	}
	b := r.unread[:n]
	r.unread = r.unread[n:]
	return b
}

// readUint32 reads a number, little-endian; what it is stands in the error of a file that is cut
// off.
func (r *reader) readUint32(what string) uint32 {
	if b := r.takeBytes(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// readUint64 is readUint32 for 8 bytes.
func (r *reader) readUint64(what string) uint64 {
	if b := r.takeBytes(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// readCount reads a number of entries, each of which takes at least minBytes; it is 0 after an
// error. A count that the remaining bytes cannot hold is refused before anything of that size is
// allocated.
func (r *reader) readCount(what string, limit, minBytes int) int {
	n := r.readUint64("the number of " + what)
	if n > uint64(limit) {
		r.fail("%s are %d, want %d at most", what, n, limit)
	}
	if room := len(r.unread) / minBytes; n > uint64(room) {
		r.fail("%s are %d, the header has room for %d", what, n, room)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// readText reads a length and a text of that many bytes.
func (r *reader) readText(what string, limit uint64) []byte {
	n := r.readUint64(what)
	if n > limit {
		r.fail("%s has %d bytes, want %d at most", what, n, limit)
	}
	return r.takeBytes(n, what)
}

// readValue reads a type and a value of that type.
func (r *reader) readValue() value {
	k := kind(r.readUint32("the type"))
	if !k.isKnown() {
		r.fail("type is %d, want 0 to %d", k, len(kinds)-1)
		return value{}
	}
	if k == kindArray {
		return r.readArray()
	}
	return value{kind: k, raw: bytes.Clone(r.readElement(k))}
}

// readElement reads and checks a value that is not an array.
func (r *reader) readElement(k kind) []byte {
	if k == kindText {
		return r.readText("the text", MaxHeader)
	}
	b := r.takeBytes(uint64(kinds[k].size), "the value")
	if k == kindBool && b != nil && b[0] > 1 {
		r.fail("a boolean is %d, want 0 or 1", b[0])
	}
	return b
}

// readArray reads the elements' type, their number, and the elements. Arrays of arrays, which the
// format allows, are refused: no key of a model has them.
func (r *reader) readArray() value {
	elementKind := kind(r.readUint32("the elements' type"))
	if !elementKind.isKnown() || elementKind == kindArray {
		r.fail("elements have type %d, want 0 to %d and no arrays", elementKind, len(kinds)-1)
		return value{}
	}
	n := r.readCount("elements", MaxHeader, kinds[elementKind].size)
	begin := r.unread
	for i := 0; i < n && r.err == nil; i++ {
		r.readElement(elementKind)
		if r.err != nil {
			r.err = fmt.Errorf("element %d: %w", i, r.err)
		}
	}
	raw := bytes.Clone(begin[:len(begin)-len(r.unread)])
	return value{kind: kindArray, elementKind: elementKind, length: n, raw: raw}
}
