package pytorch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// entries returns the dictionary that v is, or that an object subclasses.
func entries(v any) *dict {
	switch v := v.(type) {
	case *dict:
		return v
	case *Object:
		return v.items
	}
	return nil
}

// flatten returns the tensors of a checkpoint with their names, and what is left out: the names of
// NumPy arrays among them, and of places without a tensor's name that hold tensors.
func flatten(root any) (*flattener, error) {
	d := entries(root)
	if d == nil {
		return nil, fmt.Errorf("the checkpoint is %s, want a dictionary", kindOf(root))
	}
	f := &flattener{seen: map[string]bool{}, walked: map[any]int{}}
	for _, key := range []string{"model", "state_dict", "model_state_dict"} {
		if v, ok := d.get(key); ok {
			if err := f.walk(v, "", 1); err != nil {
				return nil, err
			}
			if len(f.tensors) > 0 {
				return f, nil
			}
			f.arrays, f.hidden = nil, nil // the walk of the whole checkpoint names them
		}
	}
	if err := f.walk(d, "", 1); err != nil {
		return nil, err
	}
	switch {
	case len(f.tensors) > 0:
		return f, nil
	case len(f.arrays) > 0:
		return nil, fmt.Errorf("the checkpoint holds no tensors: %s", notTensors(f.arrays))
	case len(f.hidden) > 0:
		return nil, fmt.Errorf("the checkpoint holds no state dict: tensors in %.200s",
			strings.Join(f.hidden, ", "))
	}
	return nil, errors.New("the checkpoint holds no tensors")
}

type flattener struct {
	tensors []*Tensor
	arrays  []string
	hidden  []string
	seen    map[string]bool
	walked  map[any]int
}

// parts returns the keys and values of a container: of a dictionary, or the numbers from 0 and the
// elements of a list or a tuple. ok is false for anything else.
func parts(v any) (keys, values []any, ok bool) {
	if d := entries(v); d != nil {
		return d.keys, d.values, true
	}
	switch v := v.(type) {
	case *list:
		values = v.items
	case *tuple:
		values = v.items
	case *Object:
		if v.list == nil || strings.HasPrefix(v.Class, "builtins.") { // sets have no order
			return nil, nil, false
		}
		values = v.list.items
	default:
		return nil, nil, false
	}
	for i := range values {
		keys = append(keys, int64(i))
	}
	return keys, values, true
}

// hides reports whether tensors are below v, in what seen does not have; it looks no further than
// 100,000 containers.
func hides(v any, seen map[any]bool) bool {
	switch v := v.(type) {
	case *Tensor:
		return true
	case *list, *tuple, *dict, *Object:
		if seen[v] || optimizer(v) || len(seen) > 100_000 {
			return false
		}
		seen[v] = true
		if o, ok := v.(*Object); ok && (hides(o.state, seen) || o.args != nil && hides(o.args, seen) ||
			o.list != nil && hides(o.list, seen)) {
			return true
		}
	}
	_, values, _ := parts(v)
	return slices.ContainsFunc(values, func(item any) bool { return hides(item, seen) })
}

// walk adds the tensors below v. A container reached in too many ways is an attack: a few shared
// ones can describe any number of names.
func (f *flattener) walk(v any, prefix string, depth int) error {
	keys, values, ok := parts(v)
	if !ok {
		if hides(v, map[any]bool{}) {
			f.hidden = append(f.hidden, strings.TrimSuffix(prefix, "."))
		}
		return nil
	}
	if f.walked[v]++; f.walked[v] > 16 || depth > MaxDepth {
		return fmt.Errorf("container %q is nested too often or deeper than %d", prefix, MaxDepth)
	}
	for i, k := range keys {
		switch values[i].(type) {
		case *Tensor, *list, *tuple, *dict, *Object:
		default:
			continue
		}
		var name string
		switch k := k.(type) {
		case string:
			name = prefix + k
		case int64:
			name = prefix + strconv.FormatInt(k, 10)
		default:
			if hides(values[i], map[any]bool{}) {
				f.hidden = append(f.hidden, fmt.Sprintf("%s[%s]", prefix, kindOf(k)))
			}
			continue
		}
		if len(name) > 4096 {
			return fmt.Errorf("a tensor's name has %d bytes, want 4096", len(name))
		}
		var err error
		o, isObject := values[i].(*Object)
		switch t, isTensor := values[i].(*Tensor); {
		case isTensor:
			err = f.put(t, name)
		case isObject && o.isTensor():
			err = fmt.Errorf("tensor %q is a %s, want one of floats, integers or bools", name, o.Class)
		case optimizer(values[i]):
		case isObject && o.isArray():
			f.arrays = append(f.arrays, name)
		default:
			err = f.walk(values[i], name+".", depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put adds a tensor under its name.
func (f *flattener) put(t *Tensor, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("a tensor's name is %.100q, want UTF-8", name)
	}
	if f.seen[name] {
		return fmt.Errorf("tensor %q is there twice", name)
	}
	if len(f.tensors) == MaxTensors {
		return fmt.Errorf("more than %d tensors", MaxTensors)
	}
	f.seen[name] = true
	named := *t
	named.Name = name
	f.tensors = append(f.tensors, &named)
	return nil
}

// isTensor reports whether o stands for a tensor of an unsupported type.
func (o *Object) isTensor() bool {
	return strings.HasPrefix(o.Class, tensorOfClass) ||
		strings.HasPrefix(o.Class, "torch._utils._rebuild_")
}

// isArray reports whether o stands for a NumPy array.
func (o *Object) isArray() bool {
	return strings.HasPrefix(o.Class, "numpy.") && (strings.HasSuffix(o.Class, "._reconstruct") ||
		strings.HasSuffix(o.Class, "._frombuffer"))
}

// notTensors names arrays, the first few of many.
func notTensors(arrays []string) string {
	const most = 3
	quoted := make([]string, min(len(arrays), most))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%.100q", arrays[i])
	}
	list := strings.Join(quoted, ", ")
	switch n := len(arrays); {
	case n == 1:
		return list + " is a NumPy array, want a tensor"
	case n > most:
		return fmt.Sprintf("%s and %d more are NumPy arrays, want tensors", list, n-most)
	}
	return list + " are NumPy arrays, want tensors"
}

// optimizer reports whether v is the state of a torch.optim.Optimizer, which is not part of a
// model.
func optimizer(v any) bool {
	d := entries(v)
	if d == nil {
		return false
	}
	_, state := d.get("state")
	_, groups := d.get("param_groups")
	return state && groups
}

// Value returns the number or the text of a key beside the tensors, nil if there is none.
func (c *Checkpoint) Value(key string) any {
	v, ok := entries(c.root).get(key)
	if _, tensor := v.(*Tensor); !ok || tensor {
		return nil
	}
	return v
}

// Args returns the settings saved with the weights ("args" in MAGE, "hyper_parameters" in
// Lightning) as nil, bool, int64, float64, string, []any and map[string]any; other values are left
// out. It returns nil if there are none.
func (c *Checkpoint) Args() map[string]any {
	d := entries(c.root)
	for _, key := range []string{"args", "hyper_parameters"} {
		v, ok := d.get(key)
		if !ok {
			continue
		}
		budget := 10_000
		p, _ := plain(v, 0, &budget)
		if m, ok := p.(map[string]any); ok {
			return m
		}
	}
	return nil
}

// plain converts v to Go's types. An OmegaConf container has its entries in _content, and a node
// its value in _val. budget limits shared values, which are copied each time.
func plain(v any, depth int, budget *int) (any, bool) {
	if *budget--; *budget < 0 || depth > 32 {
		return nil, false
	}
	all := func(items []any) (any, bool) {
		out := []any{}
		for _, item := range items {
			if p, ok := plain(item, depth+1, budget); ok {
				out = append(out, p)
			}
		}
		return out, true
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, true
	case *list, *tuple:
		_, items, _ := parts(v)
		return all(items)
	case *dict:
		m := map[string]any{}
		for i, k := range v.keys {
			name, ok := k.(string)
			if !ok {
				continue
			}
			if p, ok := plain(v.values[i], depth+1, budget); ok {
				m[name] = p
			}
		}
		return m, true
	case *Object:
		if v.items != nil {
			return plain(v.items, depth+1, budget)
		}
		state, ok := v.state.(*dict)
		if !ok {
			return nil, false
		}
		for _, key := range []string{"_content", "_val"} {
			if inner, ok := state.get(key); ok {
				return plain(inner, depth+1, budget)
			}
		}
		if v.Class == "argparse.Namespace" || v.Class == "types.SimpleNamespace" {
			return plain(state, depth+1, budget)
		}
	}
	return nil, false
}
