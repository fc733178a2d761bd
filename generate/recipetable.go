package generate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"unmask/guide"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// recipeParam is one parameter of a recipe: its description, and how its text is made and read. All
// that a recipe has as text (flags, plans, settings of runs, the identity of a request) goes
// through these.
type recipeParam struct {
	param.Param

	// get returns the text of the field, "" if it is zero.
	get func(r *Recipe) string

	// set reads a text into the field. p is the parameter itself.
	set func(r *Recipe, p param.Param, text string) error
}

// maxRecipeSteps and maxCache are the largest values on any model.
const (
	maxRecipeSteps = 1 << 20
	maxCache       = 64
)

// guidanceSchedules are the names for Guidance.Schedule.
var guidanceSchedules = guide.ScheduleNames

// recipeParams has all parameters of a recipe, in the order of its text.
var recipeParams = []recipeParam{
	{param.Param{Name: "sampler", Kind: param.Text, Default: "hybrid for text, moment for images",
		Help: "rule for what opens next, see unmask samplers; with parameters, " +
			"moment(alpha=3), around others, semi-ar(hybrid), and partial caching, hybrid+cache"},
		func(r *Recipe) string {
			if r.Sampler == nil {
				return ""
			}
			return samplers.Text(r.Sampler)
		},
		func(r *Recipe, _ param.Param, text string) (err error) {
			name, hasSuffix := strings.CutSuffix(text, cacheSuffix)
			if hasSuffix {
				r.Cache = max(r.Cache, 1)
			}
			r.Sampler, err = samplers.Parse(name)
			return err
		}},
	{param.Param{Name: "schedule", Kind: param.Text, Default: "uniform for text, cosine for images",
		Help: "how many positions are open after each step: "}, // all registered schedules follow
		func(r *Recipe) string {
			if r.Schedule == nil {
				return ""
			}
			return r.Schedule.String()
		},
		func(r *Recipe, _ param.Param, text string) (err error) {
			r.Schedule, err = samplers.ParseSchedule(text)
			return err
		}},
	intParam(param.Param{Name: "steps", Min: 1, Max: maxRecipeSteps,
		Default: "32 for text, 16 for images",
		Help:    "denoising steps N, at most one for each position to fill"},
		func(r *Recipe) *int { return &r.Steps }),
	intParam(param.Param{Name: "cache", Min: 0, Max: maxCache, Default: "0",
		Paper: "Hayakawa et al. 2025, section 4.1",
		Help:  "partial caching: intermediate stages per step, 0 for none; not with maskgit and vanilla"},
		func(r *Recipe) *int { return &r.Cache }),
	{param.Param{Name: "reuse", Kind: param.Word, Words: reuseNames, Default: "none",
		Paper: "Wu et al. 2025, Fast-dLLM; Ma et al. 2025, dKV-Cache",
		Help: "keys and values of earlier steps to use again: none, prefix or dual (with semi-ar), " +
			"dkv, block-dkv (dkv within the blocks of semi-ar), blocks for models of block diffusion, " +
			"causal for Nemotron-Labs-Diffusion and WeDLM, or finished with multi-block"},
		func(r *Recipe) string {
			if r.Reuse == NoReuse {
				return ""
			}
			return r.Reuse.String()
		},
		func(r *Recipe, _ param.Param, text string) (err error) {
			r.Reuse, err = ParseReuse(text)
			return err
		}},
	intParam(param.Param{Name: "block-size", Min: 1, Max: 1 << 20, Zero: "the model's own",
		Default: "0",
		Help:    "with --reuse blocks or causal, positions per block; with blocks a power of two"},
		func(r *Recipe) *int { return &r.BlockSize }),
	intParam(param.Param{Name: "refresh", Min: 1, Max: maxRecipeSteps,
		Zero:    strconv.Itoa(defaultRefresh),
		Default: "0",
		Help: "with --reuse dkv, steps from one full pass to the next, 0 for 8; with block-dkv and " +
			"finished, 0 for none"},
		func(r *Recipe) *int { return &r.Refresh }),
	intParam(param.Param{Name: "window", Min: 1, Max: maxRecipeSteps, Zero: "all", Default: "0",
		Paper: "Streaming-dLLM 2026, arXiv 2601.17917",
		Help:  "with semi-ar, masks behind a block that passes compute beside the last; 0 for all"},
		func(r *Recipe) *int { return &r.Window }),
	floatParam(param.Param{Name: "window-sigma", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
		Paper: "Chen et al. 2025, DPad",
		Help:  "thin the window with distance, as a Gaussian; DPad has 4; 0 for all of it"},
		func(r *Recipe) *float64 { return &r.WindowSigma }),
	temperatureParam(),
	floatParam(model.TopPParam, func(r *Recipe) *float64 { return &r.Filter.TopP }),
	intParam(model.TopKParam, func(r *Recipe) *int { return &r.Filter.TopK }),
	floatParam(param.Param{Name: "end-penalty", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
		Paper: "Xie et al. 2025, Dream-Coder, eos_penalty",
		Help:  "how much less likely the end of the text is at first, and less and less so; 0 for none"},
		func(r *Recipe) *float64 { return &r.EndPenalty }),
	{param.Param{Name: "end-at", Kind: param.Word, Words: []string{"settled", "open"},
		Default: "settled",
		Help: "what ends a text: an end token before which all is settled, or any that opens; open " +
			"saves the steps that fill what nobody sees"},
		func(r *Recipe) string {
			if r.EndsWhereOpen {
				return "open"
			}
			return ""
		},
		func(r *Recipe, p param.Param, text string) error {
			word, err := p.Word(text)
			r.EndsWhereOpen = word == "open"
			return err
		}},
	{param.Param{Name: "ban", Kind: param.Text, Help: "token ids that never are drawn: 3,17"}, banText,
		setBan},
	{param.Param{Name: "bias", Kind: param.Text,
		Help: "added to the logits of token ids: 3=1.5,17=-2"}, biasText, setBias},
	floatParam(param.Param{Name: "guidance", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
		Paper: "Ho and Salimans 2022, Classifier-free diffusion guidance",
		Help:  "strength of the condition (class or prompt), 0 for none"},
		func(r *Recipe) *float64 { return &r.Guidance.Scale }),
	{param.Param{Name: "guidance-schedule", Kind: param.Word, Words: guidanceSchedules,
		Default: "constant",
		Help:    "how guidance changes with the step: constant, linear, ramp, cosine or power-cosine"},
		func(r *Recipe) string { return r.Guidance.Schedule },
		func(r *Recipe, p param.Param, text string) (err error) {
			r.Guidance.Schedule, err = p.Word(text)
			if text == p.Default {
				r.Guidance.Schedule = ""
			}
			return err
		}},
	floatParam(param.Param{Name: "guidance-share", Min: 1e-3, Max: 1, Zero: "what is known at first",
		Default: "0",
		Paper:   "Lee et al. 2025, GenMol",
		Help: "without class or prompt, the share of what is known so far that guidance leaves out, others " +
			"in each step; 0 leaves out what is known at first"},
		func(r *Recipe) *float64 { return &r.Guidance.Share }),
}

// Params describes all parameters of a recipe, in the order of its text.
func Params() []param.Param {
	var out []param.Param
	for _, p := range recipeParams {
		out = append(out, p.describe())
	}
	return out
}

// describe returns the parameter's description, including samplers and schedules that were
// registered after this package's variables were initialised.
func (t recipeParam) describe() param.Param {
	p := t.Param
	if p.Name == "schedule" {
		for _, s := range samplers.Schedules() {
			p.Help += s.String() + ", "
		}
		p.Help += "or times(0.9,0.5,0), the masked share after each step"
	}
	return p
}

// findParam returns a parameter, nil for an unknown name.
func findParam(name string) *recipeParam {
	for i := range recipeParams {
		if recipeParams[i].Name == name {
			return &recipeParams[i]
		}
	}
	return nil
}

// ParamOf returns the Param of a recipe's parameter. It panics if the name is unknown.
func ParamOf(name string) param.Param {
	t := findParam(name)
	if t == nil {
		panic("generate: ParamOf " + name + ": a recipe has no such parameter")
	}
	return t.describe()
}

// Set sets a parameter from its text. An unknown name is an error that suggests the nearest, and a
// text that the parameter refuses is one.
func (r *Recipe) Set(name, text string) error {
	if t := findParam(name); t != nil {
		return t.set(r, t.Param, text)
	}
	return unknownParam(name, Params())
}

// unknownParam returns the error for a name that none of a list of parameters has.
func unknownParam(name string, list []param.Param) error {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return param.Unknown("parameter", name, names)
}

// Get returns a parameter's text as Set reads it, "" if it is zero or the name is unknown.
func (r Recipe) Get(name string) string {
	if t := findParam(name); t != nil {
		return t.get(&r)
	}
	return ""
}

// intParam returns the parameter of an integer field in which 0 means the default.
func intParam(p param.Param, field func(*Recipe) *int) recipeParam {
	p.Kind = param.Whole
	get := func(r *Recipe) string {
		if *field(r) == 0 {
			return ""
		}
		return strconv.Itoa(*field(r))
	}
	set := func(r *Recipe, p param.Param, text string) (err error) {
		*field(r), err = p.Int(text)
		return err
	}
	return recipeParam{p, get, set}
}

// floatParam returns the parameter of a number field in which 0 means the default. A field with the
// default's value counts as zero too, so that recipes which mean the same have the same text.
func floatParam(p param.Param, field func(*Recipe) *float64) recipeParam {
	get := func(r *Recipe) string {
		x := *field(r)
		if x == 0 || param.Format(x) == p.Default {
			return ""
		}
		return param.Format(x)
	}
	set := func(r *Recipe, p param.Param, text string) (err error) {
		*field(r), err = p.Float(text)
		if param.Format(*field(r)) == p.Default {
			*field(r) = 0
		}
		return err
	}
	return recipeParam{p, get, set}
}

// temperatureParam returns the parameter of the temperature, in which the text 0 is Greedy: the
// number 0 already stands for the default, 1.
func temperatureParam() recipeParam {
	number := floatParam(model.TemperatureParam, func(r *Recipe) *float64 {
		return &r.Filter.Temperature
	})
	t := number
	t.get = func(r *Recipe) string {
		if r.Greedy {
			return "0"
		}
		return number.get(r)
	}
	t.set = func(r *Recipe, p param.Param, text string) error {
		x, _ := p.Float(text) // an error comes from number.set
		err := number.set(r, p, text)
		r.Greedy = err == nil && x == 0
		return err
	}
	return t
}

// cacheSuffix is the suffix of a sampler's text that means one intermediate stage.
const cacheSuffix = "+cache"

// banText returns the banned tokens, ascending, each once: "3,17".
func banText(r *Recipe) string {
	var ids []string
	for _, t := range slices.Compact(slices.Sorted(slices.Values(r.Filter.Ban))) {
		ids = append(ids, strconv.Itoa(int(t)))
	}
	return strings.Join(ids, ",")
}

// setBan reads the text of banText.
func setBan(r *Recipe, _ param.Param, text string) error {
	r.Filter.Ban = nil
	for field := range strings.SplitSeq(text, ",") {
		t, err := parseToken("ban", field)
		if err != nil {
			return err
		}
		r.Filter.Ban = append(r.Filter.Ban, t)
	}
	slices.Sort(r.Filter.Ban)
	r.Filter.Ban = slices.Compact(r.Filter.Ban)
	return nil
}

// biasText returns the biases that are not 0, by ascending tokens: "3=1.5,17=-2".
func biasText(r *Recipe) string {
	var pairs []string
	for _, t := range slices.Sorted(maps.Keys(r.Filter.Bias)) {
		b := r.Filter.Bias[t]
		if b != 0 {
			number := strconv.FormatFloat(float64(b), 'g', -1, 32)
			pairs = append(pairs, strconv.Itoa(int(t))+"="+number)
		}
	}
	return strings.Join(pairs, ",")
}

// setBias reads the text of biasText. A bias of -Inf bans a token; one that is too small for a
// float32 is that too.
func setBias(r *Recipe, _ param.Param, text string) error {
	r.Filter.Bias = map[int32]float32{}
	for field := range strings.SplitSeq(text, ",") {
		id, value, _ := strings.Cut(field, "=")
		t, err := parseToken("bias", id)
		if err != nil {
			return err
		}
		b, err := strconv.ParseFloat(value, 32)
		if err != nil && !math.IsInf(b, 0) || math.IsNaN(b) || math.IsInf(b, 1) {
			return &param.Error{Name: "bias", Found: param.Quote(field), Want: "TOKEN=NUMBER"}
		}
		if b == 0 {
			delete(r.Filter.Bias, t) // an earlier pair may have set it
		} else {
			r.Filter.Bias[t] = float32(b)
		}
	}
	if len(r.Filter.Bias) == 0 {
		r.Filter.Bias = nil
	}
	return nil
}

// parseToken reads a token id of a parameter.
func parseToken(name, text string) (int32, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 0 {
		return 0, &param.Error{Name: name, Found: param.Quote(text), Want: "token ids"}
	}
	return int32(n), nil
}
