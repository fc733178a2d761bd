// Package metrics measures samples: generative perplexity, entropy and diversity of text, and
// Frechet distances, Inception Score, precision and recall of features.
package metrics

import (
	"context"
	"fmt"
)

// Judge is a language model that scores tokens, such as gpt2.Model.
type Judge interface {
	// Score returns -log p, in nats, of each sequence's tokens from the second on, and of the first
	// too where the judge knows its probability.
	Score(ctx context.Context, tokens [][]int32) (nll [][]float64, err error)
	Context() int // longest sequence that it can score
}

// Tokenizer is the judge's tokenizer. EncodeSpecial reads the spelling of a special token as that
// token.
type Tokenizer interface {
	EncodeSpecial(text string) ([]int32, error)
}

// Perplexity accumulates generative perplexity. The zero value is empty. One goroutine at a time
// may use one.
type Perplexity struct {
	Samples []float64 // each sample's mean negative log-likelihood, nats a token
	Tokens  []int     // number of scored tokens of each sample
}

// Add adds a sample with its tokens' negative log-likelihoods. A sample without any, of at most one
// token, is skipped.
func (p *Perplexity) Add(nll []float64) {
	if len(nll) == 0 {
		return
	}
	var sum float64
	for _, v := range nll {
		sum += v
	}
	p.Samples = append(p.Samples, sum/float64(len(nll)))
	p.Tokens = append(p.Tokens, len(nll))
}

// AddIDs scores raw token ids, by a language model all positions from the second on, as in SDTT's
// code (Deschenaux & Gulcehre 2025). The judge must have the samples' vocabulary. There, perplexity
// is exp of the mean of Samples.
func (p *Perplexity) AddIDs(ctx context.Context, j Judge, samples [][]int32) error {
	nll, err := j.Score(ctx, samples)
	if err != nil {
		return err
	}
	for _, s := range nll {
		p.Add(s)
	}
	return nil
}

// Retokenizer turns text into the judge's tokens.
type Retokenizer struct {
	Tokenizer Tokenizer
	EOS       int32 // token that ends a text, 50256 for GPT-2
}

// AddTexts scores text in the judge's own tokens, as in MDLM's code (Sahoo et al. 2024,
// compute_generative_perplexity). What is longer than the judge's context is cut off; all tokens
// from the second on count, except ends of text after the first. There, perplexity is exp of the
// mean over all tokens.
//
// MDLM's code also counts the first padding token, as an end of text, for texts shorter than the
// longest of their batch; here a text's score does not depend on the others.
func (p *Perplexity) AddTexts(ctx context.Context, j Judge, texts []string, o Retokenizer) error {
	tokens := make([][]int32, len(texts))
	for i, text := range texts {
		ids, err := o.Tokenizer.EncodeSpecial(text)
		if err != nil {
			return fmt.Errorf("text %d: %w", i, err)
		}
		tokens[i] = ids[:min(len(ids), j.Context())]
	}
	nll, err := j.Score(ctx, tokens)
	if err != nil {
		return err
	}
	for i, ids := range tokens {
		hasEnded := false
		var counted []float64
		for k, id := range ids {
			isEnd := id == o.EOS
			if k > 0 && (!isEnd || !hasEnded) {
				counted = append(counted, nll[i][k-1])
			}
			hasEnded = hasEnded || isEnd
		}
		p.Add(counted)
	}
	return nil
}
