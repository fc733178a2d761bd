package weights

import (
	"fmt"
	"math"
	"math/bits"
)

// Tensor is one array of a model, row-major and little-endian.
//
// Data of a mapped file is valid until its Set is closed and must not be
// written. Read it through the methods where possible: they turn a file that
// was truncated underneath into an error, a plain read of Data is a fault.
type Tensor struct {
	Name  string // as the file spells it
	DType DType
	Shape []int // empty for a scalar
	Data  []byte

	src   *source // file behind Data; nil for memory
	heads int     // not 0: rows are stored interleaved, see HalfSplit
}

// Numel returns the number of elements, 1 for a scalar. Of a type without a
// known size it is what the file claims, however little data there is.
func (t *Tensor) Numel() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Float32s converts all elements of a float tensor into dst, which must hold
// Numel of them. The error names the tensor if its type is not a float, if an
// element is NaN or beyond float32, or if the file changed while it was read.
func (t *Tensor) Float32s(dst []float32) error {
	if len(dst) != t.Numel() {
		return fmt.Errorf("tensor %q: %d elements wanted, it has %d", t.Name, len(dst), t.Numel())
	}
	if err := t.ReadFloat32s(dst, 0); err != nil {
		return err
	}
	return t.unchanged()
}

// unchanged returns an error if the file is not what it was when it was opened.
func (t *Tensor) unchanged() error {
	if t.src == nil {
		return nil
	}
	if err := t.src.unchanged(); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// Floats is Float32s into a slice of its own.
func (t *Tensor) Floats() ([]float32, error) {
	if !t.DType.IsFloat() {
		return nil, t.ReadFloat32s(nil, 0)
	}
	if _, err := t.span(0, 0); err != nil {
		return nil, err
	}
	dst := make([]float32, t.Numel())
	return dst, t.ReadFloat32s(dst, 0)
}

// ReadFloat32s is Float32s for the len(dst) elements from element off on, so
// that a large tensor can be packed in pieces. Of a block format the piece must be whole
// blocks. That the file has not changed meanwhile is checked once, by Release.
func (t *Tensor) ReadFloat32s(dst []float32, off int) error {
	if !t.DType.IsFloat() {
		return fmt.Errorf("tensor %q: dtype is %s, want F32, F16, BF16, F64 or a block format", t.Name,
			t.DType)
	}
	if t.heads > 0 {
		return t.eachStored(len(dst), off,
			func(at, n, from int) error { return t.readFloat32s(dst[at:at+n], from) })
	}
	return t.readFloat32s(dst, off)
}

// readFloat32s reads elements in the order of the file.
func (t *Tensor) readFloat32s(dst []float32, off int) error {
	data, err := t.span(off, len(dst))
	if err != nil {
		return err
	}
	bad := -1
	if err := t.src.read(func() { bad = toFloat32(dst, data, t.DType) }); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if bad >= 0 {
		what := "NaN"
		if !math.IsNaN(float64(dst[bad])) {
			what = "beyond float32"
		}
		return fmt.Errorf("tensor %q: element %d is %s", t.Name, off+bad, what)
	}
	return nil
}

// Int64s returns the elements of an integer or boolean tensor.
func (t *Tensor) Int64s() ([]int64, error) {
	if !t.DType.IsInt() {
		return nil, fmt.Errorf("tensor %q: dtype %s is not an integer, want I64 I32 I16 I8 U64 U32 U16 "+
			"U8 BOOL", t.Name, t.DType)
	}
	data, err := t.span(0, t.Numel())
	if err != nil {
		return nil, err
	}
	dst := make([]int64, t.Numel())
	bad := -1
	if err := t.src.guard(func() { bad = toInt64(dst, data, t.DType) }); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if bad >= 0 {
		return nil, fmt.Errorf("tensor %q: element %d is beyond int64", t.Name, bad)
	}
	return dst, nil
}

// ReadBytes copies the raw bytes from byte off on into dst.
func (t *Tensor) ReadBytes(dst []byte, off int) error {
	if off < 0 || off > len(t.Data) || len(dst) > len(t.Data)-off {
		return fmt.Errorf("tensor %q: bytes %d..%d wanted, it has %d", t.Name, off, off+len(dst),
			len(t.Data))
	}
	if err := t.src.guard(func() { copy(dst, t.Data[off:]) }); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// Release tells the system that the pages of t, which was packed elsewhere, are no longer
// needed in memory. A later read brings them back. It is an error if the file is not what
// it was when it was opened.
func (t *Tensor) Release() error {
	if t.src == nil || t.src.closed.Load() {
		return nil
	}
	if err := releasePages(t.src.data, t.Data); err != nil {
		return fmt.Errorf("%s: release %q: %w", t.src.path, t.Name, err)
	}
	return t.unchanged()
}

// span returns the bytes of n elements from element off on.
func (t *Tensor) span(off, n int) ([]byte, error) {
	values, size := t.DType.Block()
	total, ok := numel(t.Shape)
	if !ok || values == 0 || total%values != 0 || len(t.Data)/size != total/values ||
		len(t.Data)%size != 0 {
		return nil, fmt.Errorf("tensor %q: %d bytes do not hold shape %v of %s", t.Name, len(t.Data),
			t.Shape, t.DType)
	}
	if off < 0 || off > total || n > total-off {
		return nil, fmt.Errorf("tensor %q: elements %d..%d wanted, it has %d", t.Name, off, off+n, total)
	}
	if off%values != 0 || n%values != 0 {
		return nil, fmt.Errorf("tensor %q: elements are %d..%d, want whole blocks of %d", t.Name, off,
			off+n, values)
	}
	return t.Data[off/values*size : (off+n)/values*size], nil
}

// numel multiplies the dimensions. It refuses a negative one and any shape whose non-zero
// dimensions overflow, so the answer does not depend on where a zero stands.
func numel(shape []int) (n int, ok bool) {
	product, zero := uint64(1), false
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(product, uint64(d))
		if hi != 0 || lo > math.MaxInt {
			return 0, false
		}
		product = lo
	}
	if zero {
		return 0, true
	}
	return int(product), true
}
