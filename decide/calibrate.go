package decide

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/nn"
)

// LabelledAnswer is an answer to a question whose right option is known.
type LabelledAnswer struct {
	Kind  Kind
	LogP  []float64 // of Answer
	Right int
}

// Quality measures probabilities against right options. Less is better in all but Accuracy.
type Quality struct {
	LogLoss  float64 `json:"log_loss"` // mean -log p of the right option, nats
	Brier    float64 `json:"brier"`    // mean of the sum over options of (p - right)^2, 0 to 2
	ECE      float64 `json:"ece"`      // expected calibration error in 10 bins of the largest p
	Accuracy float64 `json:"accuracy"`
}

// TemperatureFit is the temperature of one kind of questions.
type TemperatureFit struct {
	Temperature float64 `json:"temperature"`
	Questions   int     `json:"questions"`
	Before      Quality `json:"before"` // at temperature 1
	After       Quality `json:"after"`
}

// Calibration has a temperature for each kind of questions, 1 for a kind that is not there.
type Calibration map[Kind]TemperatureFit

// The range of temperatures that Calibrate looks in.
const (
	leastTemperature = 0.05
	mostTemperature  = 20
)

// Calibrate returns for each kind of question the temperature with the least log loss. Few
// questions fit badly: a hundred of a kind, and others to measure on, are a good beginning.
func Calibrate(list []LabelledAnswer) Calibration {
	out := Calibration{}
	for _, kind := range Kinds {
		own := slices.DeleteFunc(slices.Clone(list), func(l LabelledAnswer) bool {
			return l.Kind != kind
		})
		if len(own) == 0 {
			continue
		}
		t := coolest(own)
		out[kind] = TemperatureFit{
			Temperature: t,
			Questions:   len(own),
			Before:      MeasureQuality(own, 1),
			After:       MeasureQuality(own, t),
		}
	}
	return out
}

// ReadCalibration reads a file with the JSON of what Calibrate returned.
func ReadCalibration(name string) (Calibration, error) {
	data, err := atomicfile.ReadSmall(name, 1<<20)
	fits := Calibration{}
	if err == nil {
		err = jsonline.DecodeStrict(data, &fits)
	}
	return fits, cmp.Or(err, fits.Check())
}

// Check returns an error for an unknown kind and for a temperature that Calibrate does not return.
func (c Calibration) Check() error {
	for _, kind := range slices.Sorted(maps.Keys(c)) { // the error must not depend on map order
		switch t := c[kind].Temperature; {
		case !slices.Contains(Kinds, kind):
			return fmt.Errorf("type is %.40q, want boolean, choice or score", kind)
		case !(t >= leastTemperature && t <= mostTemperature):
			return fmt.Errorf("temperature of %s is %v, want %v to %v", kind, t, leastTemperature,
				mostTemperature)
		}
	}
	return nil
}

// coolest returns the temperature of the least log loss, which is convex in 1/temperature: thirds
// of the range are left out until it is narrow.
func coolest(list []LabelledAnswer) float64 {
	loss := func(inverse float64) float64 { return MeasureQuality(list, 1/inverse).LogLoss }
	low := 1.0 / mostTemperature
	high := 1.0 / leastTemperature
	for high-low > 1e-6*high {
		a := low + (high-low)/3
		b := high - (high-low)/3
		if loss(a) <= loss(b) {
			high = b
		} else {
			low = a
		}
	}
	return 2 / (low + high)
}

// MeasureQuality returns the quality of answers at a temperature, zeros where there are none.
func MeasureQuality(list []LabelledAnswer, temperature float64) (q Quality) {
	const bins = 10
	var count, sure, right [bins]float64
	n := float64(max(len(list), 1))
	for _, l := range list {
		p := nn.Probabilities(l.LogP, temperature)
		q.LogLoss -= math.Log(max(p[l.Right], 1e-300)) / n
		for i, x := range p {
			if i == l.Right {
				x = 1 - x
			}
			q.Brier += x * x / n
		}
		top := slices.Max(p)
		bin := min(int(top*bins), bins-1)
		count[bin] = count[bin] + 1
		sure[bin] = sure[bin] + top
		if p[l.Right] == top {
			q.Accuracy += 1 / n
			right[bin]++
		}
	}
	for bin := range count {
		q.ECE += math.Abs(sure[bin]-right[bin]) / n
	}
	return q
}
