package jsonline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind says why a text is not strict JSON. Programs decide by it; sentences are for people.
type Kind uint8

// The kinds.
const (
	Syntax        Kind = iota // no JSON, or not the JSON that is wanted
	NotUTF8                   // bytes that are no UTF-8, or half of a surrogate pair
	TooDeep                   // more than MaxDepth lists and objects within each other
	TooMany                   // more entries, names or values than Limits allow
	DuplicateName             // a name that an object has twice
)

// Error is why a text is not strict JSON.
type Error struct {
	Kind Kind

	// Name is the name that an object has twice, for DuplicateName.
	Name string

	// Offset is the first byte that is wrong, for NotUTF8.
	Offset int

	// Message is one line.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// refuse returns an *Error of a kind.
func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// refuseBytes returns the *Error of a byte that begins what is no text.
func refuseBytes(offset int, format string, args ...any) error {
	return &Error{
		Kind:    NotUTF8,
		Offset:  offset,
		Message: fmt.Sprintf("byte %d is "+format, append([]any{offset}, args...)...),
	}
}

// Limits bound a text.
type Limits struct {
	// Depth is the most objects and lists within each other.
	Depth int

	// Items is the most entries of one object or list; 0 means any number.
	Items int

	// Names and Values are the most names and values of the whole text, whose readers need many
	// times the bytes that stand for them; 0 means any number.
	Names  int
	Values int
}

// MaxDepth is the largest Depth that Check allows.
const MaxDepth = 64

// ReadObject reads a text that is one JSON object and what the limits allow. Its values are parts
// of text, not copies. It ends when ctx does; any other error is an *Error.
func (l Limits) ReadObject(ctx context.Context, text []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, refuse(Syntax, "body is empty, want one JSON object")
	}
	fields := map[string]json.RawMessage{}
	s := &scanner{ctx: ctx, limits: l, text: text, fields: fields}
	if err := s.check(); err != nil {
		return nil, err
	}
	if found := ValueKind(text); found != "an object" {
		return nil, refuse(Syntax, "body is %s, want one JSON object", found)
	}
	return fields, nil
}

// Check returns an *Error for a text that is not one JSON value, and for what encoding/json accepts
// although programs differ on its meaning: duplicate names, texts that are not valid Unicode, and
// values that are nested too deep.
func Check(text []byte) error { return Limits{Depth: MaxDepth}.Check(text) }

// Check is the function Check with other limits.
func (l Limits) Check(text []byte) error {
	s := &scanner{ctx: context.Background(), limits: l, text: text}
	return s.check()
}

// CheckUTF8 returns an *Error that names the first byte that is no UTF-8.
func CheckUTF8[Text string | []byte](text Text) error {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		var buffer [utf8.UTFMax]byte
		n := copy(buffer[:], text[i:])
		r, size := utf8.DecodeRune(buffer[:n])
		if r == utf8.RuneError && size == 1 { // U+FFFD itself is valid and has three bytes
			return refuseBytes(i, "0x%02x, want UTF-8", text[i])
		}
		i += size
	}
	return nil
}

// syntaxError returns the error of a text that is not JSON, in the words of encoding/json.
func syntaxError(text []byte) error {
	offset := len(text)
	what := "unexpected end"
	var raw json.RawMessage
	s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &raw))
	if ok && !isCut(text, s) {
		offset = int(max(s.Offset, 1)) - 1
		what = strings.TrimPrefix(s.Error(), "json: ")
	}
	return refuse(Syntax, "byte %d: %s, want one JSON object", offset, what)
}

// isCut reports whether an error says that the text ends too early. Of a text that ends within a
// word such as null, encoding/json says that a space follows.
func isCut(text []byte, err *json.SyntaxError) bool {
	if strings.HasPrefix(err.Error(), "unexpected end") {
		return true
	}
	isLast := int(err.Offset) == len(text) && !bytes.HasSuffix(text, []byte(" "))
	return isLast && strings.HasPrefix(err.Error(), "invalid character ' '")
}

// CheckPairs returns an *Error that names the first escape such as \ud800 without its other half.
// text is valid JSON.
func CheckPairs(text []byte) error {
	// codeUnit returns the number of an escape \uXXXX that begins at byte i, 0 for another one.
	codeUnit := func(i int) rune {
		if !bytes.HasPrefix(text[i:], []byte(`\u`)) {
			return 0
		}
		n, _ := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		return rune(n)
	}
	const escapeBytes = len(`\uXXXX`)
	for i := 0; i < len(text); i++ {
		next := bytes.IndexByte(text[i:], '\\')
		if next < 0 {
			return nil
		}
		i += next
		first := codeUnit(i)
		if !utf16.IsSurrogate(first) {
			i++ // what is escaped may be a backslash
			continue
		}
		if utf16.DecodeRune(first, codeUnit(i+escapeBytes)) == utf8.RuneError {
			return refuseBytes(i, "half of a surrogate pair, want both halves")
		}
		i += 2*escapeBytes - 1
	}
	return nil
}

// ValueKind names what a JSON value is, for errors.
func ValueKind(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return string(bytes.TrimSpace(raw))
	case 'n':
		return "null"
	}
	return "a number"
}
