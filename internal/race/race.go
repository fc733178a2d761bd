// Package race draws outcomes as published with MDLM (Sahoo et al., 2024) and SDTT (Deschenaux and
// Gulcehre 2024): the argmax over the outcomes of a weight divided by an exponential time, all in
// float32. The coarse uniform numbers, of 24 bits, bias the draw (Zheng et al., 2024).
package race

import (
	"math"

	"unmask/internal/philox"
	"unmask/internal/simd"
	"unmask/internal/simd/screen"
)

// NoWinner is the winner if no outcome exceeds the bar.
const NoWinner = -1

// Winner returns the outcome x with the largest p(x)*scale/Time(word x) above bar, and p(x);
// NoWinner if there is none. p(x) is exp(logits[x]-logSum). Word x is in the position's Token block
// x/4. Nearly all outcomes are skipped because of their logits and words alone, which does not
// change the result: see minLogit.
func Winner(s philox.Stream, position int, logits []float32, logSum, scale, bar float32) (
	winner int, p float32) {
	winner = NoWinner
	best := bar
	threshold := minLogit(best/scale, logSum)
	draws := s.Blocks(position, philox.Token)
	ops := screen.Ops(simd.Default().ISA)
	var words [screen.Size / 4][4]uint32
	var candidates screen.Set
	size := screen.Size / 8 // the first part is small, because few outcomes are skipped before it
	for first := 0; first < len(logits); {
		part := logits[first:min(first+size, len(logits))]
		draws.Fill(words[:size/4], first/4)
		ops.Race(&candidates, part, &words, threshold)
		for x := range candidates.All() {
			word := words[x/4][x%4]
			if part[x] <= screen.Luck(word)+threshold { // because best has risen
				continue
			}
			px := float32(math.Exp(float64(part[x] - logSum)))
			result := px * scale / Time(word)
			if result > best {
				winner = first + x
				p = px
				best = result
				threshold = minLogit(best/scale, logSum)
			}
		}
		first += size
		size = min(2*size, screen.Size)
	}
	return winner, p
}

// Time returns 1e-10 - log(u+1e-10) for the number u of a random word: uniform on multiples of
// 2^-24 in [0, 1), like torch.rand in float32.
func Time(word uint32) float32 {
	u := float32(word>>8) / (1 << 24)
	return 1e-10 - float32(math.Log(float64(u+1e-10)))
}

// minLogit returns a lower bound for a logit plus the luck of its word that can still beat best:
// p/(1e-10-log(u+1e-10)) > best needs p > best*(1-u), because -log(u) >= 1-u. The margin subtracted
// is far larger than float32's rounding.
func minLogit(best, logSum float32) float32 {
	if best <= 0 {
		return float32(math.Inf(-1))
	}
	return float32(math.Log(float64(best))) + logSum - 1e-3 - 1e-6*float32(math.Abs(float64(logSum)))
}
