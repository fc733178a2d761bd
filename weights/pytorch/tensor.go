package pytorch

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"unmask/weights"
)

// Tensor is a view of a storage that stays on disk.
type Tensor struct {
	Name  string
	DType weights.DType
	Shape []int

	storage *storage
	offset  int   // elements
	stride  []int // elements
}

// storageKind is the element type of a storage. An untyped one counts bytes.
type storageKind struct {
	dtype weights.DType
	size  int
}

// storageKinds are the classes that a storage may have.
var storageKinds = map[global]storageKind{
	"torch.FloatStorage": {weights.F32, 4}, "torch.DoubleStorage": {weights.F64, 8},
	"torch.HalfStorage": {weights.F16, 2}, "torch.BFloat16Storage": {weights.BF16, 2},
	"torch.LongStorage": {weights.I64, 8}, "torch.IntStorage": {weights.I32, 4},
	"torch.ShortStorage": {weights.I16, 2}, "torch.CharStorage": {weights.I8, 1},
	"torch.ByteStorage": {weights.U8, 1}, "torch.BoolStorage": {weights.BOOL, 1},
	"torch.storage.UntypedStorage": {"", 1},
}

// dtypes are the element types by the names that _rebuild_tensor_v3 uses.
var dtypes = map[global]storageKind{
	"torch.float32": {weights.F32, 4}, "torch.float64": {weights.F64, 8}, "torch.float16": {weights.F16, 2},
	"torch.bfloat16": {weights.BF16, 2}, "torch.int64": {weights.I64, 8}, "torch.int32": {weights.I32, 4},
	"torch.int16": {weights.I16, 2}, "torch.int8": {weights.I8, 1}, "torch.uint8": {weights.U8, 1}, "torch.bool": {weights.BOOL, 1},
}

// storage finds the record of a persistent id ("storage", class, key, location, numel).
func (a *archive) storage(id any) (any, error) {
	t, ok := id.(*tuple)
	if !ok || len(t.items) != 5 || t.items[0] != any("storage") {
		return nil, fmt.Errorf("a persistent id is %s, allowed is a storage's tuple of five", kindOf(id))
	}
	class, _ := t.items[1].(global)
	kind, ok := storageKinds[class]
	if !ok {
		return nil, fmt.Errorf("a storage of %s, allowed are the float, integer and bool storages of torch", kindOf(t.items[1]))
	}
	key, ok := t.items[2].(string)
	if !ok {
		return nil, fmt.Errorf("a storage's key is %s, allowed is a string", kindOf(t.items[2]))
	}
	numel, ok := t.items[4].(int64)
	rec := a.records["data/"+key]
	switch {
	case rec == nil:
		return nil, fmt.Errorf("storage %q has no record %s/data/%s", key, a.root, key)
	case !ok || numel < 0 || numel > rec.size/int64(kind.size):
		return nil, fmt.Errorf("storage %q has %v elements of %d bytes, its record %d bytes", key, t.items[4], kind.size, rec.size)
	}
	return &storage{kind: kind, numel: int(numel), rec: rec}, nil
}

// rebuildTensor makes a view from (storage, offset, shape, stride, ...), the arguments of
// torch._utils._rebuild_tensor and its later forms.
func rebuildTensor(args *tuple, least int) (*Tensor, error) {
	if len(args.items) < least || len(args.items) > 8 {
		return nil, fmt.Errorf("%d arguments, allowed are %d to 8", len(args.items), least)
	}
	s, ok := args.items[0].(*storage)
	if !ok {
		return nil, fmt.Errorf("%s, allowed is a storage", kindOf(args.items[0]))
	}
	if least == 7 {
		class, _ := args.items[6].(global)
		kind, ok := dtypes[class]
		if !ok {
			return nil, fmt.Errorf("element type %s, allowed are the float, integer and bool types", kindOf(args.items[6]))
		}
		s = &storage{kind: kind, numel: s.numel * s.kind.size / kind.size, rec: s.rec}
	}
	if s.kind.dtype == "" {
		return nil, errors.New("an untyped storage has no element type")
	}
	offset, ok := args.items[1].(int64)
	if !ok || offset < 0 {
		return nil, fmt.Errorf("storage offset %v, allowed are 0 and more", args.items[1])
	}
	shape, err := ints("shape", args.items[2])
	if err != nil {
		return nil, err
	}
	stride, err := ints("stride", args.items[3])
	if err != nil {
		return nil, err
	}
	if len(shape) != len(stride) || len(shape) > MaxRank {
		return nil, fmt.Errorf("shape %v with stride %v, allowed are up to %d dimensions each", shape, stride, MaxRank)
	}
	numel, last, ok := extent(shape, stride, uint64(offset))
	if !ok || numel > s.numel || (numel > 0 && last >= uint64(s.numel)) || offset > int64(s.numel) {
		return nil, fmt.Errorf("view of shape %v, stride %v, offset %d is beyond its storage of %d elements", shape, stride, offset, s.numel)
	}
	return &Tensor{DType: s.kind.dtype, Shape: shape, storage: s, offset: int(offset), stride: stride}, nil
}

// ints reads a tuple of numbers from 0 on.
func ints(what string, v any) ([]int, error) {
	t, ok := v.(*tuple)
	if !ok {
		return nil, fmt.Errorf("%s is %s, allowed is a tuple", what, kindOf(v))
	}
	list := make([]int, len(t.items))
	for i, v := range t.items {
		n, ok := v.(int64)
		if !ok || n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("%s has %v, allowed are numbers from 0", what, v)
		}
		list[i] = int(n)
	}
	return list, nil
}

// extent returns a view's number of elements and its last element's index, or false if one
// of them overflows. The answer does not depend on where a zero stands.
func extent(shape, stride []int, offset uint64) (numel int, last uint64, ok bool) {
	product, zero := uint64(1), false
	last = offset
	for i, d := range shape {
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(product, uint64(d))
		product = lo
		over, reach := bits.Mul64(uint64(d-1), uint64(stride[i]))
		var carry uint64
		last, carry = bits.Add64(last, reach, 0)
		if hi|over|carry != 0 || product > math.MaxInt64/8 || last > math.MaxInt64/8 {
			return 0, 0, false
		}
	}
	if zero {
		return 0, 0, true
	}
	return int(product), last, true
}

// Numel returns the number of elements.
func (t *Tensor) Numel() int {
	n, _, _ := extent(t.Shape, t.stride, 0)
	return n
}

// contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) contiguous() bool {
	want := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] != 1 && t.stride[i] != want {
			return false
		}
		want *= t.Shape[i]
	}
	return true
}

// Open returns a reader of the elements, row-major and little-endian. The record's CRC is
// compared first, once for all views of it. A contiguous view is streamed; any other is
// gathered from the bytes it spans, which are read whole.
func (t *Tensor) Open() (io.ReadCloser, error) {
	rec, size := t.storage.rec, t.storage.kind.size
	if err := rec.check(); err != nil {
		return nil, err
	}
	n := t.Numel()
	at := rec.data + int64(t.offset)*int64(size)
	if n == 0 || t.contiguous() {
		return io.NopCloser(io.NewSectionReader(rec.r, at, int64(n)*int64(size))), nil
	}
	_, last, _ := extent(t.Shape, t.stride, 0)
	span := (int64(last) + 1) * int64(size)
	if span > MaxGather {
		return nil, fmt.Errorf("view of stride %v spans %d bytes, allowed are %d", t.stride, span, MaxGather)
	}
	b := make([]byte, span)
	if err := readFull(rec.r, b, at); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	return io.NopCloser(&gather{t: t, span: b, left: n, index: make([]int, len(t.Shape))}), nil
}

// gather reads the elements of a strided view in order.
type gather struct {
	t     *Tensor
	span  []byte
	left  int
	index []int
	at    int // element of span under index
	rest  []byte
}

func (g *gather) Read(p []byte) (int, error) {
	size, n := g.t.storage.kind.size, 0
	for n < len(p) {
		if len(g.rest) == 0 {
			if g.left == 0 {
				break
			}
			g.rest = g.span[g.at*size : (g.at+1)*size]
			g.next()
		}
		k := copy(p[n:], g.rest)
		n, g.rest = n+k, g.rest[k:]
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (g *gather) next() {
	g.left--
	for i := len(g.index) - 1; i >= 0; i-- {
		g.at += g.t.stride[i]
		if g.index[i]++; g.index[i] < g.t.Shape[i] {
			return
		}
		g.at -= g.index[i] * g.t.stride[i]
		g.index[i] = 0
	}
}
