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

// object is a JSON object that keeps the order of its keys. Other values are nil, bool, string,
// json.Number and []any.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Bounds of JSON that is read: how deep it is, and the bytes of the keys around a value, which each
// value's JSON pointer has.
const maxDepth, maxPointer = 200, 4096

// parse reads one JSON value.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d, 0, 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("there is more after the value")
		}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends early")
	}
	return v, err
}

func value(d *json.Decoder, depth, pointer int) (any, error) {
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	case pointer > maxPointer:
		return nil, fmt.Errorf("the keys around a value have more than %d bytes", maxPointer)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1, pointer+8)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		o := &object{values: map[string]any{}}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			v, err := value(d, depth+1, pointer+len(name))
			if err != nil {
				return nil, err
			}
			if _, ok := o.values[name]; !ok {
				o.keys = append(o.keys, name)
			}
			o.values[name] = v
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil
}

// quote returns a text as a JSON string, in the one spelling that the automata have.
func quote(text string) string {
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

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`,
	'\t': `\t`}

// maxExponent bounds the numbers that are written out in digits, and their digits.
const maxExponent = 400

// rational returns the value of a number; ok is false if it is too large or too small to write out.
func rational(n json.Number) (r *big.Rat, ok bool) {
	if len(n) > 2*maxExponent {
		return nil, false
	}
	if at := strings.IndexAny(string(n), "eE"); at >= 0 {
		e, valid := new(big.Int).SetString(strings.TrimPrefix(string(n[at+1:]), "+"), 10)
		if !valid || e.CmpAbs(big.NewInt(maxExponent)) > 0 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

// digits returns a number as the engine writes it, without an exponent.
func digits(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	places, exact := r.FloatPrec()
	if !exact { // a quotient such as 1/3, which no JSON number is
		places = 20
	}
	return r.FloatString(places)
}

// canonical returns a text that equal JSON values, and no others, have in common.
func canonical(v any) string {
	switch v := v.(type) {
	case json.Number:
		if r, ok := rational(v); ok {
			return r.RatString()
		}
		return v.String()
	case string:
		return strconv.Quote(v)
	case []any:
		list := make([]string, len(v))
		for i, item := range v {
			list[i] = canonical(item)
		}
		return "[" + strings.Join(list, ",") + "]"
	case *object:
		list := make([]string, len(v.keys))
		for i, k := range slices.Sorted(slices.Values(v.keys)) {
			list[i] = strconv.Quote(k) + ":" + canonical(v.values[k])
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	return fmt.Sprint(v)
}
