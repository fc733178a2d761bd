package generate

import (
	"cmp"
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

// row is one parameter of a recipe. get returns "" if the field is zero.
type row struct {
	param.Param
	get func(r *Recipe) string
	set func(r *Recipe, p param.Param, text string) error
}

// maxSteps and maxCache are the largest values on any model.
const (
	maxSteps = 1 << 20
	maxCache = 64
)

// guidanceSchedules are the names for Guidance.Schedule.
var guidanceSchedules = guide.ScheduleNames

// table has all parameters of a recipe, in the order of its text.
var table = []row{
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
			name, once := strings.CutSuffix(text, cached)
			if once {
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
	whole(param.Param{Name: "steps", Min: 1, Max: maxSteps, Default: "32 for text, 16 for images",
		Help: "denoising steps N, at most one for each position to fill"},
		func(r *Recipe) *int { return &r.Steps }),
	whole(param.Param{Name: "cache", Min: 0, Max: maxCache, Default: "0",
		Paper: "Hayakawa et al. 2025, section 4.1",
		Help:  "partial caching: intermediate stages per step, 0 for none; not with maskgit and vanilla"},
		func(r *Recipe) *int { return &r.Cache }),
	{param.Param{Name: "reuse", Kind: param.Word, Words: reuses, Default: "none",
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
	whole(param.Param{Name: "block-size", Min: 1, Max: 1 << 20, Zero: "the model's own", Default: "0",
		Help: "with --reuse blocks or causal, positions per block; with blocks a power of two"},
		func(r *Recipe) *int { return &r.BlockSize }),
	whole(param.Param{Name: "refresh", Min: 1, Max: maxSteps, Zero: strconv.Itoa(defaultRefresh),
		Default: "0",
		Help: "with --reuse dkv, steps from one full pass to the next, 0 for 8; with block-dkv and " +
			"finished, 0 for none"},
		func(r *Recipe) *int { return &r.Refresh }),
	whole(param.Param{Name: "window", Min: 1, Max: maxSteps, Zero: "all", Default: "0",
		Paper: "Streaming-dLLM 2026, arXiv 2601.17917",
		Help:  "with semi-ar, masks behind a block that passes compute beside the last; 0 for all"},
		func(r *Recipe) *int { return &r.Window }),
	number(param.Param{Name: "window-sigma", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
		Paper: "Chen et al. 2025, DPad",
		Help:  "thin the window with distance, as a Gaussian; DPad has 4; 0 for all of it"},
		func(r *Recipe) *float64 { return &r.WindowSigma }),
	temperature(),
	number(model.TopPParam, func(r *Recipe) *float64 { return &r.Filter.TopP }),
	whole(model.TopKParam, func(r *Recipe) *int { return &r.Filter.TopK }),
	number(param.Param{Name: "end-penalty", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
		Paper: "Xie et al. 2025, Dream-Coder, eos_penalty",
		Help:  "how much less likely the end of the text is at first, and less and less so; 0 for none"},
		func(r *Recipe) *float64 { return &r.EndPenalty }),
	{param.Param{Name: "ban", Kind: param.Text, Help: "token ids that never are drawn: 3,17"}, banText,
		setBan},
	{param.Param{Name: "bias", Kind: param.Text,
		Help: "added to the logits of token ids: 3=1.5,17=-2"}, biasText, setBias},
	number(param.Param{Name: "guidance", Min: 1e-3, Max: 1e3, Zero: "none", Default: "0",
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
}

// Params describes all parameters of a recipe, in the order of its text.
func Params() []param.Param {
	var out []param.Param
	for _, t := range table {
		out = append(out, t.described())
	}
	return out
}

// described returns the row's Param, including samplers and schedules that were registered later.
func (t row) described() param.Param {
	p := t.Param
	if p.Name == "schedule" {
		for _, s := range samplers.Schedules() {
			p.Help += s.String() + ", "
		}
		p.Help += "or times(0.9,0.5,0), the masked share after each step"
	}
	return p
}

// rowOf returns the row of a parameter, nil for an unknown name.
func rowOf(name string) *row {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// ParamOf returns the Param of a recipe's parameter. It panics if the name is unknown.
func ParamOf(name string) param.Param {
	t := rowOf(name)
	if t == nil {
		panic("generate: ParamOf " + name + ": a recipe has no such parameter")
	}
	return t.described()
}

// Set sets a parameter from its text.
func (r *Recipe) Set(name, text string) error {
	if t := rowOf(name); t != nil {
		return t.set(r, t.Param, text)
	}
	return unknown(name, Params())
}

// unknown returns the error for a name that none of a list has.
func unknown(name string, list []param.Param) error {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return param.Unknown("parameter", name, names)
}

// Get returns a parameter's text as Set reads it, "" if it is zero or the name is unknown.
func (r Recipe) Get(name string) string {
	if t := rowOf(name); t != nil {
		return t.get(&r)
	}
	return ""
}

// whole returns a row for an integer field in which 0 means the default.
func whole(p param.Param, field func(*Recipe) *int) row {
	p.Kind = param.Whole
	return row{p, func(r *Recipe) string {
		if *field(r) == 0 {
			return ""
		}
		return strconv.Itoa(*field(r))
	}, func(r *Recipe, p param.Param, text string) (err error) {
		*field(r), err = p.Int(text)
		return err
	}}
}

// number returns a row for a number field in which 0 means the default.
func number(p param.Param, field func(*Recipe) *float64) row {
	return row{p, func(r *Recipe) string {
		if x := *field(r); x != 0 && param.Format(x) != p.Default {
			return param.Format(x)
		}
		return ""
	}, func(r *Recipe, p param.Param, text string) (err error) {
		*field(r), err = p.Float(text)
		if param.Format(*field(r)) == p.Default {
			*field(r) = 0
		}
		return err
	}}
}

// temperature returns the row of the temperature, in which 0 is Greedy.
func temperature() row {
	t := number(model.TemperatureParam, func(r *Recipe) *float64 { return &r.Filter.Temperature })
	of := t
	t.get = func(r *Recipe) string {
		if r.Greedy {
			return "0"
		}
		return of.get(r)
	}
	t.set = func(r *Recipe, p param.Param, text string) error {
		x, _ := p.Float(text)
		err := of.set(r, p, text)
		r.Greedy = err == nil && x == 0
		return err
	}
	return t
}

// cached is the suffix of a sampler's text that means one intermediate stage.
const cached = "+cache"

func banText(r *Recipe) string {
	var out []string
	for _, t := range slices.Compact(slices.Sorted(slices.Values(r.Filter.Ban))) {
		out = append(out, strconv.Itoa(int(t)))
	}
	return strings.Join(out, ",")
}

func setBan(r *Recipe, _ param.Param, text string) error {
	r.Filter.Ban = nil
	for field := range strings.SplitSeq(text, ",") {
		t, err := token("ban", field)
		if err != nil {
			return err
		}
		r.Filter.Ban = append(r.Filter.Ban, t)
	}
	slices.Sort(r.Filter.Ban)
	r.Filter.Ban = slices.Compact(r.Filter.Ban)
	return nil
}

func biasText(r *Recipe) string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(r.Filter.Bias)) {
		if b := r.Filter.Bias[t]; b != 0 {
			out = append(out, strconv.Itoa(int(t))+"="+strconv.FormatFloat(float64(b), 'g', -1, 32))
		}
	}
	return strings.Join(out, ",")
}

func setBias(r *Recipe, _ param.Param, text string) error {
	r.Filter.Bias = map[int32]float32{}
	for field := range strings.SplitSeq(text, ",") {
		id, value, _ := strings.Cut(field, "=")
		t, err := token("bias", id)
		if err != nil {
			return err
		}
		b, err := strconv.ParseFloat(value, 32)
		if err != nil && !math.IsInf(b, 0) || math.IsNaN(b) || math.IsInf(b, 1) {
			return &param.Error{Name: "bias", Found: param.Quote(field), Want: "TOKEN=NUMBER"}
		}
		if r.Filter.Bias[t] = float32(b); b == 0 {
			delete(r.Filter.Bias, t)
		}
	}
	if len(r.Filter.Bias) == 0 {
		r.Filter.Bias = nil
	}
	return nil
}

// token parses a token id.
func token(name, text string) (int32, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 0 {
		return 0, &param.Error{Name: name, Found: param.Quote(cmp.Or(text, "")), Want: "token ids"}
	}
	return int32(n), nil
}
