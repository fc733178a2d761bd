package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"unmask/internal/jsonline"
	"unmask/internal/sniff"
)

// Limits of a safetensors header.
const (
	MaxHeader   = 100_000_000 // bytes
	MaxTensors  = 100_000     // tensors in a file, and entries of its metadata
	MaxRank     = 64          // dimensions of a tensor
	metadataKey = "__metadata__"
)

// parseSafetensors returns the tensors of a file of size len(data), sorted by name, and its
// metadata. The layout is the header's length in 8 bytes, little-endian; a JSON header; and one
// buffer that the tensors cover without gaps or overlap
// (https://github.com/huggingface/safetensors, README, Format).
func parseSafetensors(data []byte, src *source) ([]*Tensor, map[string]string, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("%d bytes, a safetensors file has at least 8", len(data))
	}
	var header []byte
	var length uint64
	var headerErr error
	// A copy, so that the bytes that were checked are the bytes that are parsed.
	err := src.guard(func() {
		length = binary.LittleEndian.Uint64(data)
		if headerErr = sniff.CheckPlaceholder(data); headerErr != nil {
			return
		}
		switch {
		case length == 0 || length > MaxHeader:
			headerErr = fmt.Errorf("header of %d bytes, want 1 to %d", length, MaxHeader)
		case length > uint64(len(data)-8):
			headerErr = fmt.Errorf("header of %d bytes, the file has %d after its first 8", length,
				len(data)-8)
		default:
			header = bytes.Clone(data[8 : 8+length])
		}
	})
	if err = cmp.Or(err, headerErr); err != nil {
		return nil, nil, err
	}
	infos, metadata, err := readHeader(header)
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	tensors, err := layOut(infos, data[8+length:])
	return tensors, metadata, err
}

// info is the entry of a tensor.
type info struct {
	name       string
	dtype      DType
	shape      []int
	begin, end uint64 // in the buffer
}

// layOut checks shapes, types and offsets against each other and the real buffer, and divides the
// buffer into tensors.
func layOut(infos []info, buffer []byte) ([]*Tensor, error) {
	slices.SortFunc(infos, func(a, b info) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end),
			strings.Compare(a.name, b.name))
	})
	tensors := make([]*Tensor, 0, len(infos))
	at := uint64(0)
	for _, one := range infos {
		t, err := one.cut(at, buffer)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", one.name, err)
		}
		at = one.end
		tensors = append(tensors, t)
	}
	if at != uint64(len(buffer)) {
		return nil, fmt.Errorf("tensors end at byte %d of the data, the file has %d", at, len(buffer))
	}
	slices.SortFunc(tensors, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// cut returns the tensor, which begins at byte `at` of the buffer.
func (t info) cut(at uint64, buffer []byte) (*Tensor, error) {
	switch {
	case t.end < t.begin:
		return nil, fmt.Errorf("data_offsets [%d,%d] are reversed", t.begin, t.end)
	case t.end > uint64(len(buffer)):
		return nil, fmt.Errorf("data_offsets [%d,%d], the file has %d bytes of data", t.begin, t.end,
			len(buffer))
	case t.begin < at:
		return nil, fmt.Errorf("data_offsets [%d,%d] overlap the tensor before, which ends at %d", t.begin,
			t.end, at)
	case t.begin > at:
		return nil, fmt.Errorf("data_offsets [%d,%d] leave a hole after byte %d", t.begin, t.end, at)
	}
	n, ok := numel(t.shape)
	if !ok {
		return nil, fmt.Errorf("shape %v has more than %d elements", t.shape, math.MaxInt)
	}
	if bits := t.dtype.Bits(); bits > 0 &&
		(n > math.MaxInt/bits || n*bits%8 != 0 || uint64(n*bits/8) != t.end-t.begin) {
		return nil, fmt.Errorf("data_offsets [%d,%d] span %d bytes, not shape %v of %s", t.begin, t.end,
			t.end-t.begin, t.shape, t.dtype)
	}
	return &Tensor{Name: t.name, DType: t.dtype, Shape: t.shape,
		Data: buffer[t.begin:t.end:t.end]}, nil
}

var dtypeName = regexp.MustCompile(`^"[A-Z][A-Z0-9_]{0,31}"$`)

// readHeader reads the JSON of a header strictly: each name once, no other keys, numbers in plain
// spelling. A type may be one that this package does not know.
func readHeader(header []byte) (infos []info, metadata map[string]string, err error) {
	if err := (jsonline.Limits{Depth: 3, Items: MaxTensors + 1}).Check(header); err != nil {
		return nil, nil, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, nil, jsonline.PlainError(err)
	}
	if metadata, err = readMetadata(entries[metadataKey]); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", metadataKey, err)
	}
	delete(entries, metadataKey)
	if len(entries) > MaxTensors {
		return nil, nil, fmt.Errorf("more than %d tensors", MaxTensors)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := checkName(name); err != nil {
			return nil, nil, err
		}
		one, err := readInfo(name, entries[name])
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		infos = append(infos, one)
	}
	return infos, metadata, nil
}

// readMetadata reads the object of texts that is no tensor; without one there are none.
func readMetadata(text json.RawMessage) (map[string]string, error) {
	var found map[string]*string
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, jsonline.PlainError(err)
	}
	metadata := map[string]string{}
	for key, v := range found {
		if v == nil {
			return nil, fmt.Errorf("%.40q is null, want a string", key)
		}
		metadata[key] = *v
	}
	return metadata, nil
}

// readInfo reads the entry of a tensor.
func readInfo(name string, text json.RawMessage) (info, error) {
	t := info{name: name, shape: []int{}}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return t, jsonline.PlainError(err)
	}
	dtype, shape, offsets := fields["dtype"], fields["shape"], fields["data_offsets"]
	if len(fields) != 3 || dtype == nil || shape == nil || offsets == nil {
		return t, fmt.Errorf("keys are %.80q, want dtype, shape and data_offsets",
			slices.Sorted(maps.Keys(fields)))
	}
	if !dtypeName.Match(dtype) {
		return t, fmt.Errorf("dtype is %.40s, want a type's name", dtype)
	}
	t.dtype = DType(dtype[1 : len(dtype)-1])
	dims, err := naturals("shape", shape)
	if err != nil {
		return t, err
	}
	if len(dims) > MaxRank {
		return t, fmt.Errorf("shape has %d numbers, want %d", len(dims), MaxRank)
	}
	for _, d := range dims {
		if d > math.MaxInt {
			return t, fmt.Errorf("shape has dimension %d, want at most %d", d, math.MaxInt)
		}
		t.shape = append(t.shape, int(d))
	}
	at, err := naturals("data_offsets", offsets)
	if err == nil && len(at) != 2 {
		err = fmt.Errorf("data_offsets has %d numbers, want 2", len(at))
	}
	if err != nil {
		return t, err
	}
	t.begin, t.end = at[0], at[1]
	return t, nil
}

// naturals reads a list of whole numbers from 0.
func naturals(what string, text json.RawMessage) (list []uint64, err error) {
	var found []*uint64
	if text[0] != '[' || json.Unmarshal(text, &found) != nil || slices.Contains(found, nil) {
		return nil, fmt.Errorf("%s is %.40s, want a list of integers 0 to %d", what, text,
			uint64(math.MaxUint64))
	}
	for _, n := range found {
		list = append(list, *n)
	}
	return list, nil
}

// checkName refuses names that no checkpoint has and that would be harmful when printed or used in
// a path.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a tensor's name is empty")
	case len(name) > 1024:
		return fmt.Errorf("tensor %.40q...: a name of %d bytes, want 1024", name, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("tensor %q: the name is not UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("tensor %q: control character in the name", name)
	case name[0] == '/', slices.Contains(strings.FieldsFunc(name,
		func(r rune) bool { return r == '/' || r == '\\' }), ".."):
		return fmt.Errorf("tensor %q: the name is a path", name)
	}
	return nil
}
