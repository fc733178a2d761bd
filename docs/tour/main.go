// Command tour writes a short story with the embedded demo model, one step at a time and in one
// file: masked diffusion without a pool, a cache, batches or a choice of samplers. It is to unmask
// what an algorithm box is to a paper, and it writes the same bytes as
//
//	unmask text --sampler moment --schedule uniform --cache 0 --steps 32 --seed 0
//
// Run it with `go run ./docs/tour`. Read it from generate downwards.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"slices"

	"unmask"
	"unmask/demo"
	"unmask/model"
	"unmask/samplers"
)

func main() {
	steps := flag.Int("steps", 32, "denoising steps N")
	seed := flag.Uint64("seed", 0, "seed")
	flag.Parse()

	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if length := m.Spec().Length(); *steps < 1 || *steps > length {
		log.Fatalf("steps is %d, want 1 to %d", *steps, length)
	}

	tokens, err := generate(context.Background(), m.Denoiser, *steps, *seed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Text.Decode(tokens))
}

// alpha is the temperature of the Gumbel noise in the first step; it falls to 0 in the last.
const alpha = samplers.DefaultAlpha

// generate is the denoising loop with the moment sampler (Hayakawa et al. 2025, "Moment sampler").
// It starts from masks alone (and, if the model has one, the first token of every text) and opens,
// at each of N steps,
//
//  1. the positions i with the largest  log sum_x p_i(x)^beta + Gumbel noise, and there
//  2. tokens x with probability proportional to p_i(x)^beta,
//
// where p_i is the network's distribution of the token at i given all open tokens. An exponent beta
// above 1 prefers positions where the network is sure, and its likely tokens.
func generate(ctx context.Context, network model.Denoiser, steps int,
	seed uint64) ([]int32, error) {
	spec := network.Spec()
	tokens := spec.BlankTokens(spec.Length()) // [length]
	free := spec.CountMasked(tokens)

	for n := 1; n <= steps; n++ {
		// Every random number belongs to a seed, a sequence (here 0), a step, a position and a use.
		// None depends on those drawn before, so the order of evaluation does not matter.
		noise := samplers.Rand{Seed: seed, Sequence: 0, Step: uint32(n)}

		masked := maskedPositions(tokens, spec.Mask)
		logits, err := predict(ctx, network, tokens, masked)
		if err != nil {
			return nil, err
		}

		beta := exponent(n, steps)
		k := quota(n, steps, free, len(masked))
		for _, i := range choosePositions(logits, masked, k, beta, noise) {
			position := masked[i]
			u := noise.Uniform(position, samplers.ForToken)
			tokens[position] = drawToken(logits[i], beta, u)
		}
	}
	return tokens, nil
}

// exponent returns beta_n = 1 + 1/alpha_n with alpha_n = alpha (1 - n/N). In the last step, which
// opens all that is left, it is 1: tokens follow the network's own distribution.
func exponent(n, steps int) float64 {
	if n == steps {
		return 1
	}
	return 1 + 1/(alpha*(1-float64(n)/float64(steps)))
}

// quota returns how many positions step n opens. Under the uniform schedule round(D n/N) of the D
// free positions are open after step n. Halves are rounded to even, as in PyTorch, so that the
// counts are those of the published implementations.
func quota(n, steps, free, masked int) int {
	open := int(math.RoundToEven(float64(free) * float64(n) / float64(steps)))
	return open - (free - masked)
}

// maskedPositions returns the positions that are still masked, ascending.
func maskedPositions(tokens []int32, mask int32) (masked []int) {
	for i, t := range tokens {
		if t == mask {
			masked = append(masked, i)
		}
	}
	return masked
}

// predict runs the transformer over the whole sequence and returns the logits of each masked
// position, [masked][outcomes]. The mask itself is no outcome. Attention is bidirectional: every
// position sees every other, masked ones too.
func predict(ctx context.Context, network model.Denoiser, tokens []int32,
	masked []int) ([][]float32, error) {
	marginals, err := network.Forward(ctx, &model.Batch{Tokens: tokens, Size: 1, Length: len(tokens)})
	if err != nil {
		return nil, err
	}

	rows := make([]int32, len(masked))
	for i, position := range masked {
		rows[i] = int32(position)
	}
	logits := make([][]float32, len(masked))
	err = marginals.Visit(rows, func(i int, row []float32) {
		logits[i] = slices.Clone(row[:network.Spec().Outcomes]) // row is valid during this call only
	})
	return logits, err
}

// choosePositions returns the indices, in masked, of the k positions to open. Adding Gumbel noise
// to log w_i and taking the k largest draws k positions without replacement with weights w_i =
// sum_x p_i(x)^beta (proposition 1 of the paper).
func choosePositions(logits [][]float32, masked []int, k int, beta float64,
	noise samplers.Rand) []int {
	scores := make([]float64, len(masked))
	indices := make([]int, len(masked))
	for i, position := range masked {
		indices[i] = i
		u := noise.Uniform(position, samplers.ForOrder)
		if beta == 1 { // all moments are equal, so uniform noise alone decides
			scores[i] = u
			continue
		}
		// log sum p^beta = log sum exp(beta l) - beta log sum exp(l)
		moment := logSumExp(logits[i], beta) - beta*logSumExp(logits[i], 1)
		scores[i] = moment - math.Log(-math.Log(u))
	}
	slices.SortStableFunc(indices, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return indices[:k]
}

// drawToken returns a token with probability proportional to p^beta, by inverting the cumulative
// distribution at u, a number between 0 and 1. If rounding ends the sum below u, it returns the
// last token that has any probability, never one that has none.
func drawToken(logits []float32, beta, u float64) int32 {
	total := logSumExp(logits, beta)
	cumulative := 0.0
	token := 0
	for x, l := range logits {
		p := math.Exp(beta*float64(l) - total)
		if p > 0 {
			token = x
			cumulative += p
		}
		if cumulative > u {
			break
		}
	}
	return int32(token)
}

// logSumExp returns log sum_x exp(beta l_x). The largest logit is taken out first, because exp of
// it could overflow.
func logSumExp(logits []float32, beta float64) float64 {
	largest := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(beta * (float64(l) - largest))
	}
	return math.Log(sum) + beta*largest
}
