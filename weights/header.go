package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nlpodyssey/safetensors"

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
		if headerErr = sniff.Instead(data); headerErr != nil {
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
	foreign, err := checkHeader(header)
	if err != nil {
		return nil, nil, err
	}
	var meta safetensors.Metadata
	if err := meta.UnmarshalJSON(header); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	tensors, err := layOut(meta.Tensors(), foreign, data[8+length:])
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tensors {
		t.src = src
	}
	return tensors, meta.Metadata(), nil
}

// layOut checks shapes, types and offsets against each other and the real buffer, and divides the
// buffer into tensors.
func layOut(infos map[string]*safetensors.TensorInfo, foreign map[string]DType,
	buffer []byte) ([]*Tensor, error) {
	names := make([]string, 0, len(infos))
	for name := range infos {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := infos[names[i]].DataOffsets, infos[names[j]].DataOffsets
		if c := slices.Compare(a[:], b[:]); c != 0 {
			return c < 0
		}
		return names[i] < names[j]
	})
	tensors := make([]*Tensor, 0, len(names))
	at := uint64(0)
	for _, name := range names {
		info := infos[name]
		dtype := DType(info.DType.String())
		if d, ok := foreign[name]; ok {
			dtype = d
		}
		t, err := cutTensor(info, dtype, at, buffer)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		t.Name, at = name, info.DataOffsets[1]
		tensors = append(tensors, t)
	}
	if at != uint64(len(buffer)) {
		return nil, fmt.Errorf("tensors end at byte %d of the data, the file has %d", at, len(buffer))
	}
	slices.SortFunc(tensors, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// cutTensor returns the tensor that begins at byte `at` of the buffer.
func cutTensor(info *safetensors.TensorInfo, dtype DType, at uint64,
	buffer []byte) (*Tensor, error) {
	begin, end := info.DataOffsets[0], info.DataOffsets[1]
	switch {
	case end < begin:
		return nil, fmt.Errorf("data_offsets [%d,%d] are reversed", begin, end)
	case end > uint64(len(buffer)):
		return nil, fmt.Errorf("data_offsets [%d,%d], the file has %d bytes of data", begin, end,
			len(buffer))
	case begin < at:
		return nil, fmt.Errorf("data_offsets [%d,%d] overlap the tensor before, which ends at %d", begin,
			end, at)
	case begin > at:
		return nil, fmt.Errorf("data_offsets [%d,%d] leave a hole after byte %d", begin, end, at)
	}
	shape := make([]int, len(info.Shape))
	for i, d := range info.Shape {
		if d > math.MaxInt {
			return nil, fmt.Errorf("shape %d is too large, a dimension is at most %d", info.Shape,
				math.MaxInt)
		}
		shape[i] = int(d)
	}
	n, ok := numel(shape)
	if !ok {
		return nil, fmt.Errorf("shape %v has more than %d elements", shape, math.MaxInt)
	}
	if bits := dtype.Bits(); bits > 0 &&
		(n > math.MaxInt/bits || n*bits%8 != 0 || uint64(n*bits/8) != end-begin) {
		return nil, fmt.Errorf("data_offsets [%d,%d] span %d bytes, not shape %v of %s", begin, end,
			end-begin, shape, dtype)
	}
	return &Tensor{DType: dtype, Shape: shape, Data: buffer[begin:end:end]}, nil
}

// library reports whether github.com/nlpodyssey/safetensors knows a type; for any other type it
// refuses the whole file.
func library(d DType) bool {
	_, err := safetensors.ParseDType(string(d))
	return err == nil
}

// null matches what follows a key whose value is null, as the library reads missing metadata.
var null = regexp.MustCompile(`^[ \t\r\n]*:[ \t\r\n]*null\b`)

var dtypeName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,31}$`)

// checkHeader refuses what the library would accept: duplicate names, invalid UTF-8, bytes after
// the JSON, unusual spellings of a key or an integer, more entries than the limits. It returns the
// types that the library does not know by tensor name, and overwrites them in header with U8.
func checkHeader(header []byte) (foreign map[string]DType, err error) {
	if !utf8.Valid(header) {
		return nil, fmt.Errorf("header is not UTF-8")
	}
	if header[0] != '{' {
		return nil, fmt.Errorf("header begins with %q, want '{'", header[0])
	}
	c := &checker{dec: json.NewDecoder(bytes.NewReader(header)), header: header,
		foreign: map[string]DType{}}
	c.dec.UseNumber()
	if err := c.top(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the JSON ends early")
		}
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimLeft(header[c.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("header: %d bytes after the JSON, want spaces", len(rest))
	}
	return c.foreign, nil
}

// checker walks the tokens of a header. Anything but a flat object of tensors and one object of
// strings is refused at its first token, so no limit on depth is needed.
type checker struct {
	dec     *json.Decoder
	header  []byte
	foreign map[string]DType
}

// object calls field for every key up to the closing brace.
func (c *checker) object(limit int, field func(key string) error) error {
	if err := c.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("found %s, want a key", show(tok))
		}
		if seen[key] {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		if len(seen) > limit {
			return fmt.Errorf("more than %d entries", limit)
		}
		if err := field(key); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

func (c *checker) delim(want json.Delim) error {
	tok, err := c.dec.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("found %s, want %q", show(tok), want.String())
	}
	return nil
}

func (c *checker) top() error {
	tensors := 0
	return c.object(MaxTensors+1, func(key string) error {
		if key == metadataKey {
			if rest := c.header[c.dec.InputOffset():]; null.Match(rest) {
				_, err := c.dec.Token()
				return err
			}
			return within(metadataKey, c.object(MaxTensors, func(k string) error {
				_, err := c.str()
				return within(strconv.Quote(k), err)
			}))
		}
		if tensors++; tensors > MaxTensors {
			return fmt.Errorf("more than %d tensors", MaxTensors)
		}
		if err := checkName(key); err != nil {
			return err
		}
		if err := c.tensor(key); err != nil {
			return fmt.Errorf("tensor %q: %w", key, err)
		}
		return nil
	})
}

// within adds to an error where it arose.
func within(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (c *checker) tensor(name string) error {
	fields := 0
	err := c.object(3, func(key string) error {
		fields++
		switch key {
		case "dtype":
			return within(key, c.dtype(name))
		case "shape":
			_, err := c.integers(MaxRank)
			return within(key, err)
		case "data_offsets":
			n, err := c.integers(2)
			if err == nil && n != 2 {
				err = fmt.Errorf("%d numbers, want 2", n)
			}
			return within(key, err)
		}
		return fmt.Errorf("key %q, want dtype, shape, data_offsets", key)
	})
	if err == nil && fields != 3 {
		err = fmt.Errorf("%d keys, want dtype, shape, data_offsets", fields)
	}
	return err
}

func (c *checker) dtype(name string) error {
	s, err := c.str()
	if err != nil {
		return err
	}
	if library(DType(s)) {
		return nil
	}
	end := int(c.dec.InputOffset())
	quoted := `"` + s + `"`
	if !dtypeName.MatchString(s) || !bytes.HasSuffix(c.header[:end], []byte(quoted)) {
		return fmt.Errorf("%.40q is not a type's name", s)
	}
	c.foreign[name] = DType(s)
	copy(c.header[end-len(quoted):end], fmt.Sprintf("%-*s", len(quoted), `"U8"`))
	return nil
}

func (c *checker) str() (string, error) {
	tok, err := c.dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("found %s, want a string", show(tok))
	}
	return s, nil
}

// integers reads an array of at most `limit` natural numbers in plain spelling.
func (c *checker) integers(limit int) (n int, err error) {
	if err := c.delim('['); err != nil {
		return 0, err
	}
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return 0, err
		}
		number, ok := tok.(json.Number)
		if ok {
			_, err = strconv.ParseUint(number.String(), 10, 64)
		}
		if !ok || err != nil {
			return 0, fmt.Errorf("found %s, want integers 0 to %d", show(tok), uint64(math.MaxUint64))
		}
		if n++; n > limit {
			return 0, fmt.Errorf("more than %d numbers", limit)
		}
	}
	_, err = c.dec.Token()
	return n, err
}

// show returns a token, shortened, for an error.
func show(tok json.Token) string {
	if tok == nil {
		return "null"
	}
	if s, ok := tok.(string); ok {
		return fmt.Sprintf("%.40q", s)
	}
	return fmt.Sprintf("%.40s", fmt.Sprint(tok))
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
