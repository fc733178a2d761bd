package generate

import (
	"fmt"
	"strings"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Recipe is how a sequence is generated, without its seed and length: all that the same run needs
// to be said of it. Fields that are zero stand for defaults, which For fills in; Cache 0 is no
// cache.
type Recipe struct {
	Sampler   samplers.Sampler
	Schedule  samplers.Schedule
	Steps     int          // N
	Cache     int          // stages a step by partial passes; 1 is the paper's, 0 none
	Reuse     Reuse        // keys and values of earlier steps
	BlockSize int          // for Blocks, positions of a block, a power of two; 0: the model's own
	Refresh   int          // for Delayed: a full pass every Refresh steps
	Filter    model.Filter // changes marginals before a sampler sees them; String lacks its Adjust
	Guidance  Guidance
}

// Guidance is how strongly a condition pulls where a model takes one. The zero Guidance is none.
type Guidance struct {
	Scale    float64
	Schedule string // how the scale follows the step: "" or a name of guide.Schedules
}

// Defaults returns what this program runs where nothing is asked for: for text hybrid in 32 uniform
// steps, for images moment in 16 cosine steps, both with one intermediate stage, as the paper
// finds best (Hayakawa et al. 2025, sections 5.2 and 5.3).
func Defaults(spec model.Spec) Recipe {
	r := Recipe{Cache: 1}.For(spec)
	if _, ok := samplers.As[samplers.Uncached](r.Sampler); ok {
		r.Cache = 0
	}
	return r
}

// Default steps, which are fewer where fewer positions are masked.
const (
	textSteps  = 32
	imageSteps = 16
)

// For fills in the defaults of a kind of model: images have two dimensions, text one. Cache and
// Filter stay as they are.
func (r Recipe) For(spec model.Spec) Recipe {
	image := len(spec.Shape) == 2
	if r.Sampler == nil {
		r.Sampler = samplers.ChooseThenSample{Order: samplers.Hybrid{}}
		if image {
			r.Sampler = samplers.Moment{}
		}
	}
	if r.Schedule == nil {
		r.Schedule = samplers.Uniform
		if image {
			r.Schedule = samplers.Cosine
		}
	}
	if r.Steps == 0 {
		r.Steps = textSteps
		if image {
			r.Steps = imageSteps
		}
	}
	if r.Reuse == Delayed && r.Refresh == 0 {
		r.Refresh = defaultRefresh
	}
	return r
}

// Or returns the recipe with base's fields where its own are zero, Cache apart: 0 there is none.
func (r Recipe) Or(base Recipe) Recipe {
	for _, t := range table {
		if text := t.get(&base); t.Name != "cache" && t.get(&r) == "" && text != "" {
			_ = t.set(&r, t.Param, text) // what get writes, set reads
		}
	}
	return r
}

// String writes the recipe as ParseRecipe reads it, such as "sampler=hybrid schedule=uniform
// steps=32 cache=1 top-p=0.9", without what is zero. Recipes of one meaning have one text. A
// sampler must be registered to be read back.
func (r Recipe) String() string {
	var parts []string
	for i := range table {
		if text := table[i].get(&r); text != "" {
			parts = append(parts, table[i].Name+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// Equal reports whether two recipes have one meaning, Filter.Adjust apart.
func (r Recipe) Equal(s Recipe) bool { return r.String() == s.String() }

// maxRecipe bounds the text of a recipe, in bytes.
const maxRecipe = 1 << 21

// ParseRecipe reads NAME=VALUE separated by blanks, names as Params has them. What comes first may
// be a sampler without its name: "eb(margin, budget=0.5) steps=8". Where a value is its default it
// becomes zero if zero means that on any model.
func ParseRecipe(text string) (Recipe, error) {
	var r Recipe
	if len(text) > maxRecipe {
		return r, fmt.Errorf("recipe is %d bytes, want at most %d", len(text), maxRecipe)
	}
	seen := map[string]bool{}
	for i, part := range fields(text) {
		name, value, ok := strings.Cut(part, "=")
		if !ok || strings.Contains(name, "(") {
			if i > 0 {
				return r, fmt.Errorf("recipe has %s, want NAME=VALUE", param.Quote(part))
			}
			name, value = "sampler", part
		}
		if seen[name] {
			return r, fmt.Errorf("recipe has %s twice, want it once", param.Quote(name))
		}
		seen[name] = true
		if err := r.Set(name, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

// fields cuts a text at blanks outside parentheses.
func fields(text string) []string {
	deep := 0
	return strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '(':
			deep++
		case ')':
			deep--
		case ' ', '\t':
			return deep <= 0
		}
		return false
	})
}
