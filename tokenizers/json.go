package tokenizers

import (
	"encoding/json"
	"errors"
	"fmt"
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
	return describeError(name, json.Unmarshal(raw, dst))
}

// describeError returns an error of encoding/json with the field's name, what was found and what is
// allowed.
func describeError(name string, err error) error {
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

// readFields reads every field into the place that targets has for its name; the caller reads those
// in known. Any other field is an error, because it may ask for something that is not supported.
func (o object) readFields(targets map[string]any, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		target, ok := targets[name]
		switch {
		case ok:
			if err := o.get(name, target); err != nil {
				return err
			}
		case name != "type" && !slices.Contains(known, name):
			return fmt.Errorf("field %.40q is not known", name)
		}
	}
	return nil
}

// allowOnly returns an error for fields other than type and names.
func (o object) allowOnly(names ...string) error { return o.readFields(nil, names...) }

// subobject returns the field name as an object, nil if it is null or missing.
func (o object) subobject(name string) (object, error) {
	var s object
	err := o.get(name, &s)
	return s, err
}

// chainStages returns the stage that applies stages in their order.
func chainStages[T any, F ~func(T) T](stages []F) F {
	return func(x T) T {
		for _, f := range stages {
			x = f(x)
		}
		return x
	}
}

// readSequence reads a stage of stages: read reads each entry of field. An error names the entry.
func readSequence[T any](s object, field string, read func(object) (T, error), join func([]T) T) (T,
	error) {
	var none T
	var list []object
	if err := s.readFields(map[string]any{field: &list}); err != nil {
		return none, err
	}
	if list == nil {
		return none, fmt.Errorf("%s is missing, want an array", field)
	}
	var all []T
	for i, entry := range list {
		stage, err := read(entry)
		if err == nil && entry == nil {
			err = fmt.Errorf("is null, want an object")
		}
		if err != nil {
			return none, fmt.Errorf("%s[%d].%w", field, i, err)
		}
		all = append(all, stage)
	}
	return join(all), nil
}
