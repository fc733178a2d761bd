package experiments

import (
	"math"
	"slices"

	"unmask/internal/philox"
)

// truthJudge is a judge that knows the truth: how probable each pair of neighbouring tokens is at a
// place drawn at random, [tokens, tokens]; nil where tokens are not in a line.
type truthJudge interface{ Pairs() []float64 }

// transitions compares how often tokens follow each other in samples with the truth (Tang et al.
// 2026, "Is your diffusion sampler actually correct?", arXiv 2602.19619).
//
// Its intervals are those of the Poisson bootstrap over samples (Hanley & MacGibbon 2006): in each
// of many resamples a sample counts as often as a Poisson variable of mean 1 says. So samples need
// not be kept, and memory does not grow with their number.
type transitions struct {
	truth   []float64 // [tokens, tokens]
	samples int
	count   []float64 // [tokens, tokens]

	// resampled are the counts of each resample, [tokens, tokens] each.
	resampled [resamples][]float64

	// weights are how often the sample that is being added counts in each resample.
	weights [resamples]float64
}

const resamples = 400

// newTransitions returns empty counts for tokens whose pairs have the probabilities truth.
func newTransitions(truth []float64) *transitions {
	t := &transitions{truth: truth, count: make([]float64, len(truth))}
	for r := range t.resampled {
		t.resampled[r] = make([]float64, len(truth))
	}
	return t
}

// add counts the pairs of a sample.
func (t *transitions) add(ids []int32) {
	tokens := int(math.Sqrt(float64(len(t.truth))))
	random := philox.Stream{Sequence: uint32(t.samples)}
	for r := range t.weights {
		t.weights[r] = poisson(random.Uniform(r, philox.Setup))
	}
	t.samples++
	for i := 1; i < len(ids); i++ {
		pair := int(ids[i-1])*tokens + int(ids[i])
		t.count[pair]++
		for r, w := range t.weights {
			t.resampled[r][pair] += w
		}
	}
}

// poisson returns the Poisson variable of mean 1 at a quantile.
func poisson(u float64) float64 {
	k := 0.0
	p := math.Exp(-1)
	for sum := p; sum <= u && k < 20; sum += p {
		k++
		p /= k
	}
	return k
}

// addMeasures adds transition_kl, the Kullback-Leibler divergence in nats of the samples' pairs
// from the true ones, and transition_tv, their total variation distance. Both have 95 % intervals,
// and what finite samples add on average, which the bootstrap estimates, is subtracted. There are
// none of fewer than two samples, or of samples of one token.
func (t *transitions) addMeasures(m Metrics) {
	if t.samples < 2 || !slices.ContainsFunc(t.count, func(n float64) bool { return n > 0 }) {
		return
	}
	var kl, tv []float64
	for _, count := range t.resampled {
		if slices.Max(count) > 0 { // of few samples, some resamples have none
			a, b := distances(count, t.truth)
			kl = append(kl, a)
			tv = append(tv, b)
		}
	}
	wholeKL, wholeTV := distances(t.count, t.truth)
	m["transition_kl"] = bootstrapMeasure(wholeKL, kl)
	m["transition_tv"] = bootstrapMeasure(wholeTV, tv)
}

// distances returns the divergence, in nats, and the total variation of counts from the truth.
func distances(count, truth []float64) (kl, tv float64) {
	sum := 0.0
	for _, n := range count {
		sum += n
	}
	for i, n := range count {
		q := n / sum
		if q > 0 {
			kl += q * math.Log(q/truth[i])
		}
		tv += math.Abs(q-truth[i]) / 2
	}
	return kl, tv
}

// bootstrapMeasure returns the measure of a value and its resamples. The mean of the resamples is
// above the value by about as much as the value is above the truth; that bias is subtracted.
func bootstrapMeasure(value float64, resampled []float64) Measure {
	bias := mean(resampled) - value
	slices.Sort(resampled)
	quantile := func(share float64) float64 {
		return resampled[int(share*float64(len(resampled)-1)+0.5)] - 2*bias
	}
	return Measure{Value: value - bias, Low: quantile(0.025), High: quantile(0.975)}
}
