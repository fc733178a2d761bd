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
// for defaults, which For fills in, except that Cache 0 means no cache.
type Recipe struct {
	Sampler  samplers.Sampler
	Schedule samplers.Schedule
	Steps    int // N
	// intermediate stages of a step, by partial passes; the paper uses 1; 0 means none
	Cache     int
	Reuse     Reuse // keys and values of earlier steps
	BlockSize int   // for Blocks, positions per block, a power of two; 0: the model's own
	Refresh   int   // for Delayed, BlockDelayed and Finished: a full pass every Refresh steps
	// masks behind the current block that passes compute, with the last; 0: all
	Window      int
	WindowSigma float64 // thins the window, as in DPad; 0: all of it and the last mask
	// applied to the marginals before a sampler reads them; String leaves out its Adjust
	Filter model.Filter
	// temperature 0: every draw takes the most probable token instead; marginals, and what samplers
	// measure of them, stay as they are
	Greedy   bool
	Guidance Guidance
	// EndPenalty lowers the logits of end tokens by EndPenalty*log(1/(1-t+0.001)), where the time t
	// runs from 1 to 0.001 over the steps or, if the sampler decides their number, is the masked share
	EndPenalty float64
}

// Guidance is classifier-free guidance for models that take a condition. The zero Guidance is none.
type Guidance struct {
	Scale    float64
	Schedule string // how the scale depends on the step: "" or a name in guide.ScheduleNames
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

// Default steps; fewer if fewer positions are masked.
const (
	textSteps  = 32
	imageSteps = 16
)

// WithDefaults fills in the defaults for a model's kind: images have a Shape of two dimensions,
// text of one. Cache and Filter stay as they are.
func (r Recipe) WithDefaults(spec model.Spec) Recipe {
	usual := Recipe{Sampler: samplers.ChooseThenSample{Order: samplers.Hybrid{}},
		Schedule: samplers.Uniform, Steps: textSteps}
	if len(spec.Shape) == 2 {
		usual = Recipe{Sampler: samplers.Moment{}, Schedule: samplers.Cosine, Steps: imageSteps}
	}
	r.Sampler = cmp.Or(r.Sampler, usual.Sampler)
	r.Schedule = cmp.Or(r.Schedule, usual.Schedule)
	r.Steps = cmp.Or(r.Steps, usual.Steps)
	if r.Reuse == Delayed && r.Refresh == 0 {
		r.Refresh = defaultRefresh
	}
	return r
}

// String returns the text that ParseRecipe reads, such as "sampler=hybrid schedule=uniform steps=32
// cache=1 top-p=0.9", without zero fields. Equal recipes have the same text. Only a registered
// sampler can be read back.
func (r Recipe) String() string {
	var parts []string
	for i := range table {
		if text := table[i].get(&r); text != "" {
			parts = append(parts, table[i].Name+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// DiffFrom returns the NAME=VALUE pairs that make r, complete for a model, of the model's own
// recipe: those of String without what has no effect, and the neutral values of what only own has.
func (r Recipe) DiffFrom(own Recipe) (pairs []string) {
	r = r.WithoutIgnored()
	for i := range table {
		p, text := table[i].Param, table[i].get(&r)
		if text == "" && table[i].get(&own) != "" && p.Name != "steps" && p.Name != "schedule" {
			text = p.Default
		}
		if text != "" {
			pairs = append(pairs, p.Name+"="+text)
		}
	}
	return pairs
}

// maxRecipe is the longest text of a recipe in bytes.
const maxRecipe = 1 << 21

// ParseRecipe reads NAME=VALUE pairs separated by blanks, with the names of Params. The first may
// be a sampler without a name: "eb(margin, budget=0.5) steps=8". A value that is the default
// becomes zero if zero means that default on every model.
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

// fields splits a text at blanks outside parentheses.
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

var reuses = []string{NoReuse: "none", Prefix: "prefix", Dual: "dual", Delayed: "dkv",
	Blocks: "blocks", Causal: "causal", Finished: "finished",
	BlockDelayed: "block-dkv"}

// String returns the name that ParseReuse reads.
func (u Reuse) String() string {
	if int(u) >= len(reuses) {
		return fmt.Sprintf("reuse(%d)", uint8(u))
	}
	return reuses[u]
}

// ParseReuse reads none, prefix, dual, dkv, blocks, causal, finished or block-dkv.
func ParseReuse(name string) (Reuse, error) {
	if u := slices.Index(reuses, name); u >= 0 {
		return Reuse(u), nil
	}
	return NoReuse, fmt.Errorf("generate: %w", param.Unknown("reuse", name, reuses))
}

// defaultRefresh is the refresh interval in the examples of dKV-Cache-Decode.
const defaultRefresh = 8
