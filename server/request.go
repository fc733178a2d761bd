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
	maxChoices = 64
	maxPrompts = 64
	maxSteps   = 4096
	maxBiases  = 1024
	maxFirst   = 1<<31 - 1

	// maxLanguage bounds the edges of a grammar that a step of a sequence looks at: about a second.
	maxLanguage = 1 << 26

	// maxDrawnSeed bounds the seeds that the server draws, so that JavaScript's numbers hold them.
	maxDrawnSeed = 1 << 53
)

// settings are the fields that all ways to make sequences have in common.
type settings struct {
	// request is what the sequences share. Its Index is that of the first one.
	request unmask.Request

	// hasSeed reports whether the client chose the seed.
	hasSeed bool

	// n is the number of sequences of each prompt.
	n int

	// batch reports whether the call may wait for others.
	batch bool

	// top is how many of the most probable tokens of each position the answer has.
	top int

	// grammarField is the client's field that says what a text must spell, "" for none.
	grammarField string

	// notes say what a named sampler leaves out of the model's recipe. prepare sets them.
	notes []string
}

// textFields are the fields of requests for texts that mean what the unmask.Request's of the same
// name mean.
var textFields = []string{"min_length", "end", "cut", "length", "schema", "regex", "choice",
	"avoid", "recursion"}

// readSettings reads the fields that all ways to make sequences have in common.
func readSettings(f *fields) (s settings) {
	f.dropPlaceholders()
	s.request.Seed, s.hasSeed = f.seed("seed")
	s.n = f.integer("n", 1, maxChoices, 1)
	s.request.Index = uint32(f.integerOrNull("first", 0, maxFirst, 0))
	s.batch = f.oneOf("priority", "interactive", "batch") == "batch"
	f.integerOrNull("steps", 1, maxSteps, 1) // fewer than the library allows
	for _, p := range unmask.Overridable() {
		f.decodeInto(&s.request, unmask.FieldName(p.Name))
	}
	f.decodeInto(&s.request, "preset")
	return s
}

// decodeInto reads fields of a request by the names that they have in its JSON.
func (f *fields) decodeInto(r *unmask.Request, names ...string) {
	for _, name := range names {
		raw := f.value(name)
		if raw == nil {
			continue
		}
		err := json.Unmarshal(encodeJSON(map[string]json.RawMessage{name: raw}), r)
		if err == nil {
			continue
		}
		if _, ok := errors.AsType[*param.Error](err); ok {
			f.fail(faultOf(name, err))
		} else {
			f.fail(fieldFault("wrong_type", name, "%s", oneLine(err)))
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
		f.fail(fieldFault("out_of_range", "logit_bias", "logit_bias has %d tokens, want at most %d",
			len(biases), maxBiases))
		return
	}
	for _, id := range sortedKeys(biases) {
		n, err := strconv.Atoi(id)
		if err != nil || n < 0 || n >= m.spec.Outcomes || !isInteger(id) {
			f.fail(fieldFault("unknown_token", "logit_bias",
				"logit_bias has token %s, want 0 to %d", param.Quote(id), m.spec.Outcomes-1))
			return
		}
		bias, err := strconv.ParseFloat(string(biases[id]), 64)
		if err != nil || !(bias >= -100 && bias <= 100) {
			f.fail(fieldFault("out_of_range", "logit_bias",
				"logit_bias of token %d is %s, want -100 to 100", n, truncate(string(biases[id]))))
			return
		}
		s.request.Bias = append(s.request.Bias, id+"="+param.Format(bias))
	}
}

// allowedAnyway are parameters that a client may give with every sampler, though some samplers
// decide them themselves: clients have them in their configuration, for any model.
var allowedAnyway = []string{"schedule", "steps"}

// prepare returns the sequences of a request whose fields were all read: n for each of list. Faults
// have the client's names of fields, which names has where they differ from those of
// unmask.Request. A sequence without a position to fill fails with noHole.
func (s *settings) prepare(ctx context.Context, f *fields, m *servedModel, names map[string]string,
	noHole *Fault, list ...unmask.Request) (sequences []generate.Request) {
	if fault := f.finish(); fault != nil {
		f.fail(fault)
		return nil
	}
	if notes, ok := ctx.Value(notesKey{}).(*requestNotes); ok {
		ctx = prompt.WithOwner(ctx, notes.key)
	}
	prepared, err := s.prepareAll(ctx, m, list)
	if err != nil {
		f.fail(faultOf("", err).renameParam(s.clientNames(names)))
		return nil
	}
	s.notes = m.SamplerNotes(list...)
	if !s.hasSeed && !prepared[0].Greedy { // temperature 0 means the same answer each time
		s.request.Seed = rand.Uint64N(maxDrawnSeed)
	}

	for _, request := range prepared {
		if l := request.Language; l != nil && l.Work() > maxLanguage {
			f.fail(rangeFault(s.grammarField,
				fmt.Sprintf("a grammar of which a step looks at %d edges", l.Work()),
				fmt.Sprintf("at most %d: a smaller grammar or fewer tokens", maxLanguage)))
			return nil
		}
		if m.spec.CountMasked(request.Known) == 0 {
			f.fail(noHole)
			return nil
		}
		for range s.n {
			request.Seed = s.request.Seed
			request.Index = s.request.Index + uint32(len(sequences))
			request.Top = s.top
			sequences = append(sequences, request)
		}
	}
	return sequences
}

// prepareAll prepares requests. It drops overrides that the sampler refuses but that are allowed
// anyway.
func (s *settings) prepareAll(ctx context.Context, m *servedModel,
	list []unmask.Request) ([]generate.Request, error) {
	for {
		prepared, err := m.PrepareAll(ctx, list)
		if err == nil {
			return prepared, nil
		}
		e, ok := errors.AsType[*param.Error](err)
		if !ok || e.Reason != param.NoEffect || !slices.Contains(allowedAnyway, e.Name) {
			return nil, err
		}
		delete(s.request.Overrides, e.Name) // all of list have the same map
	}
}

// clientNames returns the client's names of the request's fields, given those of its route.
func (s *settings) clientNames(names map[string]string) map[string]string {
	all := map[string]string{
		"schema": s.grammarField,
		"regex":  s.grammarField,
		"choice": s.grammarField,
	}
	maps.Copy(all, names)
	if s.request.Length > 0 {
		delete(all, "length") // the client gave a length, not max_tokens
	}
	return all
}

// maxTop bounds the tokens that an answer lists beside its own, of all choices together.
const maxTop = 1 << 18

// checkTop refuses more most probable tokens than an answer may have, in the field called name.
func (s *settings) checkTop(f *fields, name string, sequences []generate.Request, m *servedModel) {
	positions := 0
	for _, request := range sequences {
		positions += m.spec.CountMasked(request.Known)
	}
	if limit := maxTop / max(positions, 1); s.top > limit {
		f.fail(rangeFault(name, s.top, fmt.Sprintf("0 to %d with %d positions", limit, positions)))
	}
}

// sortedKeys returns the names of an object in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
