package tokenizers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// object is a JSON object with exact names; encoding/json alone would ignore their case.
type object map[string]json.RawMessage

// get reads the field name into dst, and leaves dst unchanged if it is missing or null.
func (o object) get(name string, dst any) error {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	return describe(name, json.Unmarshal(raw, dst))
}

// describe returns an error with what was found and what is allowed.
func describe(name string, err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	}
	if mismatch.Field != "" {
		name += "." + mismatch.Field
	}
	want := mismatch.Type.Kind().String()
	switch mismatch.Type.Kind() {
	case reflect.Int64:
		want = "integer"
	case reflect.Map, reflect.Struct:
		want = "object"
	case reflect.Slice:
		want = "array"
	}
	return fmt.Errorf("%s: found %.40s, want %s", name, mismatch.Value, want)
}

// checkJSON returns an error unless data is one JSON value, nested no deeper than [MaxDepth], with
// at most [MaxItems] entries in an array or object and no name twice in an object.
func checkJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil in an array
		value bool            // the next token of an object is a value
		// tokens so far: two for each entry of an object and one for that of an array
		items int
		limit int
	}
	var open []level
	for {
		token, err := d.Token()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		if len(open) > 0 {
			top := &open[len(open)-1]
			if top.items++; top.items > top.limit {
				return fmt.Errorf("byte %d: more than %d entries", d.InputOffset(), MaxItems)
			}
			if name, ok := token.(string); ok && top.names != nil && !top.value {
				if top.names[name] {
					return fmt.Errorf("byte %d: name %.40q appears twice", d.InputOffset(), name)
				}
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == MaxDepth {
				return fmt.Errorf("byte %d: nested deeper than %d", d.InputOffset(), MaxDepth)
			}
			l := level{limit: MaxItems + 1}
			if token == json.Delim('{') {
				l = level{names: map[string]bool{}, limit: 2*MaxItems + 1}
			}
			open = append(open, l)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			if rest := bytes.TrimLeft(data[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
				return fmt.Errorf("byte %d: %.10q after the value", len(data)-len(rest), rest)
			}
			return nil
		}
	}
}

// kind returns the field type, "" for a stage that is null or missing.
func (o object) kind() (string, error) {
	if o == nil {
		return "", nil
	}
	var kind string
	if err := o.get("type", &kind); err != nil {
		return "", err
	}
	if kind == "" {
		return "", fmt.Errorf("type is missing, want text")
	}
	return kind, nil
}

// read reads every field into the place that its name maps to; the caller reads fields in known.
// Any other field is an error, because it may ask for something that is not supported.
func (o object) read(into map[string]any, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		to, ok := into[name]
		switch {
		case ok:
			if err := o.get(name, to); err != nil {
				return err
			}
		case name != "type" && !slices.Contains(known, name):
			return fmt.Errorf("field %.40q is not known", name)
		}
	}
	return nil
}

// only returns an error for fields other than type and names.
func (o object) only(names ...string) error { return o.read(nil, names...) }

// stage returns the field name as an object, nil if it is null or missing.
func (o object) stage(name string) (object, error) {
	var s object
	err := o.get(name, &s)
	return s, err
}

// readSequence reads a stage of stages: read reads each entry of field. An error names the entry.
func readSequence[T any](s object, field string, read func(object) (T, error), join func([]T) T) (T,
	error) {
	var none T
	var list []object
	if err := s.read(map[string]any{field: &list}); err != nil {
		return none, err
	}
	if list == nil {
		return none, fmt.Errorf("%s is missing, want an array", field)
	}
	var all []T
	for i, entry := range list {
		one, err := read(entry)
		if err == nil && entry == nil {
			err = fmt.Errorf("is null, want an object")
		}
		if err != nil {
			return none, fmt.Errorf("%s[%d].%w", field, i, err)
		}
		all = append(all, one)
	}
	return join(all), nil
}
