package pytorch

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"unmask/weights"
)

// Object is an instance of an unknown class. It is only data: no code of its class exists here.
type Object struct {
	Class string // such as "argparse.Namespace"

	args  *tuple // arguments of the constructor
	state any    // state from which the class would have restored itself
	items *dict  // entries, for a subclass of dict
	list  *list  // elements, for a subclass of list
}

// What a pickle builds besides nil, bool, int64, float64, string and []byte.
type (
	list  struct{ items []any }
	tuple struct{ items []any }

	// dict keeps the order of its entries, which is that of a network's tensors.
	dict struct {
		keys   []any
		values []any
		index  map[any]int // of a string or integer key
	}

	// global is a name, "module.name"; it is never resolved.
	global string

	storage struct {
		dtype weights.DType
		numel int
		rec   *record
	}
)

// newDict returns an empty dictionary.
func newDict() *dict { return &dict{index: map[any]int{}} }

// set replaces the value of a key, as Python does.
func (d *dict) set(key, value any) {
	switch key.(type) {
	case string, int64:
		if i, ok := d.index[key]; ok {
			d.values[i] = value
			return
		}
		d.index[key] = len(d.keys)
	}
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// get returns the value of a key that is a text.
func (d *dict) get(key string) (any, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// builders have the names whose results this package builds itself when a pickle would call them.
var builders = map[global]func(args *tuple) (any, error){
	"collections.OrderedDict":                    func(*tuple) (any, error) { return newDict(), nil },
	"torch.Size":                                 buildSize,
	"torch._utils._rebuild_tensor":               buildTensor(4),
	"torch._utils._rebuild_tensor_v2":            buildTensor(6),
	"torch._utils._rebuild_tensor_v3":            buildTensor(7),
	"torch._utils._rebuild_parameter":            buildParameter,
	"torch._utils._rebuild_parameter_with_state": buildParameter,
}

// harmlessNames are names of built-in modules that honest checkpoints have. Calls of them are kept
// as Objects with the arguments, like those of any name outside these modules.
var harmlessNames = nameSet(`
	types.GenericAlias types.MappingProxyType types.SimpleNamespace types.UnionType
	operator.attrgetter operator.itemgetter operator.methodcaller
	_operator.attrgetter _operator.getitem _operator.itemgetter _operator.methodcaller _operator.or_`)

// harmlessBuiltins are the names of Python's builtins that may occur: types, constants, and
// functions that only compute from their arguments. Names of exceptions may occur too.
var harmlessBuiltins = nameSet(`
	bool bytearray bytes complex dict enumerate filter float frozenset int list long map object range reversed
	set slice str tuple type unicode xrange zip Ellipsis NotImplemented
	abs all any divmod getattr hash isinstance issubclass iter len max min next pow print reduce round sorted sum`)

// exceptionName matches the names of built-in exceptions.
var exceptionName = regexp.MustCompile(`^[A-Z][A-Za-z]*(Error|Exception|Warning|Interrupt|Exit|Iteration)$`)

// dangerousModules are the modules whose names only an attack needs. They would not be called
// either; refusing them tells the user what the file is.
var dangerousModules = nameSet(`
	_io _operator _pickle _posixsubprocess asyncio bdb builtins __builtin__ code codeop commands ctypes importlib
	imp io marshal multiprocessing nt operator os pdb pickle pip pkgutil platform popen2 posix pty pydoc runpy
	shutil signal site socket ssl subprocess sys tempfile threading timeit types urllib webbrowser zipimport`)

// nameSet returns the words of list as a set.
func nameSet(list string) map[string]bool {
	s := map[string]bool{}
	for _, name := range strings.Fields(list) {
		s[name] = true
	}
	return s
}

// nameGlobal checks a name in the pickle.
func nameGlobal(module, name string) (global, error) {
	full := module + "." + name
	top, _, _ := strings.Cut(module, ".")
	builtin := module == "builtins" || module == "__builtin__"
	if harmlessNames[full] || builtin && (harmlessBuiltins[name] || exceptionName.MatchString(name)) {
		return global(full), nil
	}
	if dangerousModules[top] || module == "" || name == "" {
		return "", fmt.Errorf("name %q is not allowed: it runs code, and a checkpoint is data",
			full)
	}
	return global(full), nil
}

// applyCall handles REDUCE. Nothing is called: results that are not built here are kept as data,
// for example an Enum's value or a Decimal beside the weights.
func applyCall(callee, args any) (any, error) {
	name, argTuple, err := calleeOf("a call", "name", callee, args)
	if err != nil {
		return nil, err
	}
	build := builders[name]
	if name == "torch._tensor._rebuild_from_type_v2" {
		build = buildTyped // not in builders, which it reads
	}
	if _, isObject := callee.(*Object); isObject || build == nil {
		return &Object{Class: string(name), args: argTuple}, nil
	}
	v, err := build(argTuple)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// newInstance handles NEWOBJ: an empty object of a class.
func newInstance(class, args any) (any, error) {
	name, argTuple, err := calleeOf("an instance", "class", class, args)
	if err != nil {
		return nil, err
	}
	if _, ok := class.(global); ok && builders[name] != nil {
		return applyCall(class, args)
	}
	return &Object{Class: string(name), args: argTuple}, nil
}

// calleeOf returns the name of what a pickle calls, or of the call that returned it, and the
// arguments: protocols before 4 write a class within a class as getattr(outer, "inner").
func calleeOf(what, want string, callee, args any) (name global, argTuple *tuple, err error) {
	switch v := callee.(type) {
	case global:
		name = v
	case *Object:
		name = global(v.Class)
	default:
		return "", nil, fmt.Errorf("%s of %s, want a %s", what, describeValue(callee), want)
	}
	argTuple, ok := args.(*tuple)
	if !ok {
		return "", nil, fmt.Errorf("%s of %q with %s, want a tuple", what, name, describeValue(args))
	}
	return name, argTuple, nil
}

// setState implements BUILD: it hands an object its state. A dictionary's extra attributes (a state
// dict's _metadata) are dropped.
func setState(v, state any) error {
	switch v := v.(type) {
	case *Object:
		v.state = state
	case *dict:
	default:
		return fmt.Errorf("state for %s, want an object", describeValue(v))
	}
	return nil
}

// setItems assigns key and value pairs.
func setItems(v any, pairs []any) error {
	if len(pairs)%2 != 0 {
		return fmt.Errorf("%d keys and values, want pairs", len(pairs))
	}
	d, ok := v.(*dict)
	if o, isObject := v.(*Object); isObject {
		o.items = cmp.Or(o.items, newDict())
		d = o.items
		ok = true
	}
	if !ok {
		return fmt.Errorf("items set on %s, want a dictionary", describeValue(v))
	}
	for i := 0; i < len(pairs); i += 2 {
		d.set(pairs[i], pairs[i+1])
	}
	return nil
}

// appendItems appends to a list.
func appendItems(v any, items []any) error {
	l, ok := v.(*list)
	if o, isObject := v.(*Object); isObject {
		o.list = cmp.Or(o.list, &list{})
		l = o.list
		ok = true
	}
	if !ok {
		return fmt.Errorf("elements appended to %s, want a list", describeValue(v))
	}
	l.items = append(l.items, items...)
	return nil
}

// buildSize returns the shape that a torch.Size is made of.
func buildSize(t *tuple) (any, error) {
	if len(t.items) != 1 {
		return nil, fmt.Errorf("%d arguments, want 1", len(t.items))
	}
	return t.items[0], nil
}

// buildParameter returns its tensor.
func buildParameter(t *tuple) (any, error) {
	if len(t.items) < 3 {
		return nil, fmt.Errorf("%d arguments, want 3 or 4", len(t.items))
	}
	switch x := t.items[0].(type) {
	case *Tensor:
		return x, nil
	case *Object: // of a tensor that is not read
		return x, nil
	}
	return nil, fmt.Errorf("%s, want a tensor", describeValue(t.items[0]))
}

// buildTyped returns the tensor in the arguments (function, type, arguments, state): one of a
// subclass, or one with attributes of its own, which are dropped.
func buildTyped(t *tuple) (any, error) {
	if len(t.items) != 4 {
		return nil, fmt.Errorf("%d arguments, want 4", len(t.items))
	}
	return applyCall(t.items[0], t.items[2])
}

// describeValue returns the kind of a value for an error.
func describeValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int64, float64, string, []byte:
		return fmt.Sprintf("a %T", v)
	case *list:
		return "a list"
	case *tuple:
		return "a tuple"
	case *dict:
		return "a dictionary"
	case *Tensor:
		return "a tensor"
	case *storage:
		return "a storage"
	case global:
		return fmt.Sprintf("the name %q", string(v))
	case *Object:
		return fmt.Sprintf("an object of %q", v.Class)
	}
	return "a mark"
}
