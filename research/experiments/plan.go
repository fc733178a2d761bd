package experiments

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/internal/textfile"
	"unmask/param"
	"unmask/samplers"
)

// Plan is a sweep's file, in YAML: one model, and lists whose every combination is measured.
//
//	model: demo               # as --model takes it
//	kind: text                # or image
//	judge: demo               # of text, as --judge takes it
//	inception: FILE           # of images; default the model's own VQGAN
//	reference: DIR            # of images, or an .npz; default drawn landscapes
//	samplers: [random, hybrid, "eb(u-moment)"]
//	steps: [8, 16, 32]
//	alpha: [3, 6]             # for samplers with a Gumbel temperature; default 6
//	cache: [0, 1]             # for samplers that can
//	seeds: [0, 1, 2]          # repeats; default 0
//	n: 64                     # samples of each
//	batch: 16                 # at once, a time is taken of each; default all
//	length: 128               # of text; default the model's
//	schedule: [uniform]       # for samplers that have one; default that of the model's own recipe
//
// Every other parameter of a recipe is a list too, such as top-p: [0.9, 1].
type Plan struct {
	Model     string    `yaml:"model"`
	Kind      string    `yaml:"kind"`
	Judge     string    `yaml:"judge"`
	Inception string    `yaml:"inception"`
	Reference string    `yaml:"reference"`
	Samplers  []string  `yaml:"samplers"`
	Steps     []int     `yaml:"steps"`
	Alpha     []float64 `yaml:"alpha"`
	Cache     []int     `yaml:"cache"`
	Seeds     []uint64  `yaml:"seeds"`
	N         int       `yaml:"n"`
	Batch     int       `yaml:"batch"`
	Length    int       `yaml:"length"`

	Extra map[string][]string `yaml:",inline"` // the other parameters of a recipe, by name
}

// Limits of a plan.
const (
	maxPlan   = 1 << 20 // bytes
	maxPoints = 100_000
)

// ReadPlan reads the plan in a file, see ParsePlan.
func ReadPlan(name string) (Plan, error) {
	in, err := atomicfile.Open(name)
	if err != nil {
		return Plan{}, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(textfile.NewReader(in), maxPlan+1))
	if err != nil {
		return Plan{}, err
	}
	plan, err := ParsePlan(data)
	return plan, param.AtPlace(name, err)
}

// ParsePlan reads a plan. Unknown keys are refused.
func ParsePlan(data []byte) (Plan, error) {
	var p Plan
	if len(data) > maxPlan {
		return p, fmt.Errorf("plan has more than %d bytes", maxPlan)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	doc := &yaml.Node{}
	if err := d.Decode(doc); err == io.EOF {
		return p, errors.New("plan is empty, want samplers, steps and n at least")
	} else if err != nil {
		return p, plainYAMLError(err)
	}
	if err := checkKeys(doc); err != nil {
		return p, err
	}
	if err := doc.Decode(&p); err != nil {
		return p, plainYAMLError(err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return p, errors.New("plan is more than one document, want one")
	}
	return p.validate()
}

// checkKeys returns an error for a field that is neither a plan's nor a recipe's, or whose value
// is of another type.
func checkKeys(doc *yaml.Node) error {
	names := slices.Collect(maps.Keys(valueKinds))
	for _, q := range generate.Params() {
		if q.Name != "sampler" && !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return nil
	}
	if top := doc.Content[0]; top.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: plan is %s, want names with values", top.Line, describeNode(top))
	}
	fields := doc.Content[0].Content
	for i := 0; i < len(fields); i += 2 {
		n := fields[i]
		if !slices.Contains(names, n.Value) {
			return fmt.Errorf("line %d: %w", n.Line, param.Unknown("key", n.Value, names))
		}
		if err := checkValue(n.Value, fields[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// plainYAMLError returns the decoder's errors as one line.
func plainYAMLError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = strings.Join(e.Errors, "; ")
	}
	return errors.New(strings.ReplaceAll(text, " in type experiments.Plan", ""))
}

// validate returns the plan with its defaults, or an error for the first field that is out of
// range.
func (p Plan) validate() (Plan, error) {
	p = p.withDefaults()
	if err := p.checkSize(); err != nil {
		return p, err
	}
	switch {
	case p.Kind != "text" && p.Kind != "image":
		return p, fmt.Errorf("kind is %q, want text or image", p.Kind)
	case len(p.Samplers) == 0:
		return p, errors.New("samplers is empty, want one or more")
	case len(p.Steps) == 0:
		return p, errors.New("steps is empty, want one or more")
	case p.N < 2:
		return p, fmt.Errorf("n is %d, want 2 or more", p.N)
	case p.Batch < 1:
		return p, fmt.Errorf("batch is %d, want 1 to %d", p.Batch, p.N)
	case p.Length < 0:
		return p, fmt.Errorf("length is %d, want 1 to the model's, or 0 for that", p.Length)
	}
	p.Batch = min(p.Batch, p.N)
	if err := p.checkLists(); err != nil {
		return p, err
	}
	if len(p.Points()) == 0 {
		q := p.combinations()[0]
		return p, fmt.Errorf("plan has no cell that can run: %s with cache %d: %s", q.Sampler, q.Cache,
			cacheRefusal(q.Sampler))
	}
	return p, nil
}

// withDefaults returns the plan with the default of each field that is missing.
func (p Plan) withDefaults() Plan {
	p.Model = cmp.Or(p.Model, "demo")
	p.Kind = cmp.Or(p.Kind, "text")
	p.Judge = cmp.Or(p.Judge, "demo")
	p.Batch = cmp.Or(p.Batch, p.N)
	if len(p.Alpha) == 0 {
		p.Alpha = []float64{samplers.DefaultAlpha}
	}
	if len(p.Cache) == 0 {
		p.Cache = []int{0}
	}
	if len(p.Seeds) == 0 {
		p.Seeds = []uint64{0}
	}
	return p
}

// WithModelSchedule returns the plan with the schedule of a task's model, if it has none of its
// own.
func (p Plan) WithModelSchedule(t Task) Plan {
	if schedule := t.ModelRecipe.Get("schedule"); schedule != "" && len(p.Extra["schedule"]) == 0 {
		p.Extra = maps.Clone(p.Extra)
		if p.Extra == nil {
			p.Extra = map[string][]string{}
		}
		p.Extra["schedule"] = []string{schedule}
	}
	return p
}

// checkSize returns an error if there are too many combinations.
func (p Plan) checkSize() error {
	lists := []int{len(p.Samplers), len(p.Steps), len(p.Alpha), len(p.Cache), len(p.Seeds)}
	for _, list := range p.Extra {
		lists = append(lists, max(1, len(list)))
	}
	size := 1
	for _, n := range lists {
		size *= n
		if size > maxPoints {
			return fmt.Errorf("plan has more than %d points", maxPoints)
		}
	}
	return nil
}

// checkLists returns an error for the first value in a list that is out of range.
func (p Plan) checkLists() error {
	for _, n := range p.Steps {
		if err := generate.ParamOf("steps").CheckInt(n); err != nil || n == 0 {
			return fmt.Errorf("steps has %d, want %s", n, generate.ParamOf("steps").Want())
		}
	}
	for _, a := range p.Alpha {
		if err := samplers.AlphaParam.Check(a); err != nil || a == 0 {
			return fmt.Errorf("alpha has %v, want %s", a, samplers.AlphaParam.Want())
		}
	}
	for _, c := range p.Cache {
		if err := generate.ParamOf("cache").CheckInt(c); err != nil {
			return fmt.Errorf("cache has %d, want %s", c, generate.ParamOf("cache").Want())
		}
	}
	for _, name := range p.Samplers {
		if strings.Count(name, "(") > strings.Count(name, ")") {
			return fmt.Errorf("samplers has %s, want it in quotes: a comma divides a list in YAML",
				param.Quote(name))
		}
		if _, err := samplers.Parse(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		for _, text := range p.Extra[name] {
			if err := new(generate.Recipe).Set(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Points returns the plan's combinations, each once. Samplers without a Gumbel temperature or a
// schedule are measured at one value of it, and samplers that cannot use a cache without one.
func (p Plan) Points() []Point {
	var points []Point
	seen := map[Point]bool{}
	for _, q := range p.combinations() {
		if q.Cache > 0 && cacheRefusal(q.Sampler) != "" || seen[q] {
			continue
		}
		seen[q] = true
		points = append(points, q)
	}
	return points
}

// combinations returns all combinations; the seed varies fastest. Some may be the same.
func (p Plan) combinations() []Point {
	points := []Point{{N: p.N, Batch: p.Batch, Length: p.Length}}
	points = crossWith(points, p.Samplers, func(q *Point, name string) { q.Sampler = name })
	points = crossWith(points, p.Alpha, func(q *Point, alpha float64) {
		if usesAlpha(q.Sampler) {
			q.Alpha = alpha
		}
	})
	points = crossWith(points, p.Cache, func(q *Point, cache int) { q.Cache = cache })
	points = crossWith(points, p.Steps, func(q *Point, steps int) { q.Steps = steps })
	points = crossWith(points, p.otherRecipes(), func(q *Point, recipe generate.Recipe) {
		recipe.Sampler, _ = samplers.Parse(q.Sampler) // check has read it
		recipe.Steps = q.Steps
		recipe = recipe.WithoutIgnored()
		if recipe.Steps == 0 {
			q.Steps = p.Steps[0]
		}
		recipe.Sampler = nil
		recipe.Steps = 0
		q.Extra = recipe.String()
	})
	return crossWith(points, p.Seeds, func(q *Point, seed uint64) { q.Seed = seed })
}

// crossWith returns each point with each of the values.
func crossWith[T any](points []Point, values []T, set func(*Point, T)) []Point {
	out := make([]Point, 0, len(points)*len(values))
	for _, q := range points {
		for _, v := range values {
			set(&q, v)
			out = append(out, q)
		}
	}
	return out
}

// otherRecipes returns the combinations of the other parameters.
func (p Plan) otherRecipes() []generate.Recipe {
	recipes := []generate.Recipe{{}}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		var next []generate.Recipe
		for _, r := range recipes {
			for _, text := range p.Extra[name] {
				_ = r.Set(name, text) // check has done the same without an error
				next = append(next, r)
			}
		}
		if len(next) > 0 {
			recipes = next
		}
	}
	return recipes
}

// cacheRefusal returns why a sampler has no intermediate stages, "" if it can have them.
func cacheRefusal(name string) string {
	s, err := samplers.Parse(name)
	if err != nil {
		return ""
	}
	return samplers.CacheRefusal(s)
}
