package samplers

import (
	"cmp"
	"math"
)

// KLASS opens all positions whose marginal is confident and no longer changes: the last two
// KL(p_now || p_before) are below Kappa and max p is above Confidence. If there is none, it opens
// the schedule's number of the most confident (Kim et al. 2025, "KLASS: KL-adaptive stability
// sampling").
//
// Of p_before it keeps the 64 most probable outcomes and the sum of the rest, so there is no buffer
// of positions x vocabulary. The KL of the merged distributions is a lower bound of the full KL,
// and close to it at confidences above 0.9.
type KLASS struct {
	Kappa      float64 `param:"kappa 1e-9..1e6 =0.01" help:"KL below which a marginal is stable, nats"`
	Confidence float64 `param:"confidence 1e-9..1 =0.9" help:"largest probability above which it is confident"`
}

const klassHistory = 2

// klassState is the state of a sequence.
type klassState struct {
	before []outline // [length] the previous marginals; empty if there is none
	stable []int     // [length] the number of consecutive KLs below Kappa
}

// NewState returns an empty state.
func (KLASS) NewState(length int) any {
	return &klassState{before: make([]outline, length), stable: make([]int, length)}
}

// Needs confidences and logits.
func (KLASS) Needs(int, int) Need { return Need{Top: true, LogSum: true, Logits: true} }

// Choose opens the stable and confident positions, or the schedule's number.
func (k KLASS) Choose(v *View) (Opening, error) {
	s := v.State.(*klassState)
	kappa, confidence := cmp.Or(k.Kappa, 0.01), cmp.Or(k.Confidence, 0.9)
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		p := v.Masked[i]
		if s.before[p].compare(logits[:v.Outcomes], v.LogSum[i]) < kappa {
			s.stable[p]++
		} else {
			s.stable[p] = 0
		}
	})
	if err != nil {
		return Opening{}, err
	}
	ready := v.Ints(len(v.Masked))[:0]
	for i, p := range v.Masked {
		if s.stable[p] >= klassHistory && v.P1[i] > confidence {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 || v.Step >= v.Steps {
		ready = Confidence{}.Rank(v, v.Quota)
	}
	return Opening{Positions: ready}, nil
}

// compare returns KL(now || o) of the merged distributions and sets o to the outline of now.
func (o *outline) compare(logits []float32, logSum float64) float64 {
	kl, rest, restBefore := math.Inf(1), 1.0, 1.0
	if len(o.token) > 0 {
		kl = 0
		for j, x := range o.token {
			p, before := math.Exp(float64(logits[x])-logSum), o.p[j]
			rest, restBefore = rest-p, restBefore-before
			kl += divergence(p, before)
		}
		kl += divergence(rest, restBefore)
	}
	o.keep(logits, logSum)
	return kl
}

// divergence returns one term of a KL, with the authors' 1e-12 inside the logarithms.
func divergence(p, q float64) float64 {
	if p <= 0 {
		return 0
	}
	return p * (math.Log(p+1e-12) - math.Log(max(q, 0)+1e-12))
}
