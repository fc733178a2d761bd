package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/param"
)

// Stream is a tensor to be written whose bytes come from a reader.
type Stream struct {
	Name  string
	DType DType
	Shape []int

	// Open is called once, when the tensor's turn comes, so that no two tensors are open or in
	// memory at a time. Its reader must yield exactly the bytes of the shape, row-major and
	// little-endian.
	Open func() (io.ReadCloser, error)
}

// Write writes tensors in memory as a safetensors file. Equal tensors give equal bytes whatever
// their order: larger elements come first and within a type the names are sorted, as the format's
// reference does. With larger elements first, every tensor is aligned to its element's size. Errors
// are those of w, and of tensors whose data does not have their shape.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	return WriteStreams(w, streamTensors(tensors), metadata)
}

// WriteFile writes name whole or not at all: a temporary file beside it is synced and renamed, then
// the directory synced.
func WriteFile(name string, tensors []Tensor, metadata map[string]string) error {
	return WriteFileStreams(name, streamTensors(tensors), metadata)
}

// WriteStreams is Write for tensors that do not fit memory all at once.
func WriteStreams(w io.Writer, tensors []Stream, metadata map[string]string) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Stream) int {
		return cmp.Or(b.DType.Bits()-a.DType.Bits(), cmp.Compare(a.DType, b.DType),
			strings.Compare(a.Name, b.Name))
	})
	header, sizes, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for i, t := range tensors {
		if err := copyTensor(w, t, sizes[i]); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// WriteFileStreams is WriteFile for tensors that do not fit memory at once.
func WriteFileStreams(name string, tensors []Stream, metadata map[string]string) error {
	return param.AtPlace(name, atomicfile.WriteFile(name, func(w io.Writer) error {
		return WriteStreams(w, tensors, metadata)
	}))
}

// streamTensors returns tensors in memory as ones that are streamed.
func streamTensors(tensors []Tensor) []Stream {
	streams := make([]Stream, len(tensors))
	for i, t := range tensors {
		streams[i] = Stream{
			Name:  t.Name,
			DType: t.DType,
			Shape: t.Shape,
			Open: func() (io.ReadCloser, error) {
				return io.NopCloser(&tensorReader{t: t}), nil
			},
		}
	}
	return streams
}

// tensorReader reads a tensor's bytes under the guard of its source: the file that a tensor comes
// from may be cut off while it is copied.
type tensorReader struct {
	t   Tensor
	off int // of the next byte
}

// Read implements io.Reader.
func (r *tensorReader) Read(p []byte) (int, error) {
	n := min(len(p), len(r.t.Data)-r.off)
	if n == 0 {
		return 0, io.EOF
	}
	if err := r.t.ReadBytes(p[:n], r.off); err != nil {
		return 0, err
	}
	r.off += n
	return n, nil
}

// copyTensor copies the size bytes of one tensor and refuses a reader with fewer or more: either
// would shift all tensors after it.
func copyTensor(w io.Writer, t Stream, size int64) error {
	r, err := t.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, io.LimitReader(r, size))
	if err != nil {
		return err
	}
	if n < size {
		return fmt.Errorf("%d bytes of data, shape %v of %s has %d", n, t.Shape, t.DType, size)
	}
	// One byte more shows a reader that is too long.
	switch _, err := io.ReadFull(r, make([]byte, 1)); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("more data than shape %v of %s has, %d bytes", t.Shape, t.DType, size)
	default:
		return err
	}
}

// encodeHeader returns the length and the header, padded with spaces so that the data begins at a
// multiple of 8, and the tensors' sizes in bytes.
//
// It is written here and not by the library, which knows fewer types and takes a map of tensors in
// memory. The bytes of files must not change with a dependency either.
func encodeHeader(tensors []Stream, metadata map[string]string) ([]byte, []int64, error) {
	if len(tensors) > MaxTensors {
		return nil, nil, fmt.Errorf("%d tensors, want %d", len(tensors), MaxTensors)
	}
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		fmt.Fprintf(&b, "%s:%s", encodeJSON(metadataKey), encodeJSON(metadata))
	}

	sizes := make([]int64, len(tensors))
	names := map[string]bool{}
	offset := int64(0)
	for i, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return nil, nil, err
		}
		if names[t.Name] || t.Name == metadataKey {
			return nil, nil, fmt.Errorf("tensor %q: the name is taken", t.Name)
		}
		names[t.Name] = true
		size, err := byteSize(t)
		if err != nil {
			return nil, nil, err
		}
		if size > math.MaxInt64-offset {
			return nil, nil, fmt.Errorf("tensor %q: the file has more than %d bytes", t.Name,
				int64(math.MaxInt64))
		}

		if b.Len() > 9 { // more than the length and the brace
			b.WriteByte(',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{} // [], not null
		}
		fmt.Fprintf(&b, `%s:{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`,
			encodeJSON(t.Name), encodeJSON(string(t.DType)), encodeJSON(shape), offset, offset+size)
		sizes[i] = size
		offset += size
	}

	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	header := b.Bytes()
	if len(header)-8 > MaxHeader {
		return nil, nil, fmt.Errorf("header of %d bytes, want at most %d", len(header)-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, sizes, nil
}

// byteSize returns the size of a tensor's data, an error for one that the file cannot describe.
func byteSize(t Stream) (int64, error) {
	n, ok := countElements(t.Shape)
	bits := t.DType.Bits()
	if !ok || len(t.Shape) > MaxRank || bits > 0 && n > math.MaxInt/bits {
		return 0, fmt.Errorf("tensor %q: shape %v is negative or too large", t.Name, t.Shape)
	}
	if bits == 0 || n*bits%8 != 0 {
		return 0, fmt.Errorf("tensor %q: shape %v of %s has no size in bytes", t.Name, t.Shape, t.DType)
	}
	return int64(n * bits / 8), nil
}

// encodeJSON is json.Marshal for strings, integers and maps of strings, which cannot fail and come
// out sorted. It leaves <, > and & as they are, as the reference does.
func encodeJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
