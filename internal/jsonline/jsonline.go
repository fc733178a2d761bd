// Package jsonline reads JSON strictly, and says in plain words what is wrong with it.
package jsonline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// PlainError returns an error of encoding/json in words that name no types of Go, such as "steps is
// a string, want an integer".
func PlainError(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	field := wrong.Field
	for part := range strings.SplitSeq(field, ".") { // embedded structs have names of Go's
		if part != "" && part[0] >= 'A' && part[0] <= 'Z' {
			field = strings.TrimPrefix(strings.TrimPrefix(field, part), ".")
		}
	}
	field = cmp.Or(field, "the value")
	return fmt.Errorf("%s is %s, want %s", field, describeValue(wrong.Value), describeType(wrong.Type))
}

// DecodeStrict decodes a line with one value that Check allows. An unknown name is an error, in the
// words of PlainError.
func DecodeStrict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return PlainError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return Check(line)
}

// describeValue returns what errors call a value, from encoding/json's description of it.
func describeValue(value string) string {
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return fmt.Sprintf("%.40s", number)
	}
	if value == "array" || value == "object" {
		return "an " + value
	}
	return "a " + value
}

// describeType returns what errors call the values of a type.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("0 to 2^%d-1", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// MissingKey returns the first of keys that an object lacks or has as null, both of which
// encoding/json leaves at 0; "" if it has all.
func MissingKey(line []byte, keys ...string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil {
		return ""
	}
	for _, key := range keys {
		value := object[key]
		if value == nil || string(value) == "null" {
			return key
		}
	}
	return ""
}

// FiniteOrNil returns &x, or nil for NaN and the infinities, which JSON has no numbers for.
func FiniteOrNil(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// FinitesOrNil returns FiniteOrNil of each number.
func FinitesOrNil(list []float64) []*float64 {
	out := make([]*float64, len(list))
	for i, x := range list {
		out[i] = FiniteOrNil(x)
	}
	return out
}
