package samplers

import "math"

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

// klassHistory is the number of consecutive KLs below Kappa that make a marginal stable.
const klassHistory = 2

// klassState is the state of a sequence.
type klassState struct {
	// before are the previous marginals, [length]; empty where there is none.
	before []outline

	// stable are the numbers of consecutive KLs below Kappa, [length].
	stable []int
}

// NewState returns an empty state.
func (KLASS) NewState(length int) any {
	return &klassState{before: make([]outline, length), stable: make([]int, length)}
}

// Needs confidences and logits.
func (KLASS) Needs(int, int) Need { return Need{Top: true, LogSum: true, Logits: true} }

// Choose opens the stable and confident positions, or the schedule's number.
func (k KLASS) Choose(v *View) (Opening, error) {
	k = WithDefaults(k)
	s := v.State.(*klassState)
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		p := v.Masked[i]
		if s.before[p].updateKL(logits[:v.Outcomes], v.LogSum[i]) < k.Kappa {
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
		if s.stable[p] >= klassHistory && v.P1[i] > k.Confidence {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 || v.Step >= v.Steps { // in the last step the quota is all that is masked
		ready = Confidence{}.Rank(v, v.Quota)
	}
	return Opening{Positions: ready}, nil
}

// updateKL returns KL(now || o) of the merged distributions, +Inf if o is empty, and sets o to the
// outline of now.
func (o *outline) updateKL(logits []float32, logSum float64) float64 {
	kl := math.Inf(1)
	if len(o.token) > 0 {
		kl = 0
		remaining := 1.0
		remainingBefore := 1.0
		for j, x := range o.token {
			p := math.Exp(float64(logits[x]) - logSum)
			pBefore := o.p[j]
			remaining -= p
			remainingBefore -= pBefore
			kl += divergence(p, pBefore)
		}
		kl += divergence(remaining, remainingBefore)
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
