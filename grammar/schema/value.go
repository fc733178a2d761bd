package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
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

const maxDepth = 200 // of JSON that is read

// parse reads one JSON value.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d, 0)
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

func value(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
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
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			name := key.(string)
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

// maxExponent bounds the numbers that are written out in digits.
const maxExponent = 400

// rational returns the value of a number; ok is false if it is too large or too small to write out.
func rational(n json.Number) (r *big.Rat, ok bool) {
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

// equal reports whether two JSON values are the same.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, okx := rational(a)
		y, oky := rational(b)
		return okx && oky && x.Cmp(y) == 0 || a == b
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case *object:
		b, ok := b.(*object)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for _, k := range a.keys {
			if v, ok := b.get(k); !ok || !equal(a.values[k], v) {
				return false
			}
		}
		return true
	}
	return a == b
}
