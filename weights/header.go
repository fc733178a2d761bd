package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nlpodyssey/safetensors"

	"unmask/internal/sniff"
)

// Limits of a safetensors header. They bound the memory that a hostile file can make a reader
// allocate; published checkpoints stay far below them.
const (
	MaxHeader   = 100_000_000 // bytes, as in the format's reference implementation
	MaxTensors  = 100_000     // tensors in a file, and entries of its metadata
	MaxRank     = 64          // dimensions of a tensor
	metadataKey = "__metadata__"
)

// parseSafetensors returns the tensors of a file of size len(data), sorted by name, and its
// metadata. The layout is the header's length in 8 bytes, little-endian; a JSON header; and one
// buffer that the tensors cover without gaps or overlap
// (https://github.com/huggingface/safetensors, README, Format).
//
// The tensors' Data are parts of data, which usually is a mapped file: nothing of them is copied.
// Only the header is, because the file may change between the check of a byte and its decoding.
func parseSafetensors(data []byte, src *source) ([]*Tensor, map[string]string, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("%d bytes, a safetensors file has at least 8", len(data))
	}
	var header []byte
	var headerErr error
	err := src.guard(func() { header, headerErr = copyHeader(data) })
	if err = cmp.Or(err, headerErr); err != nil {
		return nil, nil, err
	}

	entries, metadata, err := decodeHeader(header)
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	tensors, err := layOut(entries, data[8+len(header):])
	return tensors, metadata, err
}

// copyHeader returns the JSON of a file's header.
func copyHeader(data []byte) ([]byte, error) {
	// A pointer of Git LFS or a web page saved as the file would otherwise be reported as a header
	// of an absurd size, which helps nobody.
	if err := sniff.CheckPlaceholder(data); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(data)
	if length == 0 || length > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes, want 1 to %d", length, MaxHeader)
	}
	if length > uint64(len(data)-8) {
		return nil, fmt.Errorf("header of %d bytes, the file has %d after its first 8", length,
			len(data)-8)
	}
	return bytes.Clone(data[8 : 8+length]), nil
}

// entry is what a header says about one tensor.
type entry struct {
	name  string
	dtype DType
	shape []int

	// begin and end delimit the tensor's bytes in the buffer after the header.
	begin, end uint64
}

// decodeHeader checks the JSON of a header and decodes it. The entries are in no order.
//
// github.com/nlpodyssey/safetensors decodes. It takes more than a checkpoint may have: of a name
// that is there twice the last one wins, and what follows the JSON is ignored. So a header is
// checked first, and two readers of one file cannot see two models. It also refuses a whole file
// for one type that it does not know, which here is an error only once that tensor is read.
func decodeHeader(header []byte) (entries []entry, metadata map[string]string, err error) {
	checker := headerChecker{header: header}
	if err := checker.check(); err != nil {
		return nil, nil, err
	}
	var decoded safetensors.Metadata
	if err := decoded.UnmarshalJSON(checker.withKnownTypes()); err != nil {
		return nil, nil, err
	}

	infos := decoded.Tensors()
	entries = make([]entry, 0, len(infos))
	for name, info := range infos {
		dtype, ok := checker.unknownTypes[name]
		if !ok {
			dtype = DType(info.DType.String())
		}
		shape := make([]int, len(info.Shape))
		for i, d := range info.Shape {
			shape[i] = int(d)
		}
		entries = append(entries, entry{
			name:  name,
			dtype: dtype,
			shape: shape,
			begin: info.DataOffsets[0],
			end:   info.DataOffsets[1],
		})
	}
	return entries, decoded.Metadata(), nil
}

// layOut divides the buffer into tensors, sorted by name. Each must begin where the one before it
// ends: tensors that overlap, or bytes that no tensor has, would let a small file claim a large
// model or hide data in it.
func layOut(entries []entry, buffer []byte) ([]*Tensor, error) {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end),
			strings.Compare(a.name, b.name))
	})
	tensors := make([]*Tensor, 0, len(entries))
	offset := uint64(0)
	for _, e := range entries {
		t, err := e.cut(buffer, offset)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
		offset = e.end
		tensors = append(tensors, t)
	}
	if offset != uint64(len(buffer)) {
		return nil, fmt.Errorf("tensors end at byte %d of the data, the file has %d", offset,
			len(buffer))
	}
	slices.SortFunc(tensors, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// cut returns the tensor, whose bytes must begin at offset and have the size of its shape.
func (e entry) cut(buffer []byte, offset uint64) (*Tensor, error) {
	switch {
	case e.end < e.begin:
		return nil, fmt.Errorf("data_offsets [%d,%d] are reversed", e.begin, e.end)
	case e.end > uint64(len(buffer)):
		return nil, fmt.Errorf("data_offsets [%d,%d], the file has %d bytes of data", e.begin, e.end,
			len(buffer))
	case e.begin < offset:
		return nil, fmt.Errorf("data_offsets [%d,%d] overlap the tensor before, which ends at %d",
			e.begin, e.end, offset)
	case e.begin > offset:
		return nil, fmt.Errorf("data_offsets [%d,%d] leave a hole after byte %d", e.begin, e.end, offset)
	}

	n, ok := countElements(e.shape)
	if !ok {
		return nil, fmt.Errorf("shape %v has more than %d elements", e.shape, math.MaxInt)
	}
	// The size of an unknown type cannot be compared; its bytes are handed out as they are.
	if bits := e.dtype.Bits(); bits > 0 &&
		(n > math.MaxInt/bits || n*bits%8 != 0 || uint64(n*bits/8) != e.end-e.begin) {
		return nil, fmt.Errorf("data_offsets [%d,%d] span %d bytes, not shape %v of %s", e.begin, e.end,
			e.end-e.begin, e.shape, e.dtype)
	}
	return &Tensor{
		Name:  e.name,
		DType: e.dtype,
		Shape: e.shape,
		Data:  buffer[e.begin:e.end:e.end],
	}, nil
}
