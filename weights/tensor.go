package weights

import (
	"fmt"
	"math"
	"math/bits"
)

// Tensor is one array of a model, row-major and little-endian.
//
// Data of a mapped file is valid until its Set is closed and must not be written. Read it through
// the methods where possible: they turn a file that was truncated underneath into an error, where a
// plain read of Data is a fault that ends the process.
type Tensor struct {
	Name  string // as the file spells it
	DType DType
	Shape []int // outermost dimension first; empty for a scalar
	Data  []byte

	// src is the file behind Data, nil for memory.
	src *source

	// heads, if not 0, says that rows are stored interleaved in that many heads, see HalfSplit.
	heads int
}

// Numel returns the number of elements, 1 for a scalar. Of a type without a known size it is what
// the file claims, however little data there is.
func (t *Tensor) Numel() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Float32s converts all elements of a float tensor into dst, which must hold Numel of them. The
// error names the tensor if its type is not a float, if an element is NaN or beyond float32, or if
// the file changed while it was read.
//
// A NaN weight is an error here, where its tensor has a name: once a network computes with it, all
// that is left is a NaN logit.
func (t *Tensor) Float32s(dst []float32) error {
	if len(dst) != t.Numel() {
		return fmt.Errorf("tensor %q: %d elements wanted, it has %d", t.Name, len(dst), t.Numel())
	}
	if err := t.ReadFloat32s(dst, 0); err != nil {
		return err
	}
	return t.checkUnchanged()
}

// checkUnchanged returns an error if the file is not what it was when it was opened.
func (t *Tensor) checkUnchanged() error {
	if t.src == nil {
		return nil
	}
	if err := t.src.checkUnchanged(); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// Floats is Float32s into a slice of its own.
func (t *Tensor) Floats() ([]float32, error) {
	if !t.DType.IsFloat() {
		return nil, t.ReadFloat32s(nil, 0)
	}
	// Numel is only what the file claims; the bytes must be there before it is allocated.
	if _, err := t.elementBytes(0, 0); err != nil {
		return nil, err
	}
	dst := make([]float32, t.Numel())
	return dst, t.ReadFloat32s(dst, 0)
}

// ReadFloat32s is Float32s for the len(dst) elements from element first on, so that a large tensor
// can be packed in pieces. Of a block format the piece must be whole blocks. That the file has not
// changed meanwhile is checked once, by Release.
func (t *Tensor) ReadFloat32s(dst []float32, first int) error {
	if !t.DType.IsFloat() {
		return fmt.Errorf("tensor %q: dtype is %s, want F32, F16, BF16, F64 or a block format", t.Name,
			t.DType)
	}
	if t.heads > 0 {
		return t.eachFilePart(len(dst), first, func(pieceOff, length, fileOff int) error {
			return t.readInFileOrder(dst[pieceOff:pieceOff+length], fileOff)
		})
	}
	return t.readInFileOrder(dst, first)
}

// readInFileOrder converts the len(dst) elements from element first of the file on.
func (t *Tensor) readInFileOrder(dst []float32, first int) error {
	data, err := t.elementBytes(first, len(dst))
	if err != nil {
		return err
	}
	badIndex := -1
	err = t.src.read(func() { badIndex = convertToFloat32(dst, data, t.DType) })
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if badIndex < 0 {
		return nil
	}
	what := "NaN"
	if !math.IsNaN(float64(dst[badIndex])) {
		what = "beyond float32"
	}
	return fmt.Errorf("tensor %q: element %d is %s", t.Name, first+badIndex, what)
}

// Int64s returns the elements of an integer or boolean tensor. Another type is an error, and a
// number beyond int64.
func (t *Tensor) Int64s() ([]int64, error) {
	if !t.DType.IsInt() {
		return nil, fmt.Errorf("tensor %q: dtype %s is not an integer, want I64 I32 I16 I8 U64 U32 U16 "+
			"U8 BOOL", t.Name, t.DType)
	}
	data, err := t.elementBytes(0, t.Numel())
	if err != nil {
		return nil, err
	}
	dst := make([]int64, t.Numel())
	badIndex := -1
	err = t.src.guard(func() { badIndex = convertToInt64(dst, data, t.DType) })
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if badIndex >= 0 {
		return nil, fmt.Errorf("tensor %q: element %d is beyond int64", t.Name, badIndex)
	}
	return dst, nil
}

// ReadBytes copies the raw bytes from byte first on into dst. Bytes that the tensor does not have
// are an error, and a mapped file that was cut off meanwhile.
func (t *Tensor) ReadBytes(dst []byte, first int) error {
	if first < 0 || first > len(t.Data) || len(dst) > len(t.Data)-first {
		return fmt.Errorf("tensor %q: bytes %d..%d wanted, it has %d", t.Name, first, first+len(dst),
			len(t.Data))
	}
	if err := t.src.guard(func() { copy(dst, t.Data[first:]) }); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// Release tells the system that the pages of t, which was packed elsewhere, are no longer needed in
// memory. A later read brings them back. It is an error if the file is not what it was when it was
// opened.
//
// Without it, loading a model would hold the file's pages and the packed weights at once, which is
// twice the memory that running it takes.
func (t *Tensor) Release() error {
	if t.src == nil || t.src.closed.Load() {
		return nil
	}
	if err := releasePages(t.src.data, t.Data); err != nil {
		return fmt.Errorf("%s: release %q: %w", t.src.path, t.Name, err)
	}
	return t.checkUnchanged()
}

// elementBytes returns the bytes of n elements from element first on. It checks the shape against
// the data, because a Tensor may be built by hand.
func (t *Tensor) elementBytes(first, n int) ([]byte, error) {
	values, size := t.DType.Block()
	total, ok := countElements(t.Shape)
	if !ok || values == 0 || total%values != 0 || len(t.Data)/size != total/values ||
		len(t.Data)%size != 0 {
		return nil, fmt.Errorf("tensor %q: %d bytes do not hold shape %v of %s", t.Name, len(t.Data),
			t.Shape, t.DType)
	}
	if first < 0 || first > total || n > total-first {
		return nil, fmt.Errorf("tensor %q: elements %d..%d wanted, it has %d", t.Name, first, first+n,
			total)
	}
	if first%values != 0 || n%values != 0 {
		return nil, fmt.Errorf("tensor %q: elements are %d..%d, want whole blocks of %d", t.Name, first,
			first+n, values)
	}
	return t.Data[first/values*size : (first+n)/values*size], nil
}

// countElements multiplies the dimensions. It refuses a negative one and any shape whose non-zero
// dimensions overflow, so the answer does not depend on where a zero stands.
func countElements(shape []int) (n int, ok bool) {
	product := uint64(1)
	hasZero := false
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			hasZero = true
			continue
		}
		hi, lo := bits.Mul64(product, uint64(d))
		if hi != 0 || lo > math.MaxInt {
			return 0, false
		}
		product = lo
	}
	if hasZero {
		return 0, true
	}
	return int(product), true
}
