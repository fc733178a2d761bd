package jsonline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind says why a text is not strict JSON. Programs decide by it; sentences are for people.
type Kind uint8

// The kinds.
const (
	Syntax  Kind = iota // no JSON, or not the JSON that is wanted
	NotUTF8             // bytes that are no UTF-8, or half of a surrogate pair
	TooDeep             // more than MaxDepth lists and objects within each other
	Twice               // a name that an object has twice
)

// Error is why a text is not strict JSON.
type Error struct {
	Kind    Kind
	Name    string // that is there twice
	Message string // one line
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// MaxDepth is the largest depth of nested objects and lists.
const MaxDepth = 64

// Object reads a text that is one JSON object and what Check allows. The error is an *Error.
func Object(text []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, refuse(Syntax, "body is empty, want one JSON object")
	}
	if err := Check(text); err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, refuse(Syntax, "body is %s, want one JSON object", KindOf(text))
	}
	return object, nil
}

// Check returns an *Error for a text that is not one JSON value, and for what encoding/json takes
// although programs differ on its meaning: names that are there twice, texts that are no whole
// runes, and values that are nested too deep.
func Check(text []byte) error {
	if at := InvalidUTF8(text); at >= 0 {
		return refuse(NotUTF8, "byte %d is no UTF-8, want UTF-8 alone", at)
	}
	if err := scan(text); err != nil {
		return err
	}
	if at := loneSurrogate(text); at >= 0 {
		return refuse(NotUTF8, "byte %d is half of a surrogate pair, want both halves", at)
	}
	return nil
}

// InvalidUTF8 returns the offset of the first byte that is no UTF-8, -1 for none.
func InvalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// scan refuses a text that is not JSON, is too deep, repeats a name, or continues after its end.
func scan(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil: a list
		value bool            // a value comes next, not a name
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return syntax(text)
		}
		inside := len(levels) - 1
		switch t := token.(type) {
		case json.Delim:
			if t == '}' || t == ']' {
				levels = levels[:inside]
				break
			}
			if len(levels) == MaxDepth {
				return refuse(TooDeep, "byte %d: JSON is %d deep, want at most %d",
					d.InputOffset()-1, MaxDepth+1, MaxDepth)
			}
			next := level{}
			if t == '{' {
				next.names = map[string]bool{}
			}
			if inside >= 0 {
				levels[inside].value = false
			}
			levels = append(levels, next)
			continue
		case string:
			if inside >= 0 && levels[inside].names != nil && !levels[inside].value {
				if levels[inside].names[t] {
					return &Error{Kind: Twice, Name: t,
						Message: fmt.Sprintf("%.40q is there twice, want it once", t)}
				}
				levels[inside].names[t], levels[inside].value = true, true
				continue
			}
		}
		if n := len(levels); n > 0 {
			levels[n-1].value = false
			continue
		}
		if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
			return refuse(Syntax, "byte %d: found %q after the end, want one JSON object",
				len(text)-len(rest), rest[:1])
		}
		return nil
	}
}

// syntax returns the error of a text that is no JSON. A decoder's own errors count from the start
// of a token, those of Unmarshal from the text's.
func syntax(text []byte) error {
	at, what := len(text), "unexpected end"
	var raw json.RawMessage
	if s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &raw)); ok {
		if int(s.Offset) < len(text) || !strings.Contains(s.Error(), "end of JSON") {
			at, what = int(max(s.Offset, 1))-1, strings.TrimPrefix(s.Error(), "json: ")
		}
	}
	return refuse(Syntax, "byte %d: %s, want one JSON object", at, what)
}

// loneSurrogate returns the offset of an escape such as \ud800 without its other half, -1 for none.
// text is valid JSON.
func loneSurrogate(text []byte) int {
	half := func(at int) (value int, ok bool) {
		if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
			return 0, false
		}
		_, err := fmt.Sscanf(string(text[at+2:at+6]), "%04x", &value)
		return value, err == nil
	}
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		value, ok := half(at)
		switch {
		case !ok:
			at++
		case value >= 0xDC00 && value < 0xE000:
			return at
		case value >= 0xD800 && value < 0xDC00:
			low, ok := half(at + 6)
			if !ok || low < 0xDC00 || low >= 0xE000 {
				return at
			}
			at += 11
		default:
			at += 5
		}
	}
	return -1
}

// KindOf names what a JSON value is, for errors.
func KindOf(raw []byte) string {
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
