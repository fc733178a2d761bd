package weights

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Param is one parameter of a network. The constructor sets Shape; Bind sets Tensor. A nil Shape
// means that this variant of the network does not have the parameter, and Bind skips it; a scalar
// has the shape []int{}.
type Param struct {
	// Shape is what the network expects, outermost dimension first.
	Shape []int

	// Tensor is what the checkpoint has; nil before Bind, and after a Bind that failed on it.
	*Tensor
}

// BindOptions say how a checkpoint's names relate to the network's.
type BindOptions struct {
	// Anchor and Prefixes say which prefix of the file's names is removed, see [Set.Rebase].
	Anchor   string
	Prefixes []string

	// Names replaces tags of the root and of what is in it, where families name the same parameters
	// differently. "" adds nothing to a name, "-" leaves the field out.
	Names map[string]string

	// Ignore are patterns (path.Match; "*" also matches dots) of tensors that are known to be
	// unused. They are compared with the name without the prefix and with the name in the file. No
	// pattern matches averaged weights (NamesAverage): which set is read is never left unsaid.
	Ignore []string

	// Report, if not nil, is filled in even if Bind fails, so that a tool can show how far a
	// foreign checkpoint is from fitting.
	Report *Report
}

// Report lists a set's tensors by what Bind did with them, under the file's names, sorted.
type Report struct {
	Prefix string   // removed from the names
	Bound  []string // tensors that parameters hold
	Unused []string // tensors that Ignore matched
}

// Mismatch is a tensor whose shape or type its parameter cannot take.
type Mismatch struct {
	Name   string
	Found  string
	Wanted string
}

// BindError lists everything that prevents a set from being a network's weights. The lists are
// sorted.
type BindError struct {
	Missing    []string   // parameters without a tensor, the network's names
	Unexpected []string   // tensors without a parameter, the file's names
	Mismatched []Mismatch // the network's names
}

// Error lists the names of all tensors that do not fit, in one line.
func (e *BindError) Error() string {
	var parts []string
	if n := len(e.Missing); n > 0 {
		parts = append(parts, fmt.Sprintf("%d missing: %s", n, quoteAll(e.Missing)))
	}
	if n := len(e.Unexpected); n > 0 {
		parts = append(parts, fmt.Sprintf("%d unexpected: %s", n, quoteAll(e.Unexpected)))
	}
	if n := len(e.Mismatched); n > 0 {
		var list []string
		for _, m := range e.Mismatched {
			list = append(list, fmt.Sprintf("%q is %s, want %s", m.Name, m.Found, m.Wanted))
		}
		parts = append(parts, fmt.Sprintf("%d misshaped: %s", n, strings.Join(list, ", ")))
	}
	return "weights do not fit the network: " + strings.Join(parts, "; ")
}

// quoteAll returns the names in quotes, with commas between them.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// Bind assigns the tensors of set to the Params of root, a pointer to a struct.
//
// It walks the exported fields with a tag `weight:"name"`. Names of nested structs, and of pointers
// to them, are joined with dots; elements of a slice or an array add their index, those of a map of
// pointers their key; an empty name adds nothing. Nil pointers are skipped. One tensor may serve
// several Params (a tied head).
//
// The error is a [*BindError] with everything that is wrong, unless the names themselves cannot be
// resolved. Bind panics if it cannot walk the root or a tag, because that is a mistake in the
// program.
func Bind(root any, set *Set, o BindOptions) error {
	for _, p := range o.Ignore {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("ignore pattern %q: %w", p, err)
		}
	}
	set, err := set.Rebase(o.Anchor, o.Prefixes...)
	if err != nil {
		return err
	}

	b := binder{set: set, used: map[*Tensor]bool{}}
	walkParams(root, o.Names, b.bindParam)
	b.sortTensors(o.Ignore)
	if o.Report != nil {
		*o.Report = Report{Prefix: set.prefix, Bound: b.bound, Unused: b.unused}
	}

	e := &b.err
	if len(e.Missing)+len(e.Unexpected)+len(e.Mismatched) == 0 {
		return nil
	}
	slices.Sort(e.Missing)
	slices.SortFunc(e.Mismatched, func(a, b Mismatch) int { return strings.Compare(a.Name, b.Name) })
	return e
}

// EachParam calls f with the Params of root and their names, as Bind finds them.
func EachParam(root any, f func(p *Param, name string)) { walkParams(root, nil, f) }

// walkParams calls visit for each Param below root, with its tensor's name.
func walkParams(root any, names map[string]string, visit func(p *Param, name string)) {
	v := reflect.ValueOf(root)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("weights.Bind: root is a %T, want a pointer to a struct", root))
	}
	walker{names, visit}.walk(v, "")
}

// binder assigns tensors and collects what is wrong. It does not stop at the first mismatch: who
// converts a checkpoint wants the whole list, not one name a run.
type binder struct {
	set *Set

	// used has every tensor that a parameter asked for by name, even one of a wrong shape, so that
	// a misshaped tensor is not reported as unexpected too.
	used map[*Tensor]bool

	bound  []string
	unused []string
	err    BindError
}

var paramType = reflect.TypeFor[Param]()

// walker visits Params under the names that tags have in a checkpoint.
type walker struct {
	names map[string]string // BindOptions.Names
	visit func(p *Param, name string)
}

// walk visits the parameters in v. What v itself is called is name; its elements have their index
// or key behind that. A nil pointer is a part that the network does not have.
func (w walker) walk(v reflect.Value, name string) {
	switch {
	case v.Type() == paramType:
		w.visit(v.Addr().Interface().(*Param), name)
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			w.walk(v.Elem(), name)
		}
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		for i := range v.Len() {
			w.walk(v.Index(i), joinNames(name, strconv.Itoa(i)))
		}
	case v.Kind() == reflect.Map:
		for iter := v.MapRange(); iter.Next(); {
			w.walk(iter.Value(), joinNames(name, iter.Key().String()))
		}
	case v.Kind() == reflect.Struct:
		w.walkFields(v, name)
	default:
		panic(fmt.Sprintf("weights.Bind: %q is a %s, want a Param, a struct, a pointer or a slice of them", name, v.Type()))
	}
}

// walkFields visits the fields of a struct that have a tag. A tagged field that is not exported
// panics: reflection cannot set it, and a parameter that silently stays empty is a network that
// computes nonsense.
func (w walker) walkFields(v reflect.Value, name string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag, ok := field.Tag.Lookup("weight")
		if !ok {
			continue
		}
		if !field.IsExported() {
			panic(fmt.Sprintf("weights.Bind: field %s.%s has a weight tag but is not exported", v.Type(),
				field.Name))
		}
		if replacement, ok := w.names[tag]; ok {
			tag = replacement
		}
		if tag != "-" {
			w.walk(v.Field(i), joinNames(name, tag))
		}
	}
}

// joinNames puts a point between two parts of a name, unless one is empty.
func joinNames(prefix, name string) string {
	if prefix == "" || name == "" {
		return prefix + name
	}
	return prefix + "." + name
}

// bindParam gives p the tensor of that name, or notes why it cannot.
func (b *binder) bindParam(p *Param, name string) {
	p.Tensor = nil
	if p.Shape == nil {
		return
	}
	t, ok := b.set.tensors[name]
	if !ok {
		b.err.Missing = append(b.err.Missing, name)
		return
	}
	b.used[t] = true
	switch {
	case !t.DType.IsFloat():
		b.err.Mismatched = append(b.err.Mismatched,
			Mismatch{name, "of " + string(t.DType), "F32, F16, BF16 or F64"})
	case !slices.Equal(t.Shape, p.Shape):
		b.err.Mismatched = append(b.err.Mismatched,
			Mismatch{name, fmt.Sprint(t.Shape), fmt.Sprint(p.Shape)})
	default:
		p.Tensor = t
	}
}

// sortTensors lists every tensor as bound, as unused on purpose, or as unexpected.
func (b *binder) sortTensors(ignore []string) {
	list := func(t *Tensor, short string) {
		isIgnored := func(pattern string) bool {
			return matchPattern(pattern, short) || matchPattern(pattern, t.Name)
		}
		switch {
		case b.used[t]:
			b.bound = append(b.bound, t.Name)
		case slices.ContainsFunc(ignore, isIgnored) && !isAverage(t):
			b.unused = append(b.unused, t.Name)
		default:
			b.err.Unexpected = append(b.err.Unexpected, t.Name)
		}
	}
	for short, t := range b.set.tensors {
		list(t, short)
	}
	for _, t := range b.set.outside {
		list(t, dropCompiledParts(t.Name))
	}
	for _, list := range []*[]string{&b.bound, &b.unused, &b.err.Unexpected} {
		slices.Sort(*list)
		*list = slices.Compact(*list) // a tensor may have several names
	}
}

// NamesAverage reports whether a key of a checkpoint, or a module's name, is one for averaged
// weights: model_ema, ema_state_dict, state_dict_ema, shadow_params and the like.
func NamesAverage(key string) bool {
	isSeparator := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	words := strings.FieldsFunc(strings.ToLower(key), isSeparator)
	return slices.Contains(words, "ema") || slices.Contains(words, "shadow")
}

// isAverage reports whether a tensor is in a module of averaged weights, and no counter there.
func isAverage(t *Tensor) bool {
	modules := strings.Split(t.Name, ".")
	return len(t.Shape) > 0 && slices.ContainsFunc(modules[:len(modules)-1], NamesAverage)
}

// matchPattern reports whether a pattern, known to be well-formed, matches name.
func matchPattern(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
