package pytorch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// dictOf returns the dictionary that v is, or that an object subclasses; nil for anything else.
func dictOf(v any) *dict {
	switch v := v.(type) {
	case *dict:
		return v
	case *Object:
		return v.items
	}
	return nil
}

// stateDictKeys are the keys under which a checkpoint has the state dict of its network.
var stateDictKeys = []string{"model", "state_dict", "model_state_dict"}

// flatten returns the tensors of a checkpoint with their names, and what is left out: the names of
// NumPy arrays among them, and of places without a tensor's name that hold tensors. Averaged
// weights are not among them; where a checkpoint has no others, there are no tensors.
func flatten(d *dict, averaged *average) (*flattener, error) {
	f := &flattener{names: map[string]bool{}, visits: map[any]int{}}
	keys := stateDictKeys
	if averaged != nil && averaged.key == trainedKey {
		keys = []string{trainedKey}
	}
	for _, key := range keys {
		v, ok := d.get(key)
		if !ok {
			continue
		}
		if err := f.walk(v, "", 1); err != nil {
			return nil, err
		}
		if len(f.tensors) > 0 {
			return f, nil
		}
		// The walk of the whole checkpoint below names them again.
		f.arrays = nil
		f.hiddenPlaces = nil
	}

	trained := d
	if averaged != nil {
		trained = newDict()
		for i, key := range d.keys {
			if key != any(averaged.key) {
				trained.set(key, d.values[i])
			}
		}
	}
	if err := f.walk(trained, "", 1); err != nil {
		return nil, err
	}
	if averaged != nil && !slices.ContainsFunc(f.tensors, isParameter) {
		f.tensors = nil // such as a state of random numbers
		return f, nil
	}
	switch {
	case len(f.tensors) > 0:
		return f, nil
	case len(f.arrays) > 0:
		return nil, fmt.Errorf("the checkpoint holds no tensors: %s", describeArrays(f.arrays))
	case len(f.hiddenPlaces) > 0:
		return nil, fmt.Errorf("the checkpoint holds no state dict: tensors in %.200s",
			strings.Join(f.hiddenPlaces, ", "))
	}
	return nil, errors.New("the checkpoint holds no tensors")
}

// flattener collects the tensors of nested containers.
type flattener struct {
	tensors []*Tensor

	// arrays are the names of NumPy arrays, and hiddenPlaces those of places that hold tensors but
	// are neither dictionaries nor lists. Both are left out and reported.
	arrays       []string
	hiddenPlaces []string

	names map[string]bool // of the tensors

	// visits counts how often each container was reached.
	visits map[any]int
}

// listEntries returns the keys and values of a container: of a dictionary, or the numbers from 0
// and the elements of a list or a tuple. ok is false for anything else.
func listEntries(v any) (keys, values []any, ok bool) {
	if d := dictOf(v); d != nil {
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

// hasTensors reports whether tensors are below v, in what visited does not have. It looks no
// further than 100,000 containers, so that a hostile file cannot make it run for long.
func hasTensors(v any, visited map[any]bool) bool {
	switch v := v.(type) {
	case *Tensor:
		return true
	case *list, *tuple, *dict, *Object:
		if visited[v] || isOptimizerState(v) || len(visited) > 100_000 {
			return false
		}
		visited[v] = true
	}
	if o, ok := v.(*Object); ok {
		if hasTensors(o.state, visited) || o.args != nil && hasTensors(o.args, visited) ||
			o.list != nil && hasTensors(o.list, visited) {
			return true
		}
	}
	_, values, _ := listEntries(v)
	return slices.ContainsFunc(values, func(item any) bool { return hasTensors(item, visited) })
}

// walk adds the tensors below v. A container reached in too many ways is an attack: a few shared
// ones can describe any number of names.
func (f *flattener) walk(v any, prefix string, depth int) error {
	keys, values, ok := listEntries(v)
	if !ok {
		if hasTensors(v, map[any]bool{}) {
			f.hiddenPlaces = append(f.hiddenPlaces, strings.TrimSuffix(prefix, "."))
		}
		return nil
	}
	f.visits[v]++
	if f.visits[v] > 16 || depth > MaxDepth {
		return fmt.Errorf("container %q is nested too often or deeper than %d", prefix, MaxDepth)
	}

	for i, key := range keys {
		switch values[i].(type) {
		case *Tensor, *list, *tuple, *dict, *Object:
		default:
			continue
		}
		var name string
		switch key := key.(type) {
		case string:
			name = prefix + key
		case int64:
			name = prefix + strconv.FormatInt(key, 10)
		default:
			if hasTensors(values[i], map[any]bool{}) {
				f.hiddenPlaces = append(f.hiddenPlaces,
					fmt.Sprintf("%s[%s]", prefix, describeValue(key)))
			}
			continue
		}
		if len(name) > 4096 {
			return fmt.Errorf("a tensor's name has %d bytes, want 4096", len(name))
		}
		if err := f.addValue(values[i], name, depth); err != nil {
			return err
		}
	}
	return nil
}

// addValue adds a tensor under its name, or what a container of that name holds.
func (f *flattener) addValue(v any, name string, depth int) error {
	if t, ok := v.(*Tensor); ok {
		return f.addTensor(t, name)
	}
	o, isObject := v.(*Object)
	if isObject && o.isUnreadTensor() {
		return fmt.Errorf("tensor %q is a %s, want one of floats, integers or bools", name, o.Class)
	}
	if isOptimizerState(v) {
		return nil
	}
	if isObject && o.isArray() {
		f.arrays = append(f.arrays, name)
		return nil
	}
	return f.walk(v, name+".", depth+1)
}

// addTensor adds a tensor under its name.
func (f *flattener) addTensor(t *Tensor, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("a tensor's name is %.100q, want UTF-8", name)
	}
	if f.names[name] {
		return fmt.Errorf("tensor %q is there twice", name)
	}
	if len(f.tensors) == MaxTensors {
		return fmt.Errorf("more than %d tensors", MaxTensors)
	}
	f.names[name] = true
	named := *t // one tensor may have several names
	named.Name = name
	f.tensors = append(f.tensors, &named)
	return nil
}

// isUnreadTensor reports whether o stands for a tensor of an unsupported type.
func (o *Object) isUnreadTensor() bool {
	return strings.HasPrefix(o.Class, tensorOfClass) ||
		strings.HasPrefix(o.Class, "torch._utils._rebuild_")
}

// isArray reports whether o stands for a NumPy array.
func (o *Object) isArray() bool {
	return strings.HasPrefix(o.Class, "numpy.") && (strings.HasSuffix(o.Class, "._reconstruct") ||
		strings.HasSuffix(o.Class, "._frombuffer"))
}

// describeArrays names arrays, the first few of many, for an error or a note.
func describeArrays(arrays []string) string {
	const limit = 3
	quoted := make([]string, min(len(arrays), limit))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%.100q", arrays[i])
	}
	list := strings.Join(quoted, ", ")
	switch n := len(arrays); {
	case n == 1:
		return list + " is a NumPy array, want a tensor"
	case n > limit:
		return fmt.Sprintf("%s and %d more are NumPy arrays, want tensors", list, n-limit)
	}
	return list + " are NumPy arrays, want tensors"
}

// isOptimizerState reports whether v is the state of a torch.optim.Optimizer, which is not part of
// a model: it has two tensors of moments for each weight.
func isOptimizerState(v any) bool {
	d := dictOf(v)
	if d == nil {
		return false
	}
	_, hasState := d.get("state")
	_, hasGroups := d.get("param_groups")
	return hasState && hasGroups
}

// Value returns the number or the text of a key beside the tensors, nil if there is none.
func (c *Checkpoint) Value(key string) any {
	v, ok := dictOf(c.root).get(key)
	if _, tensor := v.(*Tensor); !ok || tensor {
		return nil
	}
	return v
}

// Args returns the settings saved with the weights ("args" in MAGE, "hyper_parameters" in
// Lightning) as nil, bool, int64, float64, string, []any and map[string]any; other values are left
// out. It returns nil if there are none.
func (c *Checkpoint) Args() map[string]any {
	d := dictOf(c.root)
	for _, key := range []string{"args", "hyper_parameters"} {
		v, ok := d.get(key)
		if !ok {
			continue
		}
		budget := 10_000
		converted, _ := convertToGo(v, 0, &budget)
		if settings, ok := converted.(map[string]any); ok {
			return settings
		}
	}
	return nil
}

// convertToGo converts v to Go's types; ok is false for a value that has none. An OmegaConf
// container has its entries in _content, and a node its value in _val. budget limits shared values,
// which are copied each time.
func convertToGo(v any, depth int, budget *int) (converted any, ok bool) {
	*budget--
	if *budget < 0 || depth > 32 {
		return nil, false
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, true
	case *list, *tuple:
		_, items, _ := listEntries(v)
		converted := []any{}
		for _, item := range items {
			if x, ok := convertToGo(item, depth+1, budget); ok {
				converted = append(converted, x)
			}
		}
		return converted, true
	case *dict:
		converted := map[string]any{}
		for i, key := range v.keys {
			name, ok := key.(string)
			if !ok {
				continue
			}
			if x, ok := convertToGo(v.values[i], depth+1, budget); ok {
				converted[name] = x
			}
		}
		return converted, true
	case *Object:
		return convertObject(v, depth, budget)
	}
	return nil, false
}

// convertObject is convertToGo for objects of the classes that hold settings.
func convertObject(o *Object, depth int, budget *int) (converted any, ok bool) {
	if o.items != nil {
		return convertToGo(o.items, depth+1, budget)
	}
	state, ok := o.state.(*dict)
	if !ok {
		return nil, false
	}
	for _, key := range []string{"_content", "_val"} {
		if content, ok := state.get(key); ok {
			return convertToGo(content, depth+1, budget)
		}
	}
	if o.Class == "argparse.Namespace" || o.Class == "types.SimpleNamespace" {
		return convertToGo(state, depth+1, budget)
	}
	return nil, false
}
