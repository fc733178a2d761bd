package decide

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/nn"
)

// LabelledAnswer is an answer to a question whose right option is known.
type LabelledAnswer struct {
	Kind Kind

	// LogP are those of Answer, before any temperature.
	LogP []float64

	// Right is the index of the right option.
	Right int
}

// Quality measures probabilities against right options. Less is better in all but Accuracy.
type Quality struct {
	// LogLoss is the mean of -log p of the right option, in nats.
	LogLoss float64 `json:"log_loss"`

	// Brier is the mean of the sum over options of (p - right)^2, 0 to 2.
	Brier float64 `json:"brier"`

	// ECE is the expected calibration error, in 10 bins of the largest p.
	ECE float64 `json:"ece"`

	Accuracy float64 `json:"accuracy"`
}

// TemperatureFit is the temperature of one kind of questions, and what it improves.
type TemperatureFit struct {
	Temperature float64 `json:"temperature"`

	// Questions is the number of questions that it was fitted to.
	Questions int `json:"questions"`

	// Before is the quality at temperature 1, After that at Temperature.
	Before Quality `json:"before"`
	After  Quality `json:"after"`
}

// Calibration has a temperature for each kind of questions, 1 for a kind that is not there.
type Calibration map[Kind]TemperatureFit

// The range of temperatures that Calibrate searches.
const (
	minTemperature = 0.05
	maxTemperature = 20
)

// Calibrate returns for each kind of question the temperature with the least log loss. Few
// questions fit badly: a hundred of a kind, and others to measure on, are a good beginning.
func Calibrate(answers []LabelledAnswer) Calibration {
	calibration := Calibration{}
	for _, kind := range Kinds {
		ofKind := slices.DeleteFunc(slices.Clone(answers), func(l LabelledAnswer) bool {
			return l.Kind != kind
		})
		if len(ofKind) == 0 {
			continue
		}
		temperature := fitTemperature(ofKind)
		calibration[kind] = TemperatureFit{
			Temperature: temperature,
			Questions:   len(ofKind),
			Before:      MeasureQuality(ofKind, 1),
			After:       MeasureQuality(ofKind, temperature),
		}
	}
	return calibration
}

// Note returns a note about kinds whose temperature is at a bound of what Calibrate searches: their
// answers say nothing about what is right, or are right without exception. It is "" without any.
func (c Calibration) Note() string {
	const margin = 1.01 // the search ends close to a bound, not on it
	var kinds []string
	for _, kind := range Kinds {
		t := c[kind].Temperature
		if t > 0 && (t < minTemperature*margin || t > maxTemperature/margin) {
			kinds = append(kinds, string(kind))
		}
	}
	if kinds == nil {
		return ""
	}
	return fmt.Sprintf("the temperature of %s is at the end of what is searched, %v to %v: the model "+
		"does not tell right from wrong there, or always does", strings.Join(kinds, ", "),
		minTemperature, maxTemperature)
}

// ReadCalibration reads a file with the JSON of what Calibrate returned. Another field, and a
// calibration that Check refuses, are errors.
func ReadCalibration(name string) (Calibration, error) {
	data, err := atomicfile.ReadSmall(name, 1<<20)
	if err != nil {
		return nil, err
	}
	calibration := Calibration{}
	if err := jsonline.DecodeStrict(data, &calibration); err != nil {
		return nil, err
	}
	return calibration, calibration.Check()
}

// Check returns an error for an unknown kind and for a temperature that Calibrate does not return.
func (c Calibration) Check() error {
	// Sorted, so that the same calibration always has the same error.
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(Kinds, kind) {
			return fmt.Errorf("type is %.40q, want boolean, choice or score", kind)
		}
		t := c[kind].Temperature
		if !(t >= minTemperature && t <= maxTemperature) { // NaN is neither
			return fmt.Errorf("temperature of %s is %v, want %v to %v", kind, t, minTemperature,
				maxTemperature)
		}
	}
	return nil
}

// fitTemperature returns the temperature of the least log loss. The loss is convex in
// 1/temperature, so a ternary search finds its minimum: it drops a third of the range at a time
// until the range is narrow.
func fitTemperature(answers []LabelledAnswer) float64 {
	loss := func(inverse float64) float64 { return MeasureQuality(answers, 1/inverse).LogLoss }
	low := 1.0 / maxTemperature
	high := 1.0 / minTemperature
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
func MeasureQuality(answers []LabelledAnswer, temperature float64) (q Quality) {
	const bins = 10
	// For each bin of the largest p: the sum of these p, and the number of right answers.
	var confidence, right [bins]float64

	n := float64(max(len(answers), 1))
	for _, answer := range answers {
		p := nn.Probabilities(answer.LogP, temperature)
		// The bound keeps the mean finite where a right option has probability 0.
		q.LogLoss -= math.Log(max(p[answer.Right], 1e-300)) / n
		for i, x := range p {
			if i == answer.Right {
				x = 1 - x
			}
			q.Brier += x * x / n
		}

		top := slices.Max(p)
		bin := min(int(top*bins), bins-1)
		confidence[bin] += top
		if p[answer.Right] == top {
			q.Accuracy += 1 / n
			right[bin]++
		}
	}
	for bin := range confidence {
		q.ECE += math.Abs(confidence[bin]-right[bin]) / n
	}
	return q
}
