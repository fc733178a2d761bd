package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Recipe says how a sequence is generated, without its seed and length. Fields that are zero stand
// for defaults, which WithDefaults fills in, except that Cache 0 means no cache.
type Recipe struct {
	Sampler  samplers.Sampler
	Schedule samplers.Schedule

	// Steps is N, the number of denoising steps.
	Steps int

	// Cache is the number of intermediate stages of a step, each a partial pass; the paper uses 1. 0
	// means none.
	Cache int

	// Reuse says which keys and values a step takes from earlier steps.
	Reuse Reuse

	// BlockSize is for Blocks and Causal: positions per block, with Blocks a power of two. 0 means
	// the model's own.
	BlockSize int

	// Refresh is for Delayed, BlockDelayed and Finished: every so many steps there is a full pass.
	Refresh int

	// Window is the number of masks behind the current block that passes compute, beside the last
	// mask; 0 means all.
	Window int

	// WindowSigma thins the window with distance, as in DPad; 0 means all of the window and the last
	// mask.
	WindowSigma float64

	// Filter is applied to the marginals before a sampler reads them. String leaves out its Adjust,
	// which has no text.
	Filter model.Filter

	// Greedy is temperature 0: every draw takes the most probable token instead. Marginals, and what
	// samplers measure of them, stay as they are.
	Greedy bool

	Guidance Guidance

	// EndPenalty lowers the logits of end tokens by EndPenalty*log(1/(1-t+0.001)), where the time t
	// runs from 1 to 0.001 over the steps or, if the sampler decides their number, is the masked
	// share.
	EndPenalty float64

	// EndsWhereOpen ends a text wherever an end token opens, even while positions before it are
	// masked: all behind it becomes that token. Otherwise the text ends once the token is settled.
	EndsWhereOpen bool
}

// Guidance is classifier-free guidance for models that take a condition. The zero Guidance is none.
type Guidance struct {
	// Scale is how far the marginals are moved from the unconditional ones; 0 means no guidance.
	Scale float64

	// Schedule says how the scale depends on the step: "" or a name in guide.ScheduleNames.
	Schedule string

	// Share is for models without conditions: the share of the tokens known so far, drawn anew in each
	// step, that the unconditional pass does not see (Lee et al. 2025, GenMol: molecular context
	// guidance). 0 means that it does not see the tokens known from the start.
	Share float64
}

// Defaults returns the default run: for text hybrid in 32 uniform steps, for images moment in 16
// cosine steps, both with one intermediate stage, as the paper finds best (Hayakawa et al. 2025,
// sections 5.2 and 5.3).
func Defaults(spec model.Spec) Recipe {
	r := Recipe{Cache: 1}.WithDefaults(spec)
	if samplers.CacheRefusal(r.Sampler) != "" {
		r.Cache = 0
	}
	return r
}

// The default numbers of steps. There are fewer if fewer positions are masked.
const (
	textSteps  = 32
	imageSteps = 16
)

// WithDefaults fills in the defaults for a model's kind: images have a Shape of two dimensions,
// text of one. Cache and Filter stay as they are.
func (r Recipe) WithDefaults(spec model.Spec) Recipe {
	defaults := Recipe{
		Sampler:  samplers.ChooseThenSample{Order: samplers.Hybrid{}},
		Schedule: samplers.Uniform,
		Steps:    textSteps,
	}
	if len(spec.Shape) == 2 {
		defaults = Recipe{
			Sampler:  samplers.Moment{},
			Schedule: samplers.Cosine,
			Steps:    imageSteps,
		}
	}
	r.Sampler = cmp.Or(r.Sampler, defaults.Sampler)
	r.Schedule = cmp.Or(r.Schedule, defaults.Schedule)
	r.Steps = cmp.Or(r.Steps, defaults.Steps)
	if r.Reuse == Delayed {
		r.Refresh = cmp.Or(r.Refresh, defaultRefresh)
	}
	return r
}

// String returns the text that ParseRecipe reads, such as "sampler=hybrid schedule=uniform steps=32
// cache=1 top-p=0.9", without zero fields. Equal recipes have the same text. Only a registered
// sampler can be read back.
func (r Recipe) String() string {
	var pairs []string
	for i := range recipeParams {
		if text := recipeParams[i].get(&r); text != "" {
			pairs = append(pairs, recipeParams[i].Name+"="+text)
		}
	}
	return strings.Join(pairs, " ")
}

// DiffFrom returns the NAME=VALUE pairs that turn the recipe of a model, base, into r, which is
// complete: those of String without what has no effect, and the neutral values of what only base
// has.
func (r Recipe) DiffFrom(base Recipe) (pairs []string) {
	r = r.WithoutIgnored()
	for i := range recipeParams {
		p := recipeParams[i].Param
		text := recipeParams[i].get(&r)
		hasDefault := p.Name != "steps" && p.Name != "schedule" // for these the model's kind decides
		if text == "" && hasDefault && recipeParams[i].get(&base) != "" {
			text = p.Default
		}
		if text != "" {
			pairs = append(pairs, p.Name+"="+text)
		}
	}
	return pairs
}

// maxRecipe is the longest text of a recipe in bytes. A list of biases may be long; a file that is
// given by mistake is longer.
const maxRecipe = 1 << 21

// ParseRecipe reads NAME=VALUE pairs separated by blanks, with the names of Params. The first may
// be a sampler without a name: "eb(margin, budget=0.5) steps=8". A value that is the default
// becomes zero if zero means that default on every model. A name that is unknown or there twice is
// an error, and a value that its parameter refuses. Whether a model can run the recipe is for
// [Recipe.Complete] to say.
func ParseRecipe(text string) (Recipe, error) {
	var r Recipe
	if len(text) > maxRecipe {
		return r, fmt.Errorf("recipe is %d bytes, want at most %d", len(text), maxRecipe)
	}
	seen := map[string]bool{}
	for i, pair := range splitRecipe(text) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Contains(name, "(") {
			if i > 0 {
				return r, fmt.Errorf("recipe has %s, want NAME=VALUE", param.Quote(pair))
			}
			name = "sampler"
			value = pair
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

// splitRecipe splits a text at blanks outside parentheses, because a sampler's own parameters may
// have blanks between them.
func splitRecipe(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ' ', '\t':
			return depth <= 0
		}
		return false
	})
}

// Reuse says which keys and values a step takes from earlier steps. All kinds but Blocks and
// Causal are approximations. The first pass over a sequence is full; later ones compute some
// positions, always including those whose token changed since.
type Reuse uint8

// The kinds of reuse.
const (
	NoReuse Reuse = iota // every step is a full pass

	// Prefix makes a full pass at a block's start; then it computes the block and everything after
	// it (Wu et al. 2025, Fast-dLLM).
	Prefix
	// Dual makes a full pass at a block's start; then it computes the block alone (ibid.,
	// DualCache).
	Dual
	// Delayed computes masked positions and those that just opened, with a full pass every Refresh
	// steps (Ma et al. 2025, dKV-Cache).
	Delayed
	// Blocks computes the current block and is exact. It is for models whose positions see no later
	// block (model.Spec.Block), which open block after block.
	Blocks
	// Causal computes what is not final yet and is exact. It is for models whose final tokens go
	// through causally (model.Spec.Causal).
	Causal
	// Finished computes what is behind finished blocks, for samplers that open several blocks at
	// once (d3LLM, arXiv 2601.07568). With Refresh, every so many passes are full.
	Finished
	// BlockDelayed is Delayed within blocks: it computes the block's masked positions and those that
	// just opened, and at a block's start the masks behind it as well. With Refresh, every so many
	// steps are full passes.
	BlockDelayed
)

// reuseNames are the names of the kinds in recipes and flags.
var reuseNames = []string{
	NoReuse:      "none",
	Prefix:       "prefix",
	Dual:         "dual",
	Delayed:      "dkv",
	Blocks:       "blocks",
	Causal:       "causal",
	Finished:     "finished",
	BlockDelayed: "block-dkv",
}

// String returns the name that ParseReuse reads.
func (u Reuse) String() string {
	if int(u) >= len(reuseNames) {
		return fmt.Sprintf("reuse(%d)", uint8(u))
	}
	return reuseNames[u]
}

// ParseReuse reads none, prefix, dual, dkv, blocks, causal, finished or block-dkv. The error of
// another name suggests the nearest.
func ParseReuse(name string) (Reuse, error) {
	if u := slices.Index(reuseNames, name); u >= 0 {
		return Reuse(u), nil
	}
	return NoReuse, fmt.Errorf("generate: %w", param.Unknown("reuse", name, reuseNames))
}

// defaultRefresh is the refresh interval in the examples of dKV-Cache-Decode.
const defaultRefresh = 8
