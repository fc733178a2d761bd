package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object that keeps the order of its keys, which is that of the texts that are
// written. Other values are nil, bool, string, json.Number and []any.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Bounds of JSON that is read: how deep it is, and the bytes of the keys around a value. Each
// schema in it has a JSON pointer of these keys, so that long keys around many schemas take much
// memory.
const (
	maxDepth   = 200
	maxPointer = 4096
)

// parseJSON reads one JSON value.
func parseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0, 0)
	if err == nil {
		if _, endErr := d.Token(); !errors.Is(endErr, io.EOF) {
			err = fmt.Errorf("there is more after the value")
		}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends early")
	}
	return v, err
}

// decodeValue reads a value at a depth, around which there are pointerSize bytes of keys.
func decodeValue(d *json.Decoder, depth, pointerSize int) (any, error) {
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	case pointerSize > maxPointer:
		return nil, fmt.Errorf("the keys around a value have more than %d bytes", maxPointer)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		return decodeArray(d, depth, pointerSize)
	case json.Delim('{'):
		return decodeObject(d, depth, pointerSize)
	}
	return t, nil
}

// decodeArray decodes what follows a [. pointerSize is the length of the list's JSON pointer, which
// each element's makes longer.
func decodeArray(d *json.Decoder, depth, pointerSize int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := decodeValue(d, depth+1, pointerSize+8) // an index has up to 8 digits
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

// decodeObject reads an object. As in encoding/json, the last of equal keys counts.
func decodeObject(d *json.Decoder, depth, pointerSize int) (any, error) {
	o := &object{values: map[string]any{}}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string)
		v, err := decodeValue(d, depth+1, pointerSize+len(key))
		if err != nil {
			return nil, err
		}
		if _, ok := o.values[key]; !ok {
			o.keys = append(o.keys, key)
		}
		o.values[key] = v
	}
	_, err := d.Token()
	return o, err
}

// quoteText returns a text as a JSON string, in the one form that the automata have.
func quoteText(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		if escaped, ok := escapes[r]; ok {
			out.WriteString(escaped)
		} else if r < ' ' {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// escapes are the characters with an escape of two bytes.
var escapes = map[rune]string{
	'"':  `\"`,
	'\\': `\\`,
	'\b': `\b`,
	'\f': `\f`,
	'\n': `\n`,
	'\r': `\r`,
	'\t': `\t`,
}

// maxExponent bounds the numbers that are written out in digits, and their digits.
const maxExponent = 400

// parseNumber returns the value of a number; ok is false if it is too large or too small to write
// out.
func parseNumber(n json.Number) (r *big.Rat, ok bool) {
	if len(n) > 2*maxExponent {
		return nil, false
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		e, valid := new(big.Int).SetString(strings.TrimPrefix(string(n[i+1:]), "+"), 10)
		if !valid || e.CmpAbs(big.NewInt(maxExponent)) > 0 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

// formatNumber returns a number as the engine writes it, without an exponent.
func formatNumber(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	places, exact := r.FloatPrec()
	if !exact { // a quotient such as 1/3, which no JSON number is
		places = 20
	}
	return r.FloatString(places)
}

// canonicalText returns a text that equal JSON values, and no others, have in common: 1.0 equals 1,
// and the order of keys does not matter.
func canonicalText(v any) string {
	switch v := v.(type) {
	case json.Number:
		if r, ok := parseNumber(v); ok {
			return r.RatString()
		}
		return v.String()
	case string:
		return strconv.Quote(v)
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			list[i] = canonicalText(item)
		}
		return "[" + strings.Join(list, ",") + "]"
	case *object:
		list := make([]string, len(v.keys))
		for i, k := range slices.Sorted(slices.Values(v.keys)) {
			list[i] = strconv.Quote(k) + ":" + canonicalText(v.values[k])
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	return fmt.Sprint(v)
}
