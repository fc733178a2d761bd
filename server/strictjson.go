package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"unmask/param"
)

// deepest is the largest depth of nested objects and lists.
const deepest = 64

// readObject reads the one JSON object of a body. It is stricter than encoding/json: names are
// unique and as they are written, texts are whole runes, and nothing stands after the object.
func readObject(body []byte) (map[string]json.RawMessage, *Fault) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, bad("invalid_json", "", "body is empty, want one JSON object")
	}
	if at := invalidUTF8(body); at >= 0 {
		return nil, bad("invalid_utf8", "", "byte %d is no UTF-8, want UTF-8 alone", at)
	}
	if f := scan(body); f != nil {
		return nil, f
	}
	if at := loneSurrogate(body); at >= 0 {
		return nil, bad("invalid_utf8", "",
			"byte %d is half of a surrogate pair, want both halves", at)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return nil, bad("invalid_json", "", "body is %s, want one JSON object", kindOf(body))
	}
	return object, nil
}

// invalidUTF8 returns the offset of the first byte that is no UTF-8, -1 for none.
func invalidUTF8(body []byte) int {
	for at := 0; at < len(body); {
		r, n := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// scan refuses a body that is not JSON, is too deep, repeats a name, or continues after its end.
func scan(body []byte) *Fault {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil: a list
		value bool            // a value comes next, not a name
	}
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return syntax(body)
		}
		inside := len(levels) - 1
		switch t := token.(type) {
		case json.Delim:
			if t == '}' || t == ']' {
				levels = levels[:inside]
				break
			}
			if len(levels) == deepest {
				return bad("too_deep", "", "byte %d: JSON is %d deep, want at most %d",
					d.InputOffset()-1, deepest+1, deepest)
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
					return bad("duplicate_key", t, "%s is there twice, want it once", param.Quote(t))
				}
				levels[inside].names[t], levels[inside].value = true, true
				continue
			}
		}
		if n := len(levels); n > 0 {
			levels[n-1].value = false
			continue
		}
		if rest := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
			return bad("invalid_json", "", "byte %d: found %s after the end, want one JSON object",
				len(body)-len(rest), param.Quote(string(rest[:1])))
		}
		return nil
	}
}

// syntax returns the fault of a body that is no JSON. A decoder's own errors count from the start
// of a token, those of Unmarshal from the body's.
func syntax(body []byte) *Fault {
	at, what := len(body), "unexpected end"
	var raw json.RawMessage
	if s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &raw)); ok {
		if int(s.Offset) < len(body) || !strings.Contains(s.Error(), "end of JSON") {
			at, what = int(max(s.Offset, 1))-1, strings.TrimPrefix(oneLine(s), "json: ")
		}
	}
	return bad("invalid_json", "", "byte %d: %s, want one JSON object", at, what)
}

// loneSurrogate returns the offset of an escape such as \ud800 without its other half, -1 for none.
// body is valid JSON.
func loneSurrogate(body []byte) int {
	half := func(at int) (value int, ok bool) {
		if at+6 > len(body) || body[at] != '\\' || body[at+1] != 'u' {
			return 0, false
		}
		_, err := fmt.Sscanf(string(body[at+2:at+6]), "%04x", &value)
		return value, err == nil
	}
	for at := 0; at < len(body); at++ {
		if body[at] != '\\' {
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

// kindOf names what a JSON value is, for errors.
func kindOf(raw []byte) string {
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
