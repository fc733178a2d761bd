package weights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nlpodyssey/safetensors"

	"unmask/internal/jsonline"
)

// span is a part of a header: from byte begin to before byte end.
type span struct {
	begin, end int
}

// headerChecker refuses headers that the library would accept although they are not what a
// checkpoint has, and does so with an error that names the tensor and quotes no more than 40 bytes
// of the file. The library decodes afterwards, so the checker only walks over the text: it builds
// no values.
type headerChecker struct {
	header []byte

	// unknownTypes are the types that the library does not know, by the name of their tensor.
	unknownTypes map[string]DType

	// unknownSpans are where these types are spelled in the header, from the first to the last.
	unknownSpans []span
}

// check returns an error for a header that is not strict: JSON in UTF-8, each name once, tensors
// with three keys and no others, whole numbers in plain spelling.
func (c *headerChecker) check() error {
	if err := (jsonline.Limits{Depth: 3, Items: MaxTensors + 1}).Check(c.header); err != nil {
		return err
	}
	begin := skipSpace(c.header, 0)
	if c.header[begin] != '{' {
		_, err := decodeObject(c.header)
		return err
	}

	c.unknownTypes = map[string]DType{}
	tensors := 0
	return c.eachMember(begin, func(name string, value span) error {
		if name == metadataKey {
			if err := checkMetadata(c.header[value.begin:value.end]); err != nil {
				return fmt.Errorf("%s: %w", metadataKey, err)
			}
			return nil
		}
		tensors++
		if tensors > MaxTensors {
			return fmt.Errorf("more than %d tensors", MaxTensors)
		}
		if err := checkName(name); err != nil {
			return err
		}
		if err := c.checkEntry(name, value); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		return nil
	})
}

// checkEntry checks the object that describes one tensor.
func (c *headerChecker) checkEntry(name string, entry span) error {
	text := c.header[entry.begin:entry.end]
	if text[0] != '{' {
		fields, err := decodeObject(text)
		if err != nil {
			return err
		}
		return wrongKeys(fields)
	}

	var dtype, shape, offsets span
	members := 0
	err := c.eachMember(entry.begin, func(key string, value span) error {
		members++
		switch key {
		case "dtype":
			dtype = value
		case "shape":
			shape = value
		case "data_offsets":
			offsets = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	if members != 3 || dtype.end == 0 || shape.end == 0 || offsets.end == 0 {
		fields, err := decodeObject(text)
		if err != nil {
			return err
		}
		return wrongKeys(fields)
	}

	if err := c.checkType(name, dtype); err != nil {
		return err
	}
	rank, largest, err := checkNaturals("shape", c.header[shape.begin:shape.end])
	if err != nil {
		return err
	}
	if rank > MaxRank {
		return fmt.Errorf("shape has %d numbers, want %d", rank, MaxRank)
	}
	if largest > math.MaxInt {
		return fmt.Errorf("shape has dimension %d, want at most %d", largest, math.MaxInt)
	}
	n, _, err := checkNaturals("data_offsets", c.header[offsets.begin:offsets.end])
	if err != nil {
		return err
	}
	if n != 2 {
		return fmt.Errorf("data_offsets has %d numbers, want 2", n)
	}
	return nil
}

var dtypeName = regexp.MustCompile(`^"[A-Z][A-Z0-9_]{0,31}"$`)

// checkType checks the spelling of a tensor's type and notes a type that the library lacks.
func (c *headerChecker) checkType(name string, dtype span) error {
	text := c.header[dtype.begin:dtype.end]
	if !dtypeName.Match(text) {
		return fmt.Errorf("dtype is %.40s, want a type's name", text)
	}
	unquoted := string(text[1 : len(text)-1])
	if _, err := safetensors.ParseDType(unquoted); err != nil {
		c.unknownTypes[name] = DType(unquoted)
		c.unknownSpans = append(c.unknownSpans, dtype)
	}
	return nil
}

// withKnownTypes returns the header with U8 for each type that the library does not know. The
// sizes of these tensors then are wrong for U8, but the library's decoder does not compare sizes;
// layOut does, with the real type.
func (c *headerChecker) withKnownTypes() []byte {
	if len(c.unknownSpans) == 0 {
		return c.header
	}
	var b bytes.Buffer
	copied := 0
	for _, s := range c.unknownSpans {
		b.Write(c.header[copied:s.begin])
		b.WriteString(`"U8"`)
		copied = s.end
	}
	b.Write(c.header[copied:])
	return b.Bytes()
}

// eachMember calls visit for each member of the object whose brace is at byte begin of the header.
func (c *headerChecker) eachMember(begin int, visit func(name string, value span) error) error {
	text := c.header
	i := skipSpace(text, begin+1)
	for text[i] != '}' {
		end := skipString(text, i)
		name, err := unquote(text[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(text, end) // the colon
		i = skipSpace(text, i+1) // the value
		end = skipValue(text, i)
		if err := visit(name, span{i, end}); err != nil {
			return err
		}
		i = skipSpace(text, end)
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return nil
}

// The following functions walk over JSON that is known to be valid. They return the byte after what
// they skip.

// skipSpace returns the index of the first byte from i on that is not JSON's white space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// skipString returns the index after the JSON string that begins at i. The text is valid JSON.
func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++ // an escaped quote does not end the string
		}
	}
	return i + 1
}

// skipValue returns the index after the JSON value that begins at i. The text is valid JSON.
func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			// A number or a word goes on to the next delimiter.
			if depth == 0 && i < len(text) && !bytes.ContainsRune([]byte(" \t\r\n,]}"), rune(text[i])) {
				continue
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) (text string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// decodeObject is for errors: what encoding/json says about a value that is not an object is what
// every other reader of JSON here says.
func decodeObject(text []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, jsonline.PlainError(err)
	}
	if fields == nil {
		return nil, errors.New("the value is null, want an object")
	}
	return fields, nil
}

// wrongKeys returns the error of a tensor's entry that has other keys than three.
func wrongKeys(fields map[string]json.RawMessage) error {
	return fmt.Errorf("keys are %.80q, want dtype, shape and data_offsets",
		slices.Sorted(maps.Keys(fields)))
}

// checkMetadata checks the one member of a header that is not a tensor: an object of strings, or
// null.
func checkMetadata(text []byte) error {
	var values map[string]*string
	if err := json.Unmarshal(text, &values); err != nil {
		return jsonline.PlainError(err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if values[key] == nil {
			return fmt.Errorf("%.40q is null, want a string", key)
		}
	}
	return nil
}

// checkNaturals checks a list of whole numbers from 0, spelled with digits only: 2.0 and 2e0 are
// refused, because other readers of the format do not take them. It returns how many there are and
// the largest.
func checkNaturals(what string, text []byte) (n int, largest uint64, err error) {
	wrong := func() error {
		return fmt.Errorf("%s is %.40s, want a list of integers 0 to %d", what, text,
			uint64(math.MaxUint64))
	}
	if text[0] != '[' {
		return 0, 0, wrong()
	}
	list := bytes.TrimSpace(text[1 : len(text)-1])
	if len(list) == 0 {
		return 0, 0, nil
	}
	for number := range bytes.SplitSeq(list, []byte{','}) {
		value, err := strconv.ParseUint(string(bytes.TrimSpace(number)), 10, 64)
		if err != nil {
			return 0, 0, wrong()
		}
		n++
		largest = max(largest, value)
	}
	return n, largest, nil
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
	}
	isSeparator := func(r rune) bool { return r == '/' || r == '\\' }
	if name[0] == '/' || slices.Contains(strings.FieldsFunc(name, isSeparator), "..") {
		return fmt.Errorf("tensor %q: the name is a path", name)
	}
	return nil
}
