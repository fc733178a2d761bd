package pytorch

import (
	"bytes"
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
	offset  int   // of the first element in the storage, in elements
	stride  []int // between neighbours of each dimension, in elements
}

// untypedStorage is the element type of a storage that counts bytes.
const untypedStorage weights.DType = ""

// storageTypes are the element types of the possible classes of a storage.
var storageTypes = map[global]weights.DType{
	"torch.FloatStorage": weights.F32, "torch.DoubleStorage": weights.F64,
	"torch.HalfStorage": weights.F16, "torch.BFloat16Storage": weights.BF16,
	"torch.LongStorage": weights.I64, "torch.IntStorage": weights.I32,
	"torch.ShortStorage": weights.I16, "torch.CharStorage": weights.I8,
	"torch.ByteStorage": weights.U8, "torch.BoolStorage": weights.BOOL,
	"torch.storage.UntypedStorage": untypedStorage,
}

// dtypes are the element types by their names in _rebuild_tensor_v3.
var dtypes = map[global]weights.DType{
	"torch.float64": weights.F64, "torch.float32": weights.F32, "torch.float16": weights.F16,
	"torch.bfloat16": weights.BF16, "torch.int64": weights.I64, "torch.int32": weights.I32,
	"torch.int16": weights.I16, "torch.int8": weights.I8, "torch.uint64": weights.U64,
	"torch.uint32": weights.U32, "torch.uint16": weights.U16, "torch.uint8": weights.U8,
	"torch.bool": weights.BOOL, "torch.float8_e4m3fn": "F8_E4M3", "torch.float8_e5m2": "F8_E5M2",
	"torch.float8_e4m3fnuz": "F8_E4M3FNUZ", "torch.float8_e5m2fnuz": "F8_E5M2FNUZ",
	"torch.float8_e8m0fnu": "F8_E8M0",
}

// elementSize returns the bytes of an element.
func elementSize(d weights.DType) int { return max(d.Bits()/8, 1) }

// readStorageID reads a persistent id ("storage", class, key, location, numel) of n parts. numel is
// -1 if it is no size.
func readStorageID(id any, n int) (class global, key string, numel int64, err error) {
	t, ok := id.(*tuple)
	if !ok || len(t.items) != n || t.items[0] != any("storage") {
		return "", "", 0, fmt.Errorf("a persistent id is %s, want a storage's tuple of %d",
			describeValue(id), n)
	}
	class, _ = t.items[1].(global)
	key, ok = t.items[2].(string)
	if !ok {
		return "", "", 0, fmt.Errorf("a storage's key is %s, want a string", describeValue(t.items[2]))
	}
	numel, ok = t.items[4].(int64)
	if !ok || numel < 0 || numel > 1<<56 {
		numel = -1
	}
	return class, key, numel, nil
}

// findStorage finds the record of a persistent id. A storage of an unsupported type is an Object:
// it is an error only if the model has a tensor of it.
func (a *archive) findStorage(id any) (any, error) {
	class, key, numel, err := readStorageID(id, 5)
	if err != nil {
		return nil, err
	}
	dtype, ok := storageTypes[class]
	if !ok {
		return &Object{Class: string(class)}, nil
	}
	rec := a.records["data/"+key]
	if rec == nil {
		return nil, fmt.Errorf("storage %q has no record %s/data/%s", key, a.root, key)
	}
	size := elementSize(dtype)
	if numel < 0 || numel > rec.size/int64(size) {
		return nil, fmt.Errorf("storage %q has %d elements of %d bytes, its record %d bytes", key, numel,
			size, rec.size)
	}
	return &storage{dtype: dtype, numel: int(numel), rec: rec}, nil
}

// buildTensor returns the function that makes a view from (storage, offset, shape, stride, ...),
// the arguments of torch._utils._rebuild_tensor and its later forms, which have at least minArgs of
// them: 4, 6 with _v2, and 7 with _v3, whose seventh is the element type.
//
// A tensor with unsupported elements, such as complex ones, is an Object of their type.
func buildTensor(minArgs int) func(args *tuple) (any, error) {
	return func(args *tuple) (any, error) { return buildView(args, minArgs) }
}

// buildView returns the tensor of the arguments of torch._utils._rebuild_tensor and its variants:
// storage, offset, shape and stride. With 7 arguments at least, the last of these is the type of
// elements. A tensor of a class of its own is an Object.
func buildView(args *tuple, minArgs int) (any, error) {
	if len(args.items) < minArgs || len(args.items) > 8 {
		return nil, fmt.Errorf("%d arguments, want %d to 8", len(args.items), minArgs)
	}
	if o, ok := args.items[0].(*Object); ok {
		return &Object{Class: tensorOfClass + o.Class}, nil
	}
	s, ok := args.items[0].(*storage)
	if !ok {
		return nil, fmt.Errorf("%s, want a storage", describeValue(args.items[0]))
	}
	if minArgs == 7 {
		class, _ := args.items[6].(global)
		dtype, ok := dtypes[class]
		if !ok {
			return &Object{Class: tensorOfClass + string(class)}, nil
		}
		numel := s.numel * elementSize(s.dtype) / elementSize(dtype)
		s = &storage{dtype: dtype, numel: numel, rec: s.rec}
	}
	if s.dtype == untypedStorage {
		return nil, errors.New("an untyped storage has no element type")
	}

	offset, ok := args.items[1].(int64)
	if !ok || offset < 0 {
		return nil, fmt.Errorf("storage offset %v, want 0 and more", args.items[1])
	}
	shape, err := readNaturals("shape", args.items[2])
	if err != nil {
		return nil, err
	}
	stride, err := readNaturals("stride", args.items[3])
	if err != nil {
		return nil, err
	}
	if len(shape) != len(stride) || len(shape) > MaxRank {
		return nil, fmt.Errorf("shape %v with stride %v, want up to %d dimensions each", shape,
			stride, MaxRank)
	}
	numel, last, ok := measureView(shape, stride, uint64(offset))
	if !ok || (numel > 0 && last >= uint64(s.numel)) || offset > int64(s.numel) {
		return nil, fmt.Errorf("view of shape %v, stride %v, offset %d is beyond its storage of "+
			"%d elements", shape, stride, offset, s.numel)
	}

	// The last argument may say that the elements are to be negated or conjugated when they are
	// read; only complex elements are conjugated.
	if minArgs > 4 && len(args.items) > minArgs {
		if metadata := dictOf(args.items[minArgs]); metadata != nil {
			if neg, _ := metadata.get("neg"); neg == any(true) {
				return nil, errors.New("a negated view: load it in PyTorch and save what resolve_neg returns")
			}
		}
	}
	return &Tensor{
		DType:   s.dtype,
		Shape:   shape,
		storage: s,
		offset:  int(offset),
		stride:  stride,
	}, nil
}

// tensorOfClass begins the class of an Object that stands for a tensor.
const tensorOfClass = "tensor of "

// readNaturals reads a tuple of numbers that are at least 0.
func readNaturals(what string, v any) ([]int, error) {
	t, ok := v.(*tuple)
	if !ok {
		return nil, fmt.Errorf("%s is %s, want a tuple", what, describeValue(v))
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

// measureView returns a view's number of elements and its last element's index, or false if one of
// them overflows. The answer does not depend on the position of a zero.
func measureView(shape, stride []int, offset uint64) (numel int, last uint64, ok bool) {
	product := uint64(1)
	hasZero := false
	last = offset
	for i, d := range shape {
		if d == 0 {
			hasZero = true
			continue
		}
		productHigh, productLow := bits.Mul64(product, uint64(d))
		reachHigh, reach := bits.Mul64(uint64(d-1), uint64(stride[i]))
		var carry uint64
		last, carry = bits.Add64(last, reach, 0)
		product = productLow

		// An element has at most 8 bytes, so that numbers of bytes do not overflow either.
		if productHigh|reachHigh|carry != 0 || product > math.MaxInt64/8 || last > math.MaxInt64/8 {
			return 0, 0, false
		}
	}
	if hasZero {
		return 0, 0, true
	}
	return int(product), last, true
}

// Numel returns the number of elements.
func (t *Tensor) Numel() int {
	n, _, _ := measureView(t.Shape, t.stride, 0)
	return n
}

// isContiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) isContiguous() bool {
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
	rec := t.storage.rec
	if err := rec.check(); err != nil {
		return nil, err
	}
	size := elementSize(t.DType)
	n := t.Numel()
	begin := rec.offset + int64(t.offset)*int64(size)
	if n == 0 || t.isContiguous() {
		return io.NopCloser(io.NewSectionReader(rec.file, begin, int64(n)*int64(size))), nil
	}

	_, last, _ := measureView(t.Shape, t.stride, 0)
	spanBytes := (int64(last) + 1) * int64(size)
	if needed := max(spanBytes, int64(n)*int64(size)); needed > MaxGather {
		return nil, fmt.Errorf("view of shape %v, stride %v takes %d bytes, want %d", t.Shape, t.stride,
			needed, MaxGather)
	}
	span := make([]byte, spanBytes)
	if err := readFull(rec.file, span, begin); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	return io.NopCloser(bytes.NewReader(t.gather(span, n, size))), nil
}

// gather returns the n elements of a strided view in order, from the bytes that it spans. It counts
// an index up, its last dimension fastest, and keeps the element's position beside it.
func (t *Tensor) gather(span []byte, n, size int) []byte {
	out := make([]byte, 0, n*size)
	index := make([]int, len(t.Shape))
	position := 0
	for len(out) < cap(out) {
		out = append(out, span[position*size:(position+1)*size]...)
		for i := len(index) - 1; i >= 0; i-- {
			position += t.stride[i]
			index[i]++
			if index[i] < t.Shape[i] {
				break
			}
			position -= index[i] * t.stride[i]
			index[i] = 0
		}
	}
	return out
}
