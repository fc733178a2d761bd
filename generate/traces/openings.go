package traces

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"unmask/generate"
)

// Openings records when each position of a run's sequences opened. The zero value is ready to use.
// One goroutine at a time may use one.
type Openings struct {
	of map[int]*Opening // by the number of the request
}

// Opening records when the positions of one sequence opened.
type Opening struct {
	// [length] the step, from 1, that last opened each position; 0 if it was known from the start
	// or is masked
	Steps []int
	// [length] the natural log p of the token at that step; NaN if no step opened the position or
	// the sampler does not report p
	LogP LogProbs
}

// Add records a step. Steps must come in order, each once.
func (o *Openings) Add(step *generate.Step) {
	if o.of == nil {
		o.of = map[int]*Opening{}
	}
	for _, q := range step.Sequences {
		a := o.of[q.Number]
		if a == nil || q.N <= 1 {
			a = &Opening{Steps: make([]int, q.Before),
				LogP: slices.Repeat(LogProbs{math.NaN()}, q.Before)}
			o.of[q.Number] = a
		}
		if q.Done && !q.Finished { // it took no part in the step
			continue
		}
		a.Steps = generate.Follow(a.Steps, q.Resized, 0)
		a.LogP = generate.Follow(a.LogP, q.Resized, math.NaN())
		for _, opened := range slices.Concat(q.Opened, q.Replaced) {
			a.Steps[opened.Position], a.LogP[opened.Position] = q.N, opened.LogP
		}
		for _, p := range q.Closed {
			a.Steps[p], a.LogP[p] = 0, math.NaN()
		}
	}
}

// Take returns the record of a sequence and removes it.
func (o *Openings) Take(number int) *Opening {
	a := o.of[number]
	delete(o.of, number)
	return a
}

// LogProbs are natural logarithms of probabilities. In JSON each has the digits of a float32, and
// null stands for NaN.
type LogProbs []float64

// MarshalJSON implements json.Marshaler.
func (l LogProbs) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+10*len(l))
	out = append(out, '[')
	for i, p := range l {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(p) || math.IsInf(p, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, p, 'g', 7, 32)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *LogProbs) UnmarshalJSON(data []byte) error {
	var list []*float64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*l = make(LogProbs, len(list))
	for i, p := range list {
		if (*l)[i] = math.NaN(); p != nil {
			(*l)[i] = *p
		}
	}
	return nil
}
