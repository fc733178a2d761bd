// Package judges loads by name what samples are measured with: language models that judge text, and
// networks of features and references for images. From a model and its judge it makes the Task of
// sweeps, reports and searches.
package judges

import (
	"context"
	"fmt"

	"unmask/backend"
	"unmask/catalog"
	"unmask/exact"
	"unmask/model"
	"unmask/research/metrics"
	"unmask/research/metrics/gpt2"
	"unmask/tokenizers"
	"unmask/weights/hub"
)

// Options say how networks are loaded, as in unmask.Options.
type Options struct {
	Backend   backend.Backend
	Precision backend.Precision
	Progress  func(hub.Progress) // of a download; may be nil
}

// Judge is a language model that scores text. One goroutine at a time may use one.
type Judge struct {
	metrics.Judge

	name string
	src  *model.Source // nil for an exact model
}

// LoadTextJudge loads a judge of text: a GPT-2 by a name that catalog.Open takes, or an exact model
// such as oracle:markov:length=16,tokens=4.
func LoadTextJudge(ctx context.Context, name string, o Options) (*Judge, error) {
	if catalog.IsExact(name) {
		m, err := catalog.ParseExact(name)
		if err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
		return &Judge{Judge: exact.Judge{Model: m}, name: name}, nil
	}
	src, err := catalog.Open(ctx, name, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	m, err := gpt2.Load(src, model.Options{Backend: o.Backend, Precision: o.Precision})
	if err != nil {
		return nil, err
	}
	return &Judge{Judge: m, name: name, src: src}, nil
}

// Source returns the judge's files, nil for an exact model.
func (j *Judge) Source() *model.Source { return j.src }

// Info describes the judge.
func (j *Judge) Info() model.Info {
	info := model.Info{Architecture: "oracle", Sizes: map[string]int{"length": j.Context()}}
	if j.src != nil {
		info.Architecture = "gpt2, a judge of text"
		info.Parameters = model.Parameters(j.src.Set.Names(), j.src.Set)
	}
	return info
}

// Retokenizer returns the judge's own tokenizer, GPT-2's or a tokenizer.json beside its weights,
// for perplexity of text rather than of ids.
func (j *Judge) Retokenizer() (*metrics.Retokenizer, error) {
	if j.src == nil {
		return nil, fmt.Errorf("judge %s has no tokens of its own, want a GPT-2", j.name)
	}
	t, _, err := j.src.StartTokenizer("gpt2")()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.src.Name, err)
	}
	r := &metrics.Retokenizer{Tokenizer: t, EOS: -1}
	end, ok := tokenizers.Role(t, "eos_token")
	if !ok { // as GPT-2's class has it where its files name none
		end, ok = t.Special(tokenizers.EndOfText)
	}
	if ok {
		r.EOS = end
	}
	return r, nil
}

// nameWithFingerprint returns a model's name with its fingerprint; for an exact model, which has no
// files, the name alone.
func nameWithFingerprint(name string, src *model.Source) (string, error) {
	if src == nil {
		return name, nil
	}
	sum, err := src.Fingerprint()
	return name + " " + sum, err
}
