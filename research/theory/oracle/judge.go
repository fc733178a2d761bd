package oracle

import (
	"context"
	"fmt"
	"math"
)

// Judge scores sequences by a model's own probabilities, as a language model does. The mean over
// samples of the truth is the entropy, minus that of the first token.
type Judge struct{ *Model }

// Context returns the model's length.
func (j Judge) Context() int { return j.Length() }

// Score returns -log p(x_k | x_1..x_(k-1)), in nats, of every token but the first; +Inf for a token
// that cannot occur.
func (j Judge) Score(ctx context.Context, tokens [][]int32) ([][]float64, error) {
	nll, w, prefix := make([][]float64, len(tokens)), j.newWork(), make([]int32, j.Length())
	for i, x := range tokens {
		if len(x) > j.Length() {
			return nil, fmt.Errorf("oracle: sequence %d has %d tokens, want at most %d", i, len(x),
				j.Length())
		}
		for k := range prefix {
			prefix[k] = int32(j.tokens)
		}
		before := 0.0
		for k, token := range x {
			if token < 0 || int(token) >= j.tokens {
				return nil, fmt.Errorf("oracle: token %d at position %d of sequence %d, want 0 to %d", token, k,
					i, j.tokens-1)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			prefix[k] = token
			now := j.pass(prefix, w)
			if k > 0 {
				nats := math.Inf(1)
				if !math.IsInf(now, -1) {
					nats = before - now
				}
				nll[i] = append(nll[i], nats)
			}
			before = now
		}
	}
	return nll, nil
}
