package samplers

import (
	"math"
	"slices"

	"unmask/param"
)

// OmniVoice is the rule of OmniVoice (Zhu et al. 2026, "OmniVoice", arXiv 2604.00688): positions
// with the most probable best tokens open first, those of earlier codebooks before later ones,
// with Gumbel noise, and get these tokens. A codebook is a column of a two-dimensional shape.
//
// As published, the mask is a class of the probabilities that positions are ranked by, though it is
// never drawn.
type OmniVoice struct {
	Noise   float64 `param:"noise 1e-6..1e6 =5" help:"temperature of the choice of positions"`
	Penalty float64 `param:"penalty 1e-9..1e6 =5" help:"taken from a score for each codebook before, nats"`
	Mask    string  `param:"mask counted|left-out" help:"whether the mask is a class of the probabilities of a score"`
}

const leftOut = "left-out"

// greedyPower is an exponent at which the most probable token is always drawn.
const greedyPower = 1e6

// Needs the logits, because others leave the mask out.
func (o OmniVoice) Needs(int, int) Need {
	if o.Mask == leftOut {
		return Need{Top: true}
	}
	return Need{Logits: true, LogSum: true}
}

// Choose opens the schedule's number of positions.
func (o OmniVoice) Choose(v *View) (Opening, error) {
	o = WithDefaults(o)
	logP := v.Floats(len(v.Masked)) // of the best token
	if o.Mask == leftOut {
		for i, p := range v.P1 {
			logP[i] = math.Log(p)
		}
	} else if err := setLogPWithMask(v, logP); err != nil {
		return Opening{}, err
	}

	// The largest of scores with Gumbel noise are positions drawn without repeating, with
	// probabilities proportional to exp of (log p, less the codebook's penalty) / Noise.
	score := func(i int) float64 {
		return (logP[i]-o.Penalty*float64(v.codebook(v.Masked[i])))/o.Noise + v.Gumbel(i)
	}
	return Opening{Power: greedyPower, Positions: v.Top(v.Quota, score)}, nil
}

// setLogPWithMask sets logP to log p of the best tokens, with the mask's logit among those of the
// sum.
func setLogPWithMask(v *View, logP []float64) error {
	return v.Visit(v.Masked, func(i int, logits []float32) {
		top := float64(slices.Max(logits[:v.Outcomes]))
		maskShare := 0.0 // of the mask's logit, beside a sum of 1 over the outcomes
		for _, l := range logits[v.Outcomes:] {
			maskShare += math.Exp(float64(l) - v.LogSum[i])
		}
		logP[i] = top - v.LogSum[i] - math.Log1p(maskShare)
	})
}

// codebook returns the codebook of a position, its column.
func (v *View) codebook(position int) int {
	if len(v.Shape) < 2 {
		return 0
	}
	return position % v.Shape[1]
}

// Codebooks gives OmniVoice's preference for earlier codebooks to any sampler that ranks positions
// by probabilities: it lowers these for each codebook before a position's. Orders by position alone
// do not change.
type Codebooks struct {
	Inside Sampler `inside:"moment"`
	// the default is OmniVoice's 5 at a temperature of 5
	Penalty float64 `param:"penalty 1e-9..1e6 =1" help:"taken from log p for each codebook before, nats"`
}

// Needs what the sampler inside needs.
func (c Codebooks) Needs(step, steps int) Need { return innerSampler(c).Needs(step, steps) }

// NeedsFor implements Frugal.
func (c Codebooks) NeedsFor(step, steps, k int) Need {
	return NeedsFor(innerSampler(c), step, steps, k)
}

// Choose returns the choice of the sampler inside by lowered measures.
func (c Codebooks) Choose(v *View) (Opening, error) {
	c = WithDefaults(c)
	penalty := func(position int) float64 { return c.Penalty * float64(v.codebook(position)) }
	lower := func(measure []float64, f func(x, penalty float64) float64) []float64 {
		if measure == nil {
			return nil
		}
		lowered := v.Floats(len(measure))
		for i, x := range measure {
			lowered[i] = f(x, penalty(v.Masked[i]))
		}
		return lowered
	}
	subtract := func(x, penalty float64) float64 { return x - penalty }
	scale := func(x, penalty float64) float64 { return x * math.Exp(-penalty) }
	add := func(x, penalty float64) float64 { return x + penalty }

	lowered := *v
	lowered.LogMoment = lower(v.LogMoment, subtract)
	lowered.LogP = lower(v.LogP, subtract)
	lowered.P1 = lower(v.P1, scale)
	lowered.P2 = lower(v.P2, scale)
	lowered.Entropy = lower(v.Entropy, add)
	o, err := innerSampler(c).Choose(&lowered)

	// What is reported is the model's log p, not the lowered one.
	for j := range o.LogP {
		o.LogP[j] += penalty(o.Positions[j])
	}
	return o, err
}

// ShiftedSchedule is the schedule of OmniVoice with another shift than its own: with t_n = s
// u/(1+(s-1)u), u = n/N, step n opens ceil(D(t_(n+1)-t_n)) positions while there are any, so that
// late steps may open none. Times are rounded to float32 as the authors' are, because counts
// depend on it.
type ShiftedSchedule float64

// ForOmniVoice is the published schedule.
const ForOmniVoice = ShiftedSchedule(0.1)

// String returns the name; only the published one is registered.
func (s ShiftedSchedule) String() string {
	if s == ForOmniVoice {
		return "omnivoice"
	}
	return "omnivoice(" + param.Format(float64(s)) + ")"
}

// Idle marks that steps may open nothing.
func (ShiftedSchedule) Idle() {}

// At returns the number of open positions, between steps in proportion.
func (s ShiftedSchedule) At(step float64, steps, length int) int {
	open := 0
	timeBefore := s.time(0, steps)
	for i := range steps {
		timeAfter := s.time(i+1, steps)
		n := min(int(math.Ceil(float64(length)*(timeAfter-timeBefore))), length-open)
		if i == steps-1 {
			n = length - open
		}
		if left := step - float64(i); left < 1 {
			return open + int(max(left, 0)*float64(n))
		}
		open += n
		timeBefore = timeAfter
	}
	return length
}

// time returns t_n. The first half of the times counts up from 0, the second down from 1.
func (s ShiftedSchedule) time(n, steps int) float64 {
	single := func(x float64) float64 { return float64(float32(x)) }
	step := single(1 / float64(steps))
	u := single(step * float64(n))
	if n >= (steps+1)/2 {
		u = single(1 - float64(step*float64(steps-n)))
	}
	shift := single(float64(s) - 1) // s-1
	return single(single(single(float64(s))*u) / single(1+single(shift*u)))
}
