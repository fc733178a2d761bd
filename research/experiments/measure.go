package experiments

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"unmask/internal/jsonline"
)

// JackknifeGroups is the number of parts that a point's samples are divided into for the jackknife.
const JackknifeGroups = 10

// Measure is a metric, together with its values without each of Groups parts of the samples.
// Standard errors follow from these, also of anything computed from measures (the delete-a-group
// jackknife). Without is empty if they are unknown.
type Measure struct {
	Value       float64   `json:"value"`
	LeaveOneOut []float64 `json:"without,omitempty"`

	// Low and High are the ends of a 95 % bootstrap interval; both are 0 if there is none.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`

	// Deviation is the standard deviation over the metric's own splits, which papers give for the
	// Inception Score; 0 for others. It is not a standard error.
	Deviation float64 `json:"deviation,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. It refuses unknown keys, and a value that is missing.
func (m *Measure) UnmarshalJSON(data []byte) error {
	type fields Measure // without this method
	if err := jsonline.DecodeStrict(data, (*fields)(m)); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if jsonline.MissingKey(data, "value") != "" {
		return errors.New("metrics: value is missing, want a number")
	}
	return nil
}

// Metrics are measures by name: perplexity, entropy, distinct2, self_bleu of text, and nll,
// transition_kl, transition_tv, duplicates where the truth is known; frechet, score, precision,
// recall of images.
type Metrics map[string]Measure

// normalHalfWidth is the half width, in standard errors, of a 95 % interval of the normal
// distribution.
const normalHalfWidth = 1.96

// Error returns the standard error, 0 if unknown.
func (m Measure) Error() float64 {
	g := float64(len(m.LeaveOneOut))
	if g < 2 {
		return (m.High - m.Low) / 2 / normalHalfWidth
	}
	var mean, sum float64
	for _, v := range m.LeaveOneOut {
		mean += v / g
	}
	for _, v := range m.LeaveOneOut {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt((g - 1) / g * sum)
}

// withMoreSamples returns the measure with the error that `more` times the samples would give; 0
// means 1.
func (m Measure) withMoreSamples(factor float64) Measure {
	if factor <= 1 || len(m.LeaveOneOut) == 0 {
		return m
	}
	mean := 0.0
	for _, v := range m.LeaveOneOut {
		mean += v / float64(len(m.LeaveOneOut))
	}
	leaveOneOut := make([]float64, len(m.LeaveOneOut))
	for i, v := range m.LeaveOneOut {
		leaveOneOut[i] = mean + (v-mean)/math.Sqrt(factor)
	}
	m.LeaveOneOut = leaveOneOut
	return m
}

// combine computes a measure from inputs: f of their values, and f of their values without each
// part of the samples. Equal part numbers belong together, because seeds are shared.
func combine(f func(values []float64) float64, inputs ...Measure) Measure {
	values := make([]float64, len(inputs))
	for i, m := range inputs {
		values[i] = m.Value
	}
	out := Measure{Value: f(values)}
	for g := range JackknifeGroups {
		for i, m := range inputs {
			if len(m.LeaveOneOut) != JackknifeGroups {
				return Measure{Value: out.Value}
			}
			values[i] = m.LeaveOneOut[g]
		}
		out.LeaveOneOut = append(out.LeaveOneOut, f(values))
	}
	return out
}

// averageMeasures returns the mean of measures of different seeds.
func averageMeasures(inputs ...Measure) Measure { return combine(mean, inputs...) }

// mean returns the mean of values, NaN of none.
func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// tally is a mean that is also kept by parts: sample i belongs to part i % Groups.
type tally struct {
	n      int
	sum    [JackknifeGroups]float64
	weight [JackknifeGroups]float64
}

// add adds the value of the next sample.
func (t *tally) add(value, weight float64) {
	t.sum[t.n%JackknifeGroups] += value * weight
	t.weight[t.n%JackknifeGroups] += weight
	t.n++
}

// identity returns its argument, for metrics that are a mean themselves.
func identity(mean float64) float64 { return mean }

// add adds f of a mean, unless it is of no samples.
func (m Metrics) add(name string, t *tally, f func(mean float64) float64) {
	if v, ok := t.measure(f); ok {
		m[name] = v
	}
}

// measure returns f of the mean; ok is false without samples. The error is unknown with few samples
// or if one part has all the weight.
func (t *tally) measure(f func(mean float64) float64) (m Measure, ok bool) {
	var sum, weight float64
	for g := range JackknifeGroups {
		sum += t.sum[g]
		weight += t.weight[g]
	}
	if weight == 0 {
		return m, false
	}
	m.Value = f(sum / weight)
	if t.n < 2*JackknifeGroups || slices.Contains(t.weight[:], weight) {
		return m, true
	}
	for g := range JackknifeGroups {
		m.LeaveOneOut = append(m.LeaveOneOut, f((sum-t.sum[g])/(weight-t.weight[g])))
	}
	return m, true
}
