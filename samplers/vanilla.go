package samplers

import (
	"fmt"
	"math"

	"unmask/internal/philox"
	"unmask/internal/simd"
	"unmask/internal/simd/screen"
)

// Vanilla opens each masked position independently with probability (t-s)/t, as MDLM
// (Sahoo et al. 2024) and SDTT (Deschenaux and Gulcehre 2024) publish it: times 1 down to
// 1e-5 in N equal steps, and what is still masked after them takes its argmax.
//
// With Bits 32 the arithmetic is theirs in float32. At each masked position the sample is
// the argmax over the outcomes and the mask of q/(1e-10-log(u+1e-10)), where
// q_x = p(x)*(m(t)-m(s)), q_mask = m(s), m(t) = (1-1e-3)*t, and u is uniform with 24 bits.
// The coarse u biases which positions open (Zheng et al. 2024; Hayakawa et al. 2025, table 2).
//
// With Bits 64 (the default) that race is thinned: the mask wins it with probability
// m(s)/m(t) whatever p is, and otherwise the token follows p, so a coin is tossed for each position
// and the head runs only where it opens. The 1e-10 of the published expression in float64
// moves these probabilities by less than 1e-8.
type Vanilla struct {
	Bits int // 32 or 64; 0 means 64
}

const vanillaEnd = 1e-5

// Plan adds the step of the argmax. There may be more steps than positions.
func (Vanilla) Plan(steps, free int) (int, error) {
	if steps == 0 {
		steps = free
	}
	return steps + 1, nil
}

// Time is that before the step.
func (Vanilla) Time(v *View) float64 { return evenTime(v.Step, v.Steps) }

// evenTime is 1 to 1e-5 in steps-1 equal parts, the last step at 1e-5.
func evenTime(step, steps int) float64 {
	return 1 - float64(step-1)*(1-vanillaEnd)/float64(max(steps-1, 1))
}

// Needs logits in 32 bit, nothing in 64, the argmax in the last step.
func (a Vanilla) Needs(step, steps int) Need {
	race := a.Bits == 32 && step < steps
	return Need{Top: step >= steps, LogSum: race, Logits: race}
}

// Choose opens any number of positions, perhaps none.
func (a Vanilla) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return v.argmax(), nil
	}
	t, s := evenTime(v.Step, v.Steps), evenTime(v.Step+1, v.Steps)
	if a.Bits == 32 {
		return race(v, float32(t), float32(s))
	}
	open := v.Ints(len(v.Masked))[:0]
	for i, p := range v.Masked {
		if v.Uniform(i)*t < t-s {
			open = append(open, p)
		}
	}
	return Opening{Positions: open}, nil
}

// Uncached says why there is no second stage.
func (Vanilla) Uncached() string {
	return "vanilla decides at each position alone, so a step's positions have no order"
}

// Check wants 32 or 64 bits.
func (a Vanilla) Check() error {
	if a.Bits != 0 && a.Bits != 32 && a.Bits != 64 {
		return fmt.Errorf("samplers: vanilla with %d bits, want 32 or 64", a.Bits)
	}
	return nil
}

// argmax opens all that is masked with its most probable token.
func (v *View) argmax() Opening {
	o := Opening{Positions: v.Masked, Tokens: v.Arg, LogP: v.Floats(len(v.Masked))}
	for i, p := range v.P1 {
		o.LogP[i] = math.Log(p)
	}
	return o
}

// race is the published argmax, in float32. Nearly all outcomes are refused by their logits and
// random words alone, which changes nothing: see hope.
func race(v *View, t, s float32) (Opening, error) {
	const stay = -1
	n := len(v.Masked)
	winner, logP := v.Tokens32(n), v.Floats(n)
	classes, ops := v.Outcomes, screen.Ops(simd.Default().ISA)
	moveT, moveS := float32(1-1e-3)*t, float32(1-1e-3)*s
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		logits = logits[:min(classes, len(logits))]
		position, logSum := v.Masked[i], float32(v.LogSum[i])
		winner[i] = stay
		best := moveS / exponential(uniform24(v.Rand.Words(position, philox.Token, classes/4)[classes%4]))
		least := hope(best/(moveT-moveS), logSum)
		draws := v.Rand.Blocks(position, philox.Token)
		var words [screen.Size / 4][4]uint32
		var hopeful screen.Set
		size := screen.Size / 8 // the first part is small, because there may be much hope before it
		for first := 0; first < len(logits); first, size = first+size, min(2*size, screen.Size) {
			part := logits[first:min(first+size, len(logits))]
			draws.Fill(words[:size/4], first/4)
			ops.Race(&hopeful, part, &words, least)
			for x := range hopeful.All() {
				word := words[x/4][x%4]
				if part[x] <= screen.Luck(word)+least { // since best has grown
					continue
				}
				p := float32(math.Exp(float64(part[x] - logSum)))
				if r := p * (moveT - moveS) / exponential(uniform24(word)); r > best {
					best, winner[i], logP[i] = r, int32(first+x), math.Log(float64(p))
					least = hope(best/(moveT-moveS), logSum)
				}
			}
		}
	})
	if err != nil {
		return Opening{}, err
	}
	o := Opening{Positions: v.Ints(n)[:0], Tokens: v.Tokens32(n)[:0], LogP: v.Floats(n)[:0]}
	for i, token := range winner {
		if token != stay {
			o.Positions = append(o.Positions, v.Masked[i])
			o.Tokens, o.LogP = append(o.Tokens, token), append(o.LogP, logP[i])
		}
	}
	return o, nil
}

// exponential is 1e-10 - log(u+1e-10) in float32.
func exponential(u float32) float32 {
	return 1e-10 - float32(math.Log(float64(u+1e-10)))
}

// uniform24 is uniform on multiples of 2^-24 in [0, 1), as torch.rand in float32.
func uniform24(word uint32) float32 { return float32(word>>8) / (1 << 24) }

// hope is what a logit must exceed, with its word's luck, to win still: p/(1e-10-log(u+1e-10)) > best wants
// p > best*(1-u), as -log(u) >= 1-u. What is taken off is far above float32's rounding.
func hope(best, logSum float32) float32 {
	return float32(math.Log(float64(best))) + logSum - 1e-3 - 1e-6*float32(math.Abs(float64(logSum)))
}
