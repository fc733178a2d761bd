package samplers

import (
	"fmt"
	"math"
	"math/bits"

	"unmask/internal/philox"
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

// race is the published argmax, in float32. Nearly all outcomes are refused by their logits
// and the exponent of 1-u alone, which changes nothing: see hope.
func race(v *View, t, s float32) (Opening, error) {
	const stay = -1
	n := len(v.Masked)
	winner, logP := v.Tokens32(n), v.Floats(n)
	classes := v.Classes
	moveT, moveS := float32(1-1e-3)*t, float32(1-1e-3)*s
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		logits = logits[:min(classes, len(logits))]
		position, logSum := v.Masked[i], float32(v.LogSum[i])
		winner[i] = stay
		best := moveS / exponential(uniform24(v.Rand.Words(position, philox.Token, classes/4)[classes%4]))
		var least hope
		least.set(best/(moveT-moveS), logSum)
		draws := v.Rand.Blocks(position, philox.Token)
		var hopeful [raceBlocks]uint32
		var words [raceBlocks][4]uint32
		for first := 0; first < len(logits); first += 4 * raceBlocks {
			part := logits[first:min(first+4*raceBlocks, len(logits))]
			blocks := hopeful[:least.blocks(&hopeful, part, first/4)]
			draws.Fill(words[:], blocks)
			for k, block := range blocks {
				first, word := 4*int(block), &words[k]
				four := logits[first:min(first+4, len(logits))]
				if len(four) == 4 && below((*[4]float32)(four), least[exponent(max(word[0], word[1], word[2], word[3]))]) {
					continue
				}
				for j, l := range four {
					if l < least[exponent(word[j])] {
						continue
					}
					p := float32(math.Exp(float64(l - logSum)))
					if r := p * (moveT - moveS) / exponential(uniform24(word[j])); r > best {
						best, winner[i], logP[i] = r, int32(first+j), math.Log(float64(p))
						least.set(best/(moveT-moveS), logSum)
					}
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

// raceBlocks is for how many blocks of four outcomes random words are made at once.
const raceBlocks = 256

// hope is the least logit with which an outcome may still win, by the binary exponent of
// (1-u)*2^24: p/(1e-10-log(u+1e-10)) > best wants p > best*(1-u), as -log(u) >= 1-u. The margin of
// 1e-3 is far above float32's rounding.
type hope [25]float32

func (h *hope) set(best, logSum float32) {
	whole := float32(math.Log(float64(best))) + logSum - 1e-3
	for e := range h {
		h[e] = whole + float32(e-24)*math.Ln2
	}
}

// blocks lists, from number first on, the fours of logits of which one may win with the luckiest
// word, and returns how many they are. There are no branches: which may win has no pattern.
func (h *hope) blocks(list *[raceBlocks]uint32, logits []float32, first int) int {
	n, block, least := 0, uint32(first), h[0]
	for ; len(logits) >= 4; logits = logits[4:] {
		list[n%raceBlocks] = block
		block++
		n += int(^signs((*[4]float32)(logits), least) >> 31)
	}
	if len(logits) > 0 {
		list[n%raceBlocks] = block
		n++
	}
	return n
}

// exponent is the binary exponent of (1-u)*2^24.
func exponent(word uint32) int { return bits.Len32(1<<24-word>>8) - 1 }

// below says whether all four logits are less than least.
func below(l *[4]float32, least float32) bool { return signs(l, least)>>31 != 0 }

// signs has its top bit set if all four logits are less than least.
func signs(l *[4]float32, least float32) uint32 {
	return math.Float32bits(l[0]-least) & math.Float32bits(l[1]-least) &
		math.Float32bits(l[2]-least) & math.Float32bits(l[3]-least)
}
