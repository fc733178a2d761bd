package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Values reads the keys of config.json, or of an object in it, one by one. It keeps the first error
// and the keys that were asked for, see Source.Unknown.
type Values struct {
	Path string                     // of the file, for errors; "": config.json
	Keys map[string]json.RawMessage // null is as if it were missing
	Seen []string
	Err  error

	in *Values // that keeps the errors of an object; nil: it does itself
}

// ConfigValues returns those of config.json.
func (s *Source) ConfigValues() *Values {
	v := &Values{Keys: map[string]json.RawMessage{}}
	if v.Err = DecodeConfig(s, &v.Keys); v.Keys == nil {
		v.Keys = map[string]json.RawMessage{}
	}
	return v
}

// Object returns the values of an object, which are none where it is missing.
func (v *Values) Object(key string) *Values {
	o := &Values{Keys: map[string]json.RawMessage{}, in: v}
	v.Read(key, &o.Keys, "an object")
	return o
}

// Fail keeps an error, after the file's name, unless there was one before.
func (v *Values) Fail(format string, args ...any) {
	if v.in != nil {
		v.in.Fail(format, args...)
	} else if v.Err == nil {
		v.Err = fmt.Errorf(cmp.Or(v.Path, "config.json")+": "+format, args...)
	}
}

// Has reports whether a key is present with a value other than null.
func (v *Values) Has(key string) bool {
	v.Seen = append(v.Seen, key)
	raw, ok := v.Keys[key]
	return ok && string(raw) != "null"
}

// Read decodes a key's value and reports whether it is present; want is what it must be, in words.
func (v *Values) Read(key string, to any, want string) bool {
	if !v.Has(key) {
		return false
	}
	if json.Unmarshal(v.Keys[key], to) != nil {
		v.Fail("%s is %s, want %s", key, v.Excerpt(key), want)
		return false
	}
	return true
}

// Excerpt returns the beginning of a key's value for an error, in one line.
func (v *Values) Excerpt(key string) string {
	const most = 40
	text := strings.Join(strings.Fields(string(v.Keys[key])), " ")
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// Int returns an integer, nil for a missing one.
func (v *Values) Int(key string) *int {
	var n int
	if v.Read(key, &n, "a whole number") {
		return &n
	}
	return nil
}

// BoundedInt reads an integer from least to most; a missing one is `otherwise`, where one below
// least makes it an error. The result is within the bounds also where there was an error.
func (v *Values) BoundedInt(key string, otherwise, least, most int) int {
	n := otherwise
	if !v.Read(key, &n, "a whole number") && n < least {
		v.Fail("%s is missing, want %d to %d", key, least, most)
	} else if n < least || n > most {
		v.Fail("%s is %d, want %d to %d", key, n, least, most)
	}
	return max(min(n, most), least)
}

// PositiveNumber reads a number above 0; a missing one is `otherwise`.
func (v *Values) PositiveNumber(key string, otherwise float64) float64 {
	x := otherwise
	v.Read(key, &x, "a number")
	if !(x > 0) || x > math.MaxFloat32 {
		v.Fail("%s is %v, want a finite number above 0", key, x)
	}
	return x
}

// Text reads a text, "" for a missing one.
func (v *Values) Text(key string) (s string) {
	v.Read(key, &s, "text")
	return s
}

// Bool reads true or false; a missing one is `otherwise`.
func (v *Values) Bool(key string, otherwise bool) bool {
	v.Read(key, &otherwise, "true or false")
	return otherwise
}

// RequireValues keeps an error for values that a network does not compute. Missing keys have the
// right ones.
func (v *Values) RequireValues(values map[string]any) {
	v.Seen = slices.AppendSeq(v.Seen, maps.Keys(values))
	if err := RequireValues(v.Keys, "", values); err != nil {
		v.Fail("%w", err)
	}
}
