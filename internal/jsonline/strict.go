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
	Kind    Kind
	Name    string // that is there twice
	Message string // one line
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Limits bound a text.
type Limits struct {
	Depth int // of nested objects and lists
	Items int // of one object or list; 0: any number
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

// Check returns an *Error for a text that is not one JSON value, and for what encoding/json takes
// although programs differ on its meaning: names that are there twice, texts that are no whole
// runes, and values that are nested too deep.
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
	for at, r := range whole {
		if r == utf8.RuneError && !strings.HasPrefix(whole[at:], string(r)) {
			return refuse(NotUTF8, "byte %d is 0x%02x, want UTF-8", at, whole[at])
		}
	}
	return nil
}

// scan refuses a text that is not JSON, exceeds the limits, repeats a name, or continues after its
// end.
func (l Limits) scan(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil: a list
		value bool            // a value comes next, not a name
		items int
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return syntax(text, err)
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			levels = levels[:len(levels)-1]
		} else if n := len(levels); n > 0 {
			top := &levels[n-1]
			if !top.value {
				top.items++
			}
			if l.Items > 0 && top.items > l.Items {
				return refuse(TooMany, "byte %d: more than %d entries", d.InputOffset(), l.Items)
			}
			if top.names != nil && !top.value {
				name := token.(string)
				if top.names[name] {
					return &Error{Kind: DuplicateName, Name: name,
						Message: fmt.Sprintf("%.40q is there twice, want it once", name)}
				}
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
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
		if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
			return refuse(Syntax, "byte %d: found %q after the end, want one JSON object",
				len(text)-len(rest), rest[:1])
		}
		return nil
	}
}

// syntax returns the error of a text that is no JSON, from that of a decoder. A decoder's errors
// count from the start of a token, those of Unmarshal from the text's.
func syntax(text []byte, err error) error {
	at, what := len(text), "unexpected end"
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		var raw json.RawMessage
		if s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &raw)); ok {
			at, what = int(max(s.Offset, 1))-1, strings.TrimPrefix(s.Error(), "json: ")
		}
	}
	return refuse(Syntax, "byte %d: %s, want one JSON object", at, what)
}

// CheckPairs returns an *Error that names the first escape such as \ud800 without its other half.
// text is valid JSON.
func CheckPairs(text []byte) error {
	unit := func(at int) rune { // of the escape there; 0 if it is another
		if !bytes.HasPrefix(text[at:], []byte(`\u`)) {
			return 0
		}
		n, _ := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
		return rune(n)
	}
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		if first := unit(at); !utf16.IsSurrogate(first) {
			at++
		} else if utf16.DecodeRune(first, unit(at+6)) == utf8.RuneError {
			return refuse(NotUTF8, "byte %d is half of a surrogate pair, want both halves", at)
		} else {
			at += 11
		}
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
