package exact

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Judge scores sequences by a model's own probabilities, left to right as a language model does but
// with the first token. A sequence's sum over samples of the truth is the entropy in the mean.
type Judge struct{ *Model }

// Context returns the model's length.
func (j Judge) Context() int { return j.Length() }

// Score returns -log p(x_k | x_1..x_(k-1)), in nats, of every token; +Inf for a token that cannot
// occur.
func (j Judge) Score(ctx context.Context, tokens [][]int32) ([][]float64, error) {
	nll := make([][]float64, len(tokens))
	for i, x := range tokens {
		if len(x) > j.Length() {
			return nil, fmt.Errorf("oracle: sequence %d has %d tokens, want at most %d", i, len(x),
				j.Length())
		}
		for k, token := range x {
			if token < 0 || int(token) >= j.tokens {
				return nil, fmt.Errorf("oracle: token %d at position %d of sequence %d, want 0 to %d", token, k,
					i, j.tokens-1)
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(x) == 0 {
			continue
		}
		if j.cells == 1 {
			nll[i] = j.scoreChain(x)
		} else {
			nll[i] = j.scoreByPrefixes(x)
		}
	}
	return nll, nil
}

// scoreChain returns -log p(x_k | x_1..x_(k-1)) of every token where a site is a position: one pass
// of messages from the left.
func (j Judge) scoreChain(x []int32) (nll []float64) {
	k := j.states
	state := slices.Clone(j.first) // p(state, x_1..x_(k-1)), scaled
	next := make([]float64, k)
	for site, token := range x {
		emission := j.emit(site, 0)
		suffix := j.suffixWeights[site*k : (site+1)*k]
		pBefore := 0.0
		pNow := 0.0
		for s, p := range state {
			pBefore += p * suffix[s]
			state[s] = p * emission[s*j.tokens+int(token)]
			pNow += state[s] * suffix[s]
		}
		nats := math.Inf(1)
		if pNow > 0 {
			nats = math.Log(pBefore / pNow)
		}
		nll = append(nll, nats)

		clear(next)
		for s, p := range state {
			if p == 0 {
				continue
			}
			for t, v := range j.step[s*k : (s+1)*k] {
				next[t] += p * v
			}
		}
		normalize(next)
		state, next = next, state
	}
	return nll
}

// scoreByPrefixes is scoreChain for all models: a whole pass for each prefix.
func (j Judge) scoreByPrefixes(x []int32) (nll []float64) {
	w := j.newWork()
	prefix := slices.Repeat([]int32{int32(j.tokens)}, j.Length())
	before := 0.0
	for k, token := range x {
		prefix[k] = token
		logP := j.passMessages(prefix, w)
		nats := math.Inf(1)
		if !math.IsInf(logP, -1) {
			nats = before - logP
		}
		nll = append(nll, nats)
		before = logP
	}
	return nll
}
