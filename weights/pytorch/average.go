package pytorch

import (
	"fmt"
	"slices"
	"strings"

	"unmask/param"
	"unmask/weights"
)

// The sets of weights that a checkpoint may hold. Training programs keep an exponential moving
// average of the weights, which moves less from step to step, and most authors run that one.
const (
	RawWeights      = "raw"
	AveragedWeights = "ema"
)

// WeightSets are the values of Options.Weights besides "".
var WeightSets = []string{AveragedWeights, RawWeights}

// average is a second set of weights in a checkpoint, the moving average of the first.
type average struct {
	// place is where the checkpoint has it, such as ema.shadow_params.
	place string

	// key is that of the place in the checkpoint's dictionary; trainedKey says that the two sets
	// have changed places.
	key string

	// tensors have the names of their place. If isList is true they have numbers instead, in the
	// order of the network's parameters.
	tensors []*Tensor
	isList  bool
}

// Keys of programs that keep both sets.
const (
	listKey = "shadow_params" // of ema's state_dict in MDLM, SDTT and torch_ema

	// Lightning's callbacks of weight averaging put the averaged weights in the place of the trained
	// ones, which get this key.
	trainedKey = "current_model_state"
)

// findAverage returns the averaged weights that a checkpoint has beside its state dict, nil if it
// has none. Numbers that are averaged too, such as a loss, are none.
func findAverage(root *dict) (*average, error) {
	var unique *average
	add := func(key string, v any, place string) error {
		a, err := readAverage(v, place)
		if err != nil || a == nil {
			return err
		}
		if unique != nil {
			return fmt.Errorf("the checkpoint has averaged weights in %.60q and %.60q, want one of them",
				unique.place, a.place)
		}
		a.key = key
		unique = a
		return nil
	}

	if trained, _ := root.get(trainedKey); hasTensors(trained, map[any]bool{}) {
		v, _ := root.get("state_dict")
		a, err := readAverage(v, "state_dict")
		if a != nil {
			a.key = trainedKey
		}
		return a, err
	}
	for i, key := range root.keys {
		name, isText := key.(string)
		if isText && !slices.Contains(stateDictKeys, name) && weights.NamesAverage(name) {
			if err := add(name, root.values[i], name); err != nil {
				return nil, err
			}
		}
	}
	// Lightning keeps the state of each callback under the callback's name.
	callbacks, _ := root.get("callbacks")
	states := dictOf(callbacks)
	if states == nil {
		return unique, nil
	}
	for i, key := range states.keys {
		state := dictOf(states.values[i])
		if state == nil {
			continue
		}
		for k, inner := range state.keys {
			name, isText := inner.(string)
			if isText && weights.NamesAverage(name) {
				place := fmt.Sprintf("callbacks.%v.%s", key, name)
				if err := add("callbacks", state.values[k], place); err != nil {
					return nil, err
				}
			}
		}
	}
	return unique, nil
}

// readAverage returns the averaged weights in v, nil if there are none.
func readAverage(v any, place string) (*average, error) {
	if d := dictOf(v); d != nil {
		for _, key := range []string{listKey, "shadow"} {
			if inner, ok := d.get(key); ok && hasTensors(inner, map[any]bool{}) {
				v = inner
				place += "." + key
				break
			}
		}
	}
	f := &flattener{names: map[string]bool{}, visits: map[any]int{}}
	if err := f.walk(v, "", 1); err != nil {
		return nil, err
	}
	isNumber := func(t *Tensor) bool { return len(t.Shape) == 0 }
	a := &average{place: place}
	if slices.ContainsFunc(f.tensors, func(t *Tensor) bool { return !isNumber(t) }) {
		a.tensors = f.tensors
		a.isList = dictOf(v) == nil
		if !a.isList {
			a.tensors = slices.DeleteFunc(a.tensors, isNumber) // counters and the rate of decay
		}
		return a, nil
	}
	return nil, nil
}

// splitAverage returns the averaged weights that a network keeps as a module of its own, so that
// they are in the state dict beside the others, and the other tensors. The average is nil if there
// is no such module, or if its tensors are not those of the rest of the network.
func splitAverage(tensors []*Tensor) (*average, []*Tensor) {
	var raw []*Tensor
	a := &average{}
	for _, t := range tensors {
		module, inner, isInModule := strings.Cut(t.Name, ".")
		if !isInModule || !weights.NamesAverage(module) || a.place != "" && a.place != module {
			raw = append(raw, t)
			continue
		}
		a.place = module
		if len(t.Shape) > 0 { // a scalar is no weight, but the decay or the number of updates
			named := *t
			named.Name = inner
			a.tensors = append(a.tensors, &named)
		}
	}
	if len(a.tensors) == 0 || len(raw) == 0 {
		return nil, tensors
	}
	if _, err := a.match(raw); err != nil {
		return nil, tensors
	}
	return a, raw
}

// selectWeights makes the tensors of c those of the set that was asked for; "" means the averaged
// ones where the file has them, which authors run. It reports by say what was taken if there was
// anything to choose. used is the set's name, "" where the file has a single set.
func (c *Checkpoint) selectWeights(name string, say func(format string, args ...any)) (used string,
	err error) {
	if name != "" && !slices.Contains(WeightSets, name) {
		return "", param.Unknown("weights", name, WeightSets)
	}
	if c.average == nil {
		switch name {
		case AveragedWeights:
			return "", &param.Error{
				Name:   "weights",
				Found:  name,
				Want:   "raw: the checkpoint has no averaged weights beside them",
				Reason: param.NoEffect,
			}
		case RawWeights:
			say("weights raw changes nothing: the checkpoint has no others")
		}
		return "", nil
	}

	if name == RawWeights {
		if len(c.tensors) == 0 {
			return "", &param.Error{
				Name:   "weights",
				Found:  name,
				Want:   "ema: the checkpoint has the averaged weights alone",
				Reason: param.NoEffect,
			}
		}
		say("weights raw; the averaged ones in %.100s are left out", c.average.place)
		return RawWeights, nil
	}
	if len(c.tensors) == 0 {
		c.tensors = c.average.tensors
		return AveragedWeights, nil
	}
	tensors, err := c.average.replace(c.tensors, say)
	if err != nil {
		return "", fmt.Errorf("averaged weights in %.100s: %w; weights raw takes the others",
			c.average.place, err)
	}
	c.tensors = tensors
	say("weights ema, the averaged ones in %.100s; weights raw takes the others", c.average.place)
	return AveragedWeights, nil
}

// replace returns the network's tensors with the averaged values. Buffers have no average, nor has
// what was not trained; these stay as they are.
func (a *average) replace(raw []*Tensor, say func(format string, args ...any)) ([]*Tensor, error) {
	averaged, err := a.match(raw)
	if err != nil {
		return nil, err
	}
	byView := map[view]*Tensor{}
	for _, t := range raw {
		if averaged[t.Name] != nil {
			byView[viewOf(t)] = averaged[t.Name]
		}
	}

	var unaveraged []string
	replaced := make([]*Tensor, len(raw))
	for i, t := range raw {
		value := averaged[t.Name]
		if value == nil {
			value = byView[viewOf(t)] // one parameter under two names, such as a tied head
		}
		if value == nil || !slices.Equal(value.Shape, t.Shape) {
			replaced[i] = t
			if isParameter(t) {
				unaveraged = append(unaveraged, t.Name)
			}
			continue
		}
		named := *value
		named.Name = t.Name
		replaced[i] = &named
	}
	if len(unaveraged) > 0 {
		say("%d tensors have no average and are as they were, such as %.100s", len(unaveraged),
			unaveraged[0])
	}
	return replaced, nil
}

// view is the place of a tensor's elements.
type view struct {
	record *record
	offset int
	shape  string
}

// viewOf returns the place of a tensor's elements. Two tensors of one place are one parameter under
// two names.
func viewOf(t *Tensor) view {
	return view{t.storage.rec, t.offset, fmt.Sprint(t.Shape)}
}

// bufferNames end the names of tensors that a network keeps beside its parameters.
var bufferNames = []string{"inv_freq", "running_mean", "running_var", "num_batches_tracked",
	"cos_cached", "sin_cached", "position_ids", "token_type_ids"}

// isParameter reports whether a tensor of a state dict is one of the network's parameters, and no
// buffer.
func isParameter(t *Tensor) bool {
	if !t.DType.IsFloat() && !strings.HasPrefix(string(t.DType), "F8_") {
		return false
	}
	return !slices.Contains(bufferNames, t.Name[strings.LastIndexByte(t.Name, '.')+1:])
}

// match returns the averaged tensor of each tensor that has one, by name.
func (a *average) match(raw []*Tensor) (map[string]*Tensor, error) {
	if a.isList {
		return a.matchList(raw)
	}
	return a.matchNames(raw)
}

// matchList finds the averaged tensors of a list without names by the order of the parameters. A
// parameter with two names is in the list once.
//
// MDLM and SDTT average backbone.parameters() and then noise.parameters(), others all parameters of
// the module. Both are the order of the state dict, and a list of another length or with another
// shape anywhere is refused, because it is of another network.
func (a *average) matchList(raw []*Tensor) (map[string]*Tensor, error) {
	var whole []*Tensor // the parameters of the whole module
	listed := map[view]bool{}
	for _, t := range raw {
		if !isParameter(t) || listed[viewOf(t)] {
			continue
		}
		listed[viewOf(t)] = true
		whole = append(whole, t)
	}
	var network []*Tensor
	for _, prefix := range []string{"backbone.", "noise."} {
		for _, t := range whole {
			if strings.HasPrefix(t.Name, prefix) {
				network = append(network, t)
			}
		}
	}

	var reason error
	for _, parameters := range [][]*Tensor{network, whole} {
		if len(parameters) == 0 {
			continue
		}
		err := a.checkList(parameters)
		if err != nil && reason == nil {
			reason = err
		}
		if err == nil {
			averaged := map[string]*Tensor{}
			for i, t := range parameters {
				averaged[t.Name] = a.tensors[i]
			}
			return averaged, nil
		}
	}
	return nil, reason
}

// checkList returns an error if the list is not one of these parameters.
func (a *average) checkList(parameters []*Tensor) error {
	if len(a.tensors) != len(parameters) {
		return fmt.Errorf("%d tensors, want %d, one for each parameter", len(a.tensors), len(parameters))
	}
	for i, t := range parameters {
		if !slices.Equal(a.tensors[i].Shape, t.Shape) {
			return fmt.Errorf("tensor %d has shape %v, want %v as %.100s", i, a.tensors[i].Shape, t.Shape,
				t.Name)
		}
	}
	return nil
}

// matchNames finds the averaged tensors of a dictionary by their names. What wraps the averaged
// network, such as timm's and PyTorch's "module", and what wraps the trained one, such as
// Lightning's "model", may begin the names on one side alone. CompVis' programs leave out the dots.
func (a *average) matchNames(raw []*Tensor) (map[string]*Tensor, error) {
	sameName := func(name string) string { return name }
	withoutDots := func(name string) string { return strings.ReplaceAll(name, ".", "") }
	var matches map[string]*Tensor
	for _, spell := range []func(string) string{sameName, withoutDots} {
		byName := map[string]*Tensor{}
		for _, t := range raw {
			byName[spell(t.Name)] = t
		}
		for _, wrapper := range listWrappers(raw) {
			for _, ownWrapper := range listWrappers(a.tensors[:1]) {
				matched := a.matchWrapped(byName, ownWrapper, spell(wrapper))
				if matched == nil {
					continue
				}
				// Two networks in one file may have parts of the same names, and only one was averaged.
				if matches != nil && !sameKeys(matches, matched) {
					return nil, fmt.Errorf("the names are those of two parts of the network, such as %.60s",
						anyKey(matched))
				}
				matches = matched
			}
		}
		if matches != nil {
			return matches, nil
		}
	}
	return nil, fmt.Errorf("%d tensors, such as %.100s, are not the network's: want its names and shapes",
		len(a.tensors), a.tensors[0].Name)
}

// matchWrapped is matchNames for one wrapper of each side. It returns nil if some averaged tensor
// has no counterpart.
func (a *average) matchWrapped(byName map[string]*Tensor, ownWrapper,
	wrapper string) map[string]*Tensor {
	averaged := map[string]*Tensor{}
	for _, t := range a.tensors {
		inner, ok := strings.CutPrefix(t.Name, ownWrapper)
		counterpart := byName[wrapper+inner]
		if !ok || counterpart == nil || !slices.Equal(counterpart.Shape, t.Shape) {
			return nil
		}
		averaged[counterpart.Name] = t
	}
	return averaged
}

// listWrappers returns what may begin the names of a whole network: nothing, and up to three outer
// modules of its tensors. The number is bounded, because a hostile file may have any names.
func listWrappers(tensors []*Tensor) []string {
	const maxDepth = 3
	const maxWrappers = 64
	wrappers := []string{""}
	listed := map[string]bool{}
	for depth := range maxDepth {
		for _, t := range tensors {
			parts := strings.SplitAfterN(t.Name, ".", depth+2)
			if len(parts) < depth+2 {
				continue
			}
			wrapper := strings.Join(parts[:depth+1], "")
			if !listed[wrapper] && len(wrappers) < maxWrappers {
				listed[wrapper] = true
				wrappers = append(wrappers, wrapper)
			}
		}
	}
	return wrappers
}

// sameKeys reports whether two maps have tensors of the same names.
func sameKeys(a, b map[string]*Tensor) bool {
	for name := range a {
		if b[name] == nil {
			return false
		}
	}
	return len(a) == len(b)
}

// anyKey returns the first key in the order of the alphabet, so that an error is always the same.
func anyKey(m map[string]*Tensor) string {
	first := ""
	for name := range m {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}

// recordWeights adds to a config.json which set of weights was taken.
func recordWeights(config []byte, used string) []byte {
	open := slices.Index(config, '{')
	if used == "" || open < 0 {
		return config
	}
	entry := fmt.Sprintf("\n %q: %q", weightsKey, used)
	if body := strings.TrimSpace(string(config[open+1:])); body != "}" {
		entry += ","
	}
	return slices.Concat(config[:open+1], []byte(entry), config[open+1:])
}

// weightsKey is the key of config.json for the set of weights that a conversion took.
const weightsKey = "unmask_weights"
