package server

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// Bounds of one request.
const (
	mostChoices = 64
	mostPrompts = 64
	mostSteps   = 4096
	mostBiases  = 1024
	mostFirst   = 1<<31 - 1
	mostDrawn   = 1 << 53 // a seed that the server draws is below: JavaScript's numbers have it
)

// settings are the fields that say how a sequence is made.
type settings struct {
	seed        uint64
	first, n    int
	batch       bool // it may wait for others
	recipe      generate.Recipe
	stepped     bool // steps were asked for
	constraints unmask.Constraints
	ends        []int32 // tokens that end a text
	top         int     // most probable tokens of each position that the answer has
}

// readSettings reads the fields that all ways to make sequences have in common.
func readSettings(f *fields, m *served) settings { return readSettingsOr(f, m, m.defaults) }

// readSettingsOr is readSettings with base for parameters that the request leaves out.
func readSettingsOr(f *fields, m *served, base generate.Recipe) (s settings) {
	seed, given := f.seed("seed")
	s.n = f.whole("n", 1, mostChoices, 1)
	s.first = f.maybe("first", 0, mostFirst, 0)
	s.batch = f.word("priority", "interactive", "batch") == "batch"
	s.readRecipe(f, base)
	if s.seed = seed; !given && !s.recipe.Greedy { // temperature 0 means the same answer each time
		s.seed = rand.Uint64N(mostDrawn)
	}
	s.constraints = unmask.Constraints{Ban: f.texts("ban"), Bias: f.texts("bias")}
	return s
}

// readRecipe fills the recipe as the command's flags do: base has what the request leaves out.
func (s *settings) readRecipe(f *fields, base generate.Recipe) {
	asked := generate.Overrides{}
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		name := strings.ReplaceAll(p.Name, "-", "_")
		switch p.Name {
		case "ban", "bias": // in text
			continue
		case "steps":
			p.Min, p.Max = 1, mostSteps
		}
		raw := f.value(name)
		if raw == nil {
			continue
		}
		text, ok := f.settingOf(name, p, raw)
		if !ok {
			return
		}
		asked[p.Name] = text
	}
	// A client may give these with every sampler, though some decide them themselves.
	anyway := map[string]string{}
	for _, name := range []string{"steps", "schedule"} {
		if text, ok := asked[name]; ok {
			anyway[name] = text
			delete(asked, name)
		}
	}
	s.stepped = anyway["steps"] != ""
	var err error
	s.recipe, err = asked.Over(base)
	for _, name := range sortedKeys(anyway) {
		if err != nil {
			break
		}
		if err = s.recipe.Set(name, anyway[name]); err != nil {
			err = param.About(name, err)
		}
	}
	if err != nil {
		f.fail(refused("", err))
	}
}

// settingOf returns a field of the recipe as the recipe's table takes it.
func (f *fields) settingOf(name string, p param.Param, raw json.RawMessage) (text string, ok bool) {
	switch p.Kind {
	case param.Text, param.Word:
		return f.textOf(name, raw), f.fault == nil
	case param.Whole:
		if !isWhole(string(raw)) {
			f.wrongType(name, raw, "a whole number, "+p.Want())
			return "", false
		}
		if _, err := p.Int(string(raw)); err != nil {
			f.fail(refused(name, err))
			return "", false
		}
		return string(raw), true
	}
	if kindOf(raw) != "a number" {
		f.wrongType(name, raw, "a number, "+p.Want())
		return "", false
	}
	x, _ := strconv.ParseFloat(string(raw), 64)
	if _, err := p.Float(param.Format(x)); err != nil {
		f.fail(refused(name, err))
		return "", false
	}
	return param.Format(x), true
}

// constrain reads the fields that only models of text have: logit_bias, min_length and end.
func (s *settings) constrain(f *fields, m *served) {
	length := m.spec.Length()
	s.constraints.MinLength = f.maybe("min_length", 0, length, 0)
	s.constraints.End = f.text("end")
	raw := f.value("logit_bias")
	if raw == nil {
		return
	}
	var biases map[string]json.RawMessage
	if json.Unmarshal(raw, &biases) != nil {
		f.wrongType("logit_bias", raw, "an object of token ids")
		return
	}
	if len(biases) > mostBiases {
		f.fail(bad("out_of_range", "logit_bias", "logit_bias has %d tokens, want at most %d",
			len(biases), mostBiases))
		return
	}
	for _, id := range sortedKeys(biases) {
		n, err := strconv.Atoi(id)
		if err != nil || n < 0 || n >= m.spec.Outcomes || !isWhole(id) {
			f.fail(bad("unknown_token", "logit_bias", "logit_bias has token %s, want 0 to %d",
				param.Quote(id), m.spec.Outcomes-1))
			return
		}
		x, err := strconv.ParseFloat(string(biases[id]), 64)
		if err != nil || !(x >= -100 && x <= 100) {
			f.fail(bad("out_of_range", "logit_bias", "logit_bias of token %d is %s, want -100 to 100", n,
				cut(string(biases[id]))))
			return
		}
		s.constraints.Bias = append(s.constraints.Bias, id+"="+param.Format(x))
	}
}

// run returns the checked run of one sequence. tokens are the known ones; nil: none.
func (s *settings) run(m *served, tokens []int32) (unmask.Run, *Fault) {
	o := unmask.Run{Seed: s.seed, N: 1, First: s.first, Tokens: tokens, Ends: s.ends}.With(s.recipe)
	if err := m.Constrain(&o, s.constraints); err != nil {
		return o, refused("", err)
	}
	free := m.spec.Length()
	if tokens != nil {
		free = masked(tokens, m.spec.Mask)
	}
	if !s.stepped {
		o.Steps = min(o.Steps, max(1, free))
	}
	o, err := m.Check(o)
	if err != nil {
		return o, refused("", err)
	}
	return o, nil
}

func masked(tokens []int32, mask int32) (n int) {
	for _, t := range tokens {
		if t == mask {
			n++
		}
	}
	return n
}

// sortedKeys returns the names of an object in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
