package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"unmask"
	"unmask/generate"
	"unmask/param"
	"unmask/prompt"
)

// Bounds of one request.
const (
	maxChoices  = 64
	maxPrompts  = 64
	maxSteps    = 4096
	maxBiases   = 1024
	maxFirst    = 1<<31 - 1
	maxLanguage = 1 << 26 // edges that a step of a sequence looks at: about a second
	maxDrawn    = 1 << 53 // a seed that the server draws is below: JavaScript's numbers have it
)

// settings are the fields that all ways to make sequences have in common.
type settings struct {
	request unmask.Request // what the sequences share; its Index is the first one's
	seeded  bool           // the request has a seed
	n       int            // sequences of each prompt
	batch   bool           // it may wait for others
	top     int            // most probable tokens of each position that the answer has
	form    string         // the client's field that says what a text must spell
}

// textFields are the fields of requests for texts that mean what the unmask.Request's of the same
// name mean.
var textFields = []string{"min_length", "end", "cut", "length", "schema", "regex", "choice",
	"avoid", "recursion"}

// readSettings reads the fields that all ways to make sequences have in common.
func readSettings(f *fields) (s settings) {
	f.leaveOut()
	s.request.Seed, s.seeded = f.seed("seed")
	s.n = f.whole("n", 1, maxChoices, 1)
	s.request.Index = uint32(f.maybe("first", 0, maxFirst, 0))
	s.batch = f.word("priority", "interactive", "batch") == "batch"
	f.maybe("steps", 1, maxSteps, 1) // fewer than the library allows
	for _, p := range unmask.Overridable() {
		f.into(&s.request, unmask.FieldName(p.Name))
	}
	f.into(&s.request, "preset")
	return s
}

// into reads fields of a request by the names that they have in its JSON.
func (f *fields) into(r *unmask.Request, names ...string) {
	for _, name := range names {
		raw := f.value(name)
		if raw == nil {
			continue
		}
		err := json.Unmarshal(encode(map[string]json.RawMessage{name: raw}), r)
		if _, ok := errors.AsType[*param.Error](err); ok {
			f.fail(refused(name, err))
		} else if err != nil {
			f.fail(bad("wrong_type", name, "%s", oneLine(err)))
		}
	}
}

// readBias reads logit_bias.
func (s *settings) readBias(f *fields, m *servedModel) {
	var biases map[string]json.RawMessage
	if !f.decode("logit_bias", &biases, "an object of token ids") {
		return
	}
	if len(biases) > maxBiases {
		f.fail(bad("out_of_range", "logit_bias", "logit_bias has %d tokens, want at most %d",
			len(biases), maxBiases))
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
		s.request.Bias = append(s.request.Bias, id+"="+param.Format(x))
	}
}

// anyway are parameters that a client may give with every sampler, though some decide them
// themselves.
var anyway = []string{"schedule", "steps"}

// prepare returns the sequences of a request whose fields were all read: n for each of list. The
// client's names for fields of unmask.Request are in names where they differ; nothing is the fault
// of a sequence without a position to fill.
func (s *settings) prepare(ctx context.Context, f *fields, m *servedModel, names map[string]string,
	nothing *Fault, list ...unmask.Request) (out []generate.Request) {
	if fault := f.end(); fault != nil {
		f.fail(fault)
		return nil
	}
	if n, ok := ctx.Value(noteKey{}).(*noted); ok {
		ctx = prompt.WithOwner(ctx, n.key)
	}
	prepared, err := m.PrepareAll(ctx, list)
	for err != nil {
		e, ok := errors.AsType[*param.Error](err)
		if !ok || e.Reason != param.NoEffect || !slices.Contains(anyway, e.Name) {
			f.fail(refused("", err).renamed(s.clients(names)))
			return nil
		}
		delete(s.request.Overrides, e.Name) // which all of list have
		prepared, err = m.PrepareAll(ctx, list)
	}
	if !s.seeded && !prepared[0].Greedy { // temperature 0 means the same answer each time
		s.request.Seed = rand.Uint64N(maxDrawn)
	}
	for _, q := range prepared {
		if l := q.Language; l != nil && l.Work() > maxLanguage {
			f.fail(outOfRange(s.form, fmt.Sprintf("a grammar of which a step looks at %d edges", l.Work()),
				fmt.Sprintf("at most %d: a smaller grammar or fewer tokens", maxLanguage)))
			return nil
		}
		if m.spec.CountMasked(q.Known) == 0 {
			f.fail(nothing)
			return nil
		}
		for range s.n {
			q.Seed, q.Index, q.Top = s.request.Seed, s.request.Index+uint32(len(out)), s.top
			out = append(out, q)
		}
	}
	return out
}

// clients returns the client's names of the request's fields, given those of its route.
func (s *settings) clients(names map[string]string) map[string]string {
	out := map[string]string{"schema": s.form, "regex": s.form, "choice": s.form}
	maps.Copy(out, names)
	if s.request.Length > 0 {
		delete(out, "length")
	}
	return out
}

// checkTop refuses more most probable tokens than an answer may have, in a field with that name.
func (s *settings) checkTop(f *fields, name string, sequences []generate.Request, m *servedModel) {
	free := 0
	for _, q := range sequences {
		free += m.spec.CountMasked(q.Known)
	}
	if most := maxTop / max(free, 1); s.top > most {
		f.fail(outOfRange(name, s.top, fmt.Sprintf("0 to %d with %d positions", most, free)))
	}
}

// maxTop bounds the tokens that an answer lists beside its own, of all choices together.
const maxTop = 1 << 18

// sortedKeys returns the names of an object in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
