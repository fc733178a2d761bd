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
	// Open is called once, when the tensor's turn comes. Its reader must yield
	// exactly the bytes of the shape, row-major and little-endian.
	Open func() (io.ReadCloser, error)
}

// Write writes tensors in memory as a safetensors file. Equal tensors give
// equal bytes whatever their order: larger elements come first and within a
// type the names are sorted, as the format's reference does.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	return WriteStreams(w, streams(tensors), metadata)
}

// WriteFile writes name whole or not at all: a temporary file beside it is
// synced and renamed, then the directory synced.
func WriteFile(name string, tensors []Tensor, metadata map[string]string) error {
	return WriteFileStreams(name, streams(tensors), metadata)
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

func streams(tensors []Tensor) []Stream {
	list := make([]Stream, len(tensors))
	for i, t := range tensors {
		list[i] = Stream{Name: t.Name, DType: t.DType, Shape: t.Shape,
			Open: func() (io.ReadCloser, error) {
				return io.NopCloser(&tensorReader{t: t}), nil
			}}
	}
	return list
}

// tensorReader reads a tensor's bytes under the guard of its source.
type tensorReader struct {
	t  Tensor
	at int
}

func (r *tensorReader) Read(p []byte) (int, error) {
	n := min(len(p), len(r.t.Data)-r.at)
	if n == 0 {
		return 0, io.EOF
	}
	if err := r.t.ReadBytes(p[:n], r.at); err != nil {
		return 0, err
	}
	r.at += n
	return n, nil
}

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
	// One byte more than wanted tells a reader that is too long.
	switch _, err := io.ReadFull(r, make([]byte, 1)); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("more data than shape %v of %s has, %d bytes", t.Shape, t.DType, size)
	default:
		return err
	}
}

// encodeHeader returns the length, the header padded with spaces so that the
// data begins at a multiple of 8, and the tensors' sizes in bytes.
func encodeHeader(tensors []Stream, metadata map[string]string) ([]byte, []int64, error) {
	if len(tensors) > MaxTensors {
		return nil, nil, fmt.Errorf("%d tensors, want %d", len(tensors), MaxTensors)
	}
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		fmt.Fprintf(&b, "%s:%s", encode(metadataKey), encode(metadata))
	}
	sizes := make([]int64, len(tensors))
	seen := map[string]bool{}
	at := int64(0)
	for i, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return nil, nil, err
		}
		if seen[t.Name] || t.Name == metadataKey {
			return nil, nil, fmt.Errorf("tensor %q: the name is taken", t.Name)
		}
		seen[t.Name] = true
		size, err := byteSize(t)
		if err != nil {
			return nil, nil, err
		}
		if size > math.MaxInt64-at {
			return nil, nil, fmt.Errorf("tensor %q: the file has more than %d bytes", t.Name,
				int64(math.MaxInt64))
		}
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		fmt.Fprintf(&b, `%s:{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`,
			encode(t.Name), encode(string(t.DType)), encode(shape), at, at+size)
		sizes[i] = size
		at += size
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

func byteSize(t Stream) (int64, error) {
	n, ok := numel(t.Shape)
	bits := t.DType.Bits()
	if !ok || len(t.Shape) > MaxRank || bits > 0 && n > math.MaxInt/bits {
		return 0, fmt.Errorf("tensor %q: shape %v is negative or too large", t.Name, t.Shape)
	}
	if bits == 0 || n*bits%8 != 0 {
		return 0, fmt.Errorf("tensor %q: shape %v of %s has no size in bytes", t.Name, t.Shape, t.DType)
	}
	return int64(n * bits / 8), nil
}

// encode is json.Marshal for strings, integers and maps of strings, which cannot fail and come
// out sorted.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
