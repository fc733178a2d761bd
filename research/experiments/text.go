package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"unmask/demo/stories"
	"unmask/model"
	"unmask/research/metrics"
)

// TextTask returns the task of a model of text and the judge of its samples, which scores raw ids
// as SDTT's code does. With decode, which returns a sample's text, contradictions are counted too:
// the model writes the stories of package stories.
func TextTask(d model.Denoiser, judge metrics.Judge, decode func(ids []int32) string) Task {
	return Task{
		Kind:   "text",
		Model:  d,
		Scorer: func(int) Scorer { return &TextScorer{Judge: judge, Decode: decode} },
	}
}

// maxDiversitySamples is the most samples that distinct2 and self_bleu use, because their memory
// grows with the samples.
const maxDiversitySamples = 1000

// TextScorer judges text: generative perplexity by raw ids (SDTT, the paper) or, where Retokenize
// is set, as MDLM's code has it; the mean entropy of a sample's own tokens; of the first 1000
// samples, distinct2 and self_bleu; the share of their chances that stories take to contradict
// themselves, and their slips; and where the judge is an exact model of a line of tokens, how far
// the samples' pairs of neighbours are from its own, and the share of the first 1000
// samples that equal an earlier one. One goroutine at a time may use one.
type TextScorer struct {
	Judge      metrics.Judge
	Retokenize *metrics.Retokenizer
	Decode     func(ids []int32) string // of stories; nil: Add counts no contradictions

	nll            tally
	entropy        tally
	contradictions tally
	slips          tally
	first          [][]int32
	transitions    *transitions // nil unless the judge knows the truth
}

// Add counts samples by their ids.
func (s *TextScorer) Add(ctx context.Context, ids [][]int32) error {
	if s.Retokenize != nil {
		return errors.New("a scorer of text was given ids")
	}
	for i := 0; i < len(ids) && s.Decode != nil; i++ {
		s.AddStory(s.Decode(ids[i]))
	}
	ids = s.visibleTokens(ids)
	var p metrics.Perplexity
	if err := p.AddIDs(ctx, s.Judge, ids); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	for _, v := range p.Samples {
		s.nll.add(v, 1)
	}
	s.countTokens(ids)
	return nil
}

// AddTexts counts samples by their text; ids are for entropy and diversity.
func (s *TextScorer) AddTexts(ctx context.Context, ids [][]int32, texts []string) error {
	var p metrics.Perplexity
	if err := p.AddTexts(ctx, s.Judge, texts, *s.Retokenize); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	for i, v := range p.Samples {
		s.nll.add(v, float64(p.Tokens[i])) // MDLM averages over tokens
	}
	s.countTokens(s.visibleTokens(ids))
	return nil
}

// visibleTokens returns samples without the tokens that are no part of a text by the judge.
func (s *TextScorer) visibleTokens(ids [][]int32) [][]int32 {
	judge, ok := s.Judge.(interface{ SpecialTokens() []int32 })
	if !ok {
		return ids
	}
	unshown := judge.SpecialTokens()
	out := make([][]int32, len(ids))
	for i, t := range ids {
		out[i] = slices.DeleteFunc(slices.Clone(t),
			func(id int32) bool { return slices.Contains(unshown, id) })
	}
	return out
}

// AddStory counts the contradictions and slips of a sample's text.
func (s *TextScorer) AddStory(text string) {
	contradictions, chances := stories.CountContradictions(text)
	s.contradictions.add(float64(contradictions)/float64(max(chances, 1)), float64(chances))
	s.slips.add(float64(stories.CountSlips(text)), 1)
}

// countTokens counts entropy, diversity and transitions of samples.
func (s *TextScorer) countTokens(ids [][]int32) {
	if judge, ok := s.Judge.(truthJudge); ok && s.transitions == nil && judge.Pairs() != nil {
		s.transitions = newTransitions(judge.Pairs())
	}
	for _, t := range ids {
		if s.transitions != nil {
			s.transitions.add(t)
		}
		s.entropy.add(metrics.Entropy(t), 1)
		if len(s.first) < maxDiversitySamples {
			s.first = append(s.first, append([]int32(nil), t...))
		}
	}
}

// Metrics returns the metrics of all samples so far.
func (s *TextScorer) Metrics(context.Context) (Metrics, error) {
	m := Metrics{}
	if s.entropy.n == 0 {
		return nil, errors.New("no samples")
	}
	m.add("perplexity", &s.nll, math.Exp)
	m.add("entropy", &s.entropy, identity)
	m["distinct2"] = Measure{Value: metrics.DistinctN(s.first, 2)}
	m.add("contradictions", &s.contradictions, identity)
	m.add("slips", &s.slips, identity)
	if s.transitions != nil {
		s.transitions.addMeasures(m)
		m.add("nll", &s.nll, identity)
		m["duplicates"] = Measure{Value: metrics.Duplicates(s.first)}
	}
	if bleu := metrics.SelfBLEU(s.first, 4); bleu == bleu {
		m["self_bleu"] = Measure{Value: bleu}
	}
	return m, nil
}
