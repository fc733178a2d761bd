package decide

import (
	"context"
	"math"
	"slices"

	"unmask/families/d1"
)

// askD1 asks a network of d1's, which were made for questions. Their probabilities have their own
// temperature already, and their confidence is the largest of them.
func (a *asker) askD1(ctx context.Context, net *d1.Model) error {
	for i := range a.questions {
		question := &a.questions[i]
		prompt, err := net.EncodeQuestion(d1.Question{
			Kind:         layaKinds[question.Kind],
			Instructions: question.Instructions,
			State:        a.state.Text,
			Options:      question.optionTexts(),
		})
		if err != nil {
			return inQuestion(i, err)
		}
		p, err := a.answerD1(ctx, net, prompt)
		if err != nil {
			return inQuestion(i, err)
		}
		answer := &a.answers[i]
		answer.Confidence = slices.Max(p)
		answer.hasOwnConfidence = true
		answer.Mass = 1
		answer.Passes = 1
		answer.Tokens = len(prompt.Tokens)
		answer.Notes = prompt.Notes
		for _, x := range p {
			answer.LogP = append(answer.LogP, math.Log(x))
		}
	}
	return nil
}

// answerD1 makes the pass of one question.
func (a *asker) answerD1(ctx context.Context, net *d1.Model, prompt d1.Prompt) ([]float64, error) {
	done, err := a.Turn.Acquire(ctx, a.m.Denoiser)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.Answer(ctx, prompt)
}
