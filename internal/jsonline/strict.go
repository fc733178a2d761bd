package jsonline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	TooMany                   // more entries in a list or object than Limits.Items
	DuplicateName             // a name that an object has twice
)

// Error is why a text is not strict JSON.
type Error struct {
	Kind Kind

	// Name is the name that an object has twice, for DuplicateName.
	Name string

	// Message is one line.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// refuse returns an *Error of a kind.
func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Limits bound a text.
type Limits struct {
	// Depth is the most objects and lists within each other.
	Depth int

	// Items is the most entries of one object or list; 0 means any number.
	Items int
}

// MaxDepth is the largest Depth that Check allows.
const MaxDepth = 64

// ReadObject reads a text that is one JSON object and what Check allows. The error is an *Error.
func ReadObject(text []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, refuse(Syntax, "body is empty, want one JSON object")
	}
	if err := Check(text); err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, refuse(Syntax, "body is %s, want one JSON object", ValueKind(text))
	}
	return object, nil
}

// Check returns an *Error for a text that is not one JSON value, and for what encoding/json accepts
// although programs differ on its meaning: duplicate names, texts that are not valid Unicode, and
// values that are nested too deep.
func Check(text []byte) error { return Limits{Depth: MaxDepth}.Check(text) }

// Check is the function Check with other limits.
func (l Limits) Check(text []byte) error {
	if err := CheckUTF8(text); err != nil {
		return err
	}
	if err := l.scan(text); err != nil {
		return err
	}
	return CheckPairs(text)
}

// CheckUTF8 returns an *Error that names the first byte that is no UTF-8.
func CheckUTF8[Text string | []byte](text Text) error {
	whole := string(text)
	for i, r := range whole {
		// RuneError itself is valid UTF-8; only a broken byte decodes to it without being it
		if r == utf8.RuneError && !strings.HasPrefix(whole[i:], string(r)) {
			return refuse(NotUTF8, "byte %d is 0x%02x, want UTF-8", i, whole[i])
		}
	}
	return nil
}

// scan refuses a text that is not JSON, exceeds the limits, repeats a name, or continues after its
// end.
func (l Limits) scan(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()

	// levels are the objects and lists around the current token, the outermost first.
	type level struct {
		names     map[string]bool // nil for a list
		wantValue bool            // in an object: a value comes next, not a name
		items     int
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return syntaxError(text, err)
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			levels = levels[:len(levels)-1]
		} else if n := len(levels); n > 0 {
			top := &levels[n-1]
			if !top.wantValue {
				top.items++
			}
			if l.Items > 0 && top.items > l.Items {
				return refuse(TooMany, "byte %d: more than %d entries", d.InputOffset(), l.Items)
			}
			if top.names != nil && !top.wantValue {
				name := token.(string)
				if top.names[name] {
					return &Error{
						Kind:    DuplicateName,
						Name:    name,
						Message: fmt.Sprintf("%.40q is there twice, want it once", name),
					}
				}
				top.names[name] = true
				top.wantValue = true
				continue
			}
			top.wantValue = false
		}
		if delim == '{' || delim == '[' {
			if len(levels) == l.Depth {
				return refuse(TooDeep, "byte %d: JSON is %d deep, want at most %d",
					d.InputOffset()-1, l.Depth+1, l.Depth)
			}
			next := level{}
			if delim == '{' {
				next.names = map[string]bool{}
			}
			levels = append(levels, next)
		}
		if len(levels) > 0 {
			continue
		}
		after := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")
		if len(after) > 0 {
			return refuse(Syntax, "byte %d: found %q after the end, want one JSON object",
				len(text)-len(after), after[:1])
		}
		return nil
	}
}

// syntaxError returns the error of a text that is not JSON, given a decoder's. It parses the text
// again, because a decoder's errors count from the start of a token and those of Unmarshal from the
// text's.
func syntaxError(text []byte, err error) error {
	offset := len(text)
	what := "unexpected end"
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		var raw json.RawMessage
		if s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &raw)); ok {
			offset = int(max(s.Offset, 1)) - 1
			what = strings.TrimPrefix(s.Error(), "json: ")
		}
	}
	return refuse(Syntax, "byte %d: %s, want one JSON object", offset, what)
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
		if text[i] != '\\' {
			continue
		}
		first := codeUnit(i)
		if !utf16.IsSurrogate(first) {
			i++ // what is escaped may be a backslash
			continue
		}
		if utf16.DecodeRune(first, codeUnit(i+escapeBytes)) == utf8.RuneError {
			return refuse(NotUTF8, "byte %d is half of a surrogate pair, want both halves", i)
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
