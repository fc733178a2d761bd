package decide

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"unmask/likelihood"
	"unmask/param"
)

// Form says in which form a model of text is asked.
type Form string

// The forms of questions.
const (
	// Letters lists the options, each with a letter, and reads the probability of each letter.
	Letters Form = "letters"

	// WholeAnswers lists nothing, and reads the probability that the model writes an option's label
	// as its answer. It suits models that do not follow such instructions, as the small demo.
	WholeAnswers Form = "answers"
)

// MinMass is the least mass of letters that counts as an answer: below it the model would have
// written something else, so it is asked by whole answers unless Options say otherwise.
const MinMass = 0.1

// Check returns an error for a form that does not exist.
func (f Form) Check() error {
	if !slices.Contains([]Form{"", Letters, WholeAnswers}, f) {
		return &param.Error{Name: "by", Found: param.Quote(string(f)), Want: "letters or answers"}
	}
	return nil
}

// errImpossible is the error for a question none of whose answers the model may write.
var errImpossible = errors.New("no answer is possible")

// askWholeAnswers sets LogP and Mass of a question by the chain rule over the tokens of each whole
// answer, with the end of the turn after it, a pass for each token.
//
// A text of more tokens is less probable, whatever it says. So LogP is the mean over an option's
// tokens, times the mean number of tokens of the options: that of options of equal lengths is then
// their log-probability itself.
func (a *asker) askWholeAnswers(ctx context.Context, question int) error {
	texts := a.questions[question].answerTexts()
	list := make([]encoded, len(texts))
	total := 0
	for i, text := range texts {
		err := ctx.Err()
		if err == nil {
			list[i], err = a.encodeAnswer(ctx, question, text)
		}
		if err != nil {
			return err
		}
		total += list[i].to - list[i].from
	}

	answer := &a.answers[question]
	logP := make([]float64, len(list))
	meanTokens := float64(total) / float64(len(list))
	mass := 0.0
	for i, e := range list {
		estimate, err := likelihood.Measure(ctx, a.m.Denoiser, e.tokens, e.from, e.to,
			likelihood.Options{Method: likelihood.LeftToRight, Turn: a.Turn})
		if err != nil {
			return err
		}
		logP[i] = estimate.LogProb / float64(e.to-e.from) * meanTokens
		mass += math.Exp(estimate.LogProb)
		answer.Passes += estimate.Passes
		answer.Tokens += len(e.tokens)
	}
	if math.IsInf(slices.Max(logP), -1) {
		return errImpossible
	}
	answer.Form = WholeAnswers
	answer.LogP = logP
	answer.Mass = mass
	return nil
}

// askAgain asks a question by whole answers after the letters had little mass. Where that cannot be
// done, as with an option too long for the model, the answer by letters stays.
func (a *asker) askAgain(ctx context.Context, question int) error {
	err := a.askWholeAnswers(ctx, question)
	if _, refused := errors.AsType[*param.Error](err); refused || errors.Is(err, errImpossible) {
		return nil
	}
	return err
}

// encodeAnswer returns the tokens of a prompt that lists no options, with an answer.
func (a *asker) encodeAnswer(ctx context.Context, question int, answer string) (encoded, error) {
	q := &a.questions[question]
	e, err := a.encodeShared(WholeAnswers, func(state string) (encoded, error) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\n%s", state, q.Instructions)
		for _, o := range q.Options {
			if o.Description != "" {
				fmt.Fprintf(&b, "\n%s", o.text())
			}
		}
		return a.encodeText(ctx, b.String(), answer)
	})
	return e, nameState(err)
}

// answerTexts are the whole answers that stand for the options.
func (q *Question) answerTexts() (list []string) {
	if q.Kind != Boolean {
		for _, o := range q.Options {
			list = append(list, o.Label)
		}
		return list
	}
	list = []string{"No", "Yes"}
	for i, o := range q.Options {
		if o.Label != "" {
			list[i] = o.Label
		}
	}
	return list
}
