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

	storage  *storage
	offset   int   // elements
	stride   []int // elements
	negative bool  // the elements are the storage's, negated
}

// storageKind is the element type of a storage. An untyped storage counts bytes.
type storageKind struct {
	dtype weights.DType
	size  int
}

// storageKinds are the possible classes of a storage.
var storageKinds = map[global]storageKind{
	"torch.FloatStorage": {weights.F32, 4}, "torch.DoubleStorage": {weights.F64, 8},
	"torch.HalfStorage": {weights.F16, 2}, "torch.BFloat16Storage": {weights.BF16, 2},
	"torch.LongStorage": {weights.I64, 8}, "torch.IntStorage": {weights.I32, 4},
	"torch.ShortStorage": {weights.I16, 2}, "torch.CharStorage": {weights.I8, 1},
	"torch.ByteStorage": {weights.U8, 1}, "torch.BoolStorage": {weights.BOOL, 1},
	"torch.storage.UntypedStorage": {"", 1},
}

// dtypes are the element types by their names in _rebuild_tensor_v3.
var dtypes = map[global]storageKind{
	"torch.float64": {weights.F64, 8}, "torch.float32": {weights.F32, 4},
	"torch.float16": {weights.F16, 2}, "torch.bfloat16": {weights.BF16, 2},
	"torch.int64": {weights.I64, 8}, "torch.int32": {weights.I32, 4},
	"torch.int16": {weights.I16, 2}, "torch.int8": {weights.I8, 1},
	"torch.uint64": {weights.U64, 8}, "torch.uint32": {weights.U32, 4},
	"torch.uint16": {weights.U16, 2}, "torch.uint8": {weights.U8, 1},
	"torch.bool": {weights.BOOL, 1},

	"torch.float8_e4m3fn": {"F8_E4M3", 1}, "torch.float8_e5m2": {"F8_E5M2", 1},
	"torch.float8_e4m3fnuz": {"F8_E4M3FNUZ", 1}, "torch.float8_e5m2fnuz": {"F8_E5M2FNUZ", 1},
	"torch.float8_e8m0fnu": {"F8_E8M0", 1},
}

// storage finds the record of a persistent id ("storage", class, key, location, numel).
func (a *archive) storage(id any) (any, error) {
	t, ok := id.(*tuple)
	if !ok || len(t.items) != 5 || t.items[0] != any("storage") {
		return nil, fmt.Errorf("a persistent id is %s, want a storage's tuple of five", kindOf(id))
	}
	class, _ := t.items[1].(global)
	kind, ok := storageKinds[class]
	if !ok { // it is an error if the model has a tensor of it
		return &Object{Class: string(class)}, nil
	}
	key, ok := t.items[2].(string)
	if !ok {
		return nil, fmt.Errorf("a storage's key is %s, want a string", kindOf(t.items[2]))
	}
	numel, ok := t.items[4].(int64)
	rec := a.records["data/"+key]
	switch {
	case rec == nil:
		return nil, fmt.Errorf("storage %q has no record %s/data/%s", key, a.root, key)
	case !ok || numel < 0 || numel > rec.size/int64(kind.size):
		return nil, fmt.Errorf("storage %q has %v elements of %d bytes, its record %d bytes", key,
			t.items[4], kind.size, rec.size)
	}
	return &storage{kind: kind, numel: int(numel), rec: rec}, nil
}

// rebuildTensor makes a view from (storage, offset, shape, stride, ...), the arguments of
// torch._utils._rebuild_tensor and its later forms.
//
// A tensor with unsupported elements, such as complex ones, is an Object of their type.
func rebuildTensor(args *tuple, least int) (any, error) {
	if len(args.items) < least || len(args.items) > 8 {
		return nil, fmt.Errorf("%d arguments, want %d to 8", len(args.items), least)
	}
	if o, ok := args.items[0].(*Object); ok {
		return &Object{Class: tensorOfClass + o.Class}, nil
	}
	s, ok := args.items[0].(*storage)
	if !ok {
		return nil, fmt.Errorf("%s, want a storage", kindOf(args.items[0]))
	}
	if least == 7 {
		class, _ := args.items[6].(global)
		kind, ok := dtypes[class]
		if !ok {
			return &Object{Class: tensorOfClass + string(class)}, nil
		}
		s = &storage{kind: kind, numel: s.numel * s.kind.size / kind.size, rec: s.rec}
	}
	if s.kind.dtype == "" {
		return nil, errors.New("an untyped storage has no element type")
	}
	offset, ok := args.items[1].(int64)
	if !ok || offset < 0 {
		return nil, fmt.Errorf("storage offset %v, want 0 and more", args.items[1])
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
		return nil, fmt.Errorf("shape %v with stride %v, want up to %d dimensions each", shape,
			stride, MaxRank)
	}
	numel, last, ok := extent(shape, stride, uint64(offset))
	if !ok || (numel > 0 && last >= uint64(s.numel)) || offset > int64(s.numel) {
		return nil, fmt.Errorf("view of shape %v, stride %v, offset %d is beyond its storage of "+
			"%d elements", shape, stride, offset, s.numel)
	}
	x := &Tensor{DType: s.kind.dtype, Shape: shape, storage: s, offset: int(offset), stride: stride}
	if least > 4 && len(args.items) > least {
		if x.negative, err = negative(args.items[least], s.kind.dtype); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// tensorOfClass begins the class of an Object that stands for a tensor.
const tensorOfClass = "tensor of "

// negative reads the metadata of a tensor: neg means that its elements are negated when read. conj,
// for complex ones, has no effect here.
func negative(v any, d weights.DType) (bool, error) {
	meta := entries(v)
	if meta == nil {
		return false, nil
	}
	neg, _ := meta.get("neg")
	if neg == any(true) && d == weights.BOOL {
		return false, errors.New("a bool tensor is negated")
	}
	return neg == any(true), nil
}

// ints reads a tuple of numbers that are at least 0.
func ints(what string, v any) ([]int, error) {
	t, ok := v.(*tuple)
	if !ok {
		return nil, fmt.Errorf("%s is %s, want a tuple", what, kindOf(v))
	}
	list := make([]int, len(t.items))
	for i, v := range t.items {
		n, ok := v.(int64)
		if !ok || n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("%s has %v, want numbers from 0", what, v)
		}
		list[i] = int(n)
	}
	return list, nil
}

// extent returns a view's number of elements and its last element's index, or false if one of them
// overflows. The answer does not depend on the position of a zero.
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

// Open returns a reader of the elements, row-major and little-endian. It first compares the
// record's CRC, once for all its views. A contiguous view is streamed; for any other the bytes that
// it spans are read whole and its elements gathered.
func (t *Tensor) Open() (io.ReadCloser, error) {
	rec, size := t.storage.rec, t.storage.kind.size
	if err := rec.check(); err != nil {
		return nil, err
	}
	r, err := t.elements(rec, size)
	if err == nil && t.negative {
		r = &negated{r: r, dtype: t.DType, size: size}
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}

// elements reads the elements in the order of the storage.
func (t *Tensor) elements(rec *record, size int) (io.Reader, error) {
	n := t.Numel()
	at := rec.data + int64(t.offset)*int64(size)
	if n == 0 || t.contiguous() {
		return io.NewSectionReader(rec.r, at, int64(n)*int64(size)), nil
	}
	_, last, _ := extent(t.Shape, t.stride, 0)
	span := (int64(last) + 1) * int64(size)
	if span > MaxGather {
		return nil, fmt.Errorf("view of stride %v spans %d bytes, want %d", t.stride, span,
			MaxGather)
	}
	b := make([]byte, span)
	if err := readFull(rec.r, b, at); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	return &gather{t: t, span: b, left: n, index: make([]int, len(t.Shape))}, nil
}

// gather reads the elements of a strided view in order.
type gather struct {
	t     *Tensor
	span  []byte
	left  int
	index []int
	at    int // element of span at index
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

// negated reads elements with their signs flipped.
type negated struct {
	r     io.Reader
	dtype weights.DType
	size  int
	rest  []byte // negated but not yet read
	buf   [1 << 12]byte
}

func (g *negated) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		n, err := io.ReadAtLeast(g.r, g.buf[:], g.size)
		for more := n % g.size; err == nil && more != 0; more = n % g.size {
			var k int
			k, err = io.ReadFull(g.r, g.buf[n:n+g.size-more])
			n += k
		}
		if err != nil {
			return 0, err
		}
		for at := 0; at < n; at += g.size {
			negate(g.buf[at:at+g.size], g.dtype.IsFloat())
		}
		g.rest = g.buf[:n]
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// negate flips the sign of a little-endian element; for integers it takes the two's complement.
func negate(b []byte, float bool) {
	if float {
		b[len(b)-1] ^= 0x80
		return
	}
	carry := uint16(1)
	for i := range b {
		carry += uint16(^b[i])
		b[i] = byte(carry)
		carry >>= 8
	}
}
