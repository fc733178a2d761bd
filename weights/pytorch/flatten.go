package pytorch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkNesting returns an error for containers that are too deep or contain themselves. Objects may
// contain themselves: an OmegaConf node refers to its parent.
func checkNesting(root any) error {
	const open, done = 1, 2
	state := map[any]int{}
	pending := []any{root}
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		var parts [][]any
		switch v := v.(type) {
		case *list:
			parts = [][]any{v.items}
		case *tuple:
			parts = [][]any{v.items}
		case *dict:
			parts = [][]any{v.keys, v.values}
		case *Object:
			if state[v] == 0 {
				state[v] = done
				if v.args != nil {
					pending = append(pending, v.args)
				}
				if v.items != nil {
					pending = append(pending, v.items)
				}
				if v.list != nil {
					pending = append(pending, v.list)
				}
				pending = append(pending, v.state)
			}
			return nil
		default:
			return nil
		}
		switch {
		case state[v] == open:
			return fmt.Errorf("%s contains itself", kindOf(v))
		case state[v] == done:
			return nil
		case depth > MaxDepth:
			return fmt.Errorf("nested deeper than %d", MaxDepth)
		}
		state[v] = open
		for _, part := range parts {
			for _, item := range part {
				if err := walk(item, depth+1); err != nil {
					return err
				}
			}
		}
		state[v] = done
		return nil
	}
	for len(pending) > 0 {
		v := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if err := walk(v, 1); err != nil {
			return err
		}
	}
	return nil
}

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

// flatten returns the tensors of a checkpoint with their names, and the names of NumPy arrays
// among them.
func flatten(root any) (tensors []*Tensor, arrays []string, err error) {
	d := entries(root)
	if d == nil {
		return nil, nil, fmt.Errorf("the checkpoint is %s, want a dictionary", kindOf(root))
	}
	f := flattener{seen: map[string]bool{}, walked: map[*dict]int{}}
	for _, key := range []string{"model", "state_dict", "model_state_dict"} {
		if v, ok := d.get(key); ok {
			if err := f.walk(v, "", 1); err != nil {
				return nil, nil, err
			}
			if len(f.tensors) > 0 {
				return f.tensors, f.arrays, nil
			}
			f.arrays = nil // the walk of the whole checkpoint names them
		}
	}
	if err := f.walk(d, "", 1); err != nil {
		return nil, nil, err
	}
	if len(f.tensors) == 0 && len(f.arrays) > 0 {
		return nil, nil, fmt.Errorf("the checkpoint holds no tensors: %s", notTensors(f.arrays))
	}
	if len(f.tensors) == 0 {
		return nil, nil, errors.New("the checkpoint holds no tensors")
	}
	return f.tensors, f.arrays, nil
}

type flattener struct {
	tensors []*Tensor
	arrays  []string
	seen    map[string]bool
	walked  map[*dict]int
}

// walk adds the tensors below v. A dictionary reached in too many ways is an attack: a few shared
// ones can describe any number of names.
func (f *flattener) walk(v any, prefix string, depth int) error {
	d := entries(v)
	if d == nil {
		return nil
	}
	if f.walked[d]++; f.walked[d] > 16 || depth > MaxDepth {
		return fmt.Errorf("dictionary %q is nested too often or deeper than %d", prefix, MaxDepth)
	}
	for i, k := range d.keys {
		var name string
		switch k := k.(type) {
		case string:
			name = prefix + k
		case int64:
			name = prefix + strconv.FormatInt(k, 10)
		default:
			continue
		}
		if len(name) > 4096 {
			return fmt.Errorf("a tensor's name has %d bytes, want 4096", len(name))
		}
		t, ok := d.values[i].(*Tensor)
		if !ok {
			if o, is := d.values[i].(*Object); is && o.isTensor() {
				return fmt.Errorf("tensor %q is a %s, want one of floats, integers or bools", name,
					o.Class)
			}
			if optimizer(d.values[i]) {
				continue
			}
			if o, is := d.values[i].(*Object); is && o.isArray() {
				f.arrays = append(f.arrays, name)
				continue
			}
			if err := f.walk(d.values[i], name+".", depth+1); err != nil {
				return err
			}
			continue
		}
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
	}
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
	case *list:
		return all(v.items)
	case *tuple:
		return all(v.items)
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
