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
// and the keys that were read, see Source.NoteUnknownKeys. A reader calls its methods for all keys
// and looks at Err once, at the end.
type Values struct {
	// Path is that of the file, for errors; "" means config.json.
	Path string

	// Keys are the keys of the object. A null is as if it were missing.
	Keys map[string]json.RawMessage

	// Seen are the keys that were read.
	Seen []string

	// Err is the first error.
	Err error

	// parent keeps the errors of an object in it; nil for the file itself.
	parent *Values
}

// ConfigValues returns the values of config.json.
func (s *Source) ConfigValues() *Values {
	v := &Values{}
	v.Err = DecodeConfig(s, &v.Keys)
	if v.Keys == nil {
		v.Keys = map[string]json.RawMessage{}
	}
	return v
}

// Object returns the values of an object, which are none where it is missing.
func (v *Values) Object(key string) *Values {
	o := &Values{Keys: map[string]json.RawMessage{}, parent: v}
	v.Read(key, &o.Keys, "an object")
	return o
}

// Fail keeps an error, after the file's name, unless there was one before.
func (v *Values) Fail(format string, args ...any) {
	if v.parent != nil {
		v.parent.Fail(format, args...)
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

// Read decodes a key's value into `value`, a pointer, and reports whether it is present; want is
// what it must be, in words.
func (v *Values) Read(key string, value any, want string) bool {
	if !v.Has(key) {
		return false
	}
	if json.Unmarshal(v.Keys[key], value) != nil {
		v.Fail("%s is %s, want %s", key, v.Excerpt(key), want)
		return false
	}
	return true
}

// Excerpt returns the beginning of a key's value for an error, in one line.
func (v *Values) Excerpt(key string) string {
	const maxBytes = 40
	text := strings.Join(strings.Fields(string(v.Keys[key])), " ")
	if len(text) > maxBytes {
		return text[:maxBytes] + "..."
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

// BoundedInt reads an integer from low to high. A missing one is `missing`, where one below low
// makes that an error. The result is within the bounds also where there was an error, so that a
// reader can go on with it.
func (v *Values) BoundedInt(key string, missing, low, high int) int {
	n := missing
	isPresent := v.Read(key, &n, "a whole number")
	if !isPresent && n < low {
		v.Fail("%s is missing, want %d to %d", key, low, high)
	} else if n < low || n > high {
		v.Fail("%s is %d, want %d to %d", key, n, low, high)
	}
	return max(min(n, high), low)
}

// PositiveNumber reads a number above 0; a missing one is `missing`.
func (v *Values) PositiveNumber(key string, missing float64) float64 {
	x := missing
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

// Bool reads true or false; a missing one is `missing`.
func (v *Values) Bool(key string, missing bool) bool {
	v.Read(key, &missing, "true or false")
	return missing
}

// RequireValues fails if a key has another value than the one in values, which is the only one that
// the network computes. A missing key passes: that value is its default.
func (v *Values) RequireValues(values map[string]any) {
	v.Seen = slices.AppendSeq(v.Seen, maps.Keys(values))
	if err := RequireValues(v.Keys, "", values); err != nil {
		v.Fail("%w", err)
	}
}
