package decide

import (
	"context"
	"math"
	"slices"

	"unmask"
)

// KnownQuestion is a choice whose right option is known.
type KnownQuestion struct {
	State    State
	Question Question
	Right    int // index of the right option
}

// OrderEffect says how far a model's choices depend on the order in which options stand.
type OrderEffect struct {
	Questions int `json:"questions"`

	// Moved is the share of questions whose most probable option is another one when options are
	// reversed, and Distance the mean total variation distance of the two distributions, 0 to 1.
	Moved    float64 `json:"moved"`
	Distance float64 `json:"distance"`

	// InOrder and Reversed are the quality of the answers in each order, and Both that of the mean of
	// the two distributions.
	InOrder  Quality `json:"in_order"`
	Reversed Quality `json:"reversed"`
	Both     Quality `json:"both"`
}

// MeasureOrder asks every choice twice, the second time with its options reversed. Temperatures are
// those of o.Calibration.
func MeasureOrder(ctx context.Context, m *unmask.Model, list []KnownQuestion, o Options) (
	effect OrderEffect, err error) {
	var inOrder, reversed, averaged []LabelledAnswer
	n := float64(max(len(list), 1))
	for _, answered := range list {
		first, err := askOne(ctx, m, answered.State, answered.Question, o)
		if err != nil {
			return effect, err
		}
		turned := answered.Question
		turned.Options = slices.Clone(turned.Options)
		slices.Reverse(turned.Options)
		second, err := askOne(ctx, m, answered.State, turned, o)
		if err != nil {
			return effect, err
		}
		slices.Reverse(second) // as the options of the first

		mean := make([]float64, len(first))
		for i := range mean {
			mean[i] = (first[i] + second[i]) / 2
			effect.Distance += math.Abs(first[i]-second[i]) / 2 / n
		}
		if largest(first) != largest(second) {
			effect.Moved += 1 / n
		}
		inOrder = append(inOrder, answered.label(first))
		reversed = append(reversed, answered.label(second))
		averaged = append(averaged, answered.label(mean))
	}
	effect.Questions = len(list)
	effect.InOrder = MeasureQuality(inOrder, 1)
	effect.Reversed = MeasureQuality(reversed, 1)
	effect.Both = MeasureQuality(averaged, 1)
	return effect, nil
}

// askOne returns the probabilities of a question's options.
func askOne(ctx context.Context, m *unmask.Model, state State, q Question, o Options) ([]float64,
	error) {
	answers, err := Ask(ctx, m, state, []Question{q}, o)
	if err != nil {
		return nil, err
	}
	return answers[0].P, nil
}

// label returns probabilities as an answer that quality is measured of.
func (k *KnownQuestion) label(p []float64) LabelledAnswer {
	logP := make([]float64, len(p))
	for i := range p {
		logP[i] = math.Log(p[i])
	}
	return LabelledAnswer{Kind: k.Question.Kind, LogP: logP, Right: k.Right}
}

// largest returns the index of the largest probability, the first of equal ones.
func largest(p []float64) int { return slices.Index(p, slices.Max(p)) }
