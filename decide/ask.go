package decide

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unmask"
	"unmask/families/d1"
	"unmask/families/encoders"
	"unmask/model"
	"unmask/nn"
	"unmask/param"
)

// Options say how questions are asked. The zero value asks without calibration, and calls the model
// without waiting for a turn.
type Options struct {
	Calibration Calibration

	// Form is how models of text are asked. "" means by letters, and again by whole answers where
	// the letters have a mass of less than MinMass. Laya's networks have a form of their own.
	Form Form

	Turn model.Turn
}

// Answer is a model's answer to a question. Its slices have one element for each option.
type Answer struct {
	// P are the probabilities of the options. They add to 1.
	P []float64

	// LogP are the log-probabilities before the temperature, in nats, up to a constant.
	LogP []float64

	// Confidence is (n max-1)/(n-1) for n options, so 0 when all are equally probable. Laya's
	// networks report what their own program defines: 1-entropy/ln n, or the larger p of a Boolean;
	// d1's the largest p.
	Confidence float64

	// Form is how the question was asked; "" by a network's head for questions.
	Form Form

	// Mass is the probability of all options together: of letters at the mask, the least over the
	// passes of the question (LabelScores.LogP says among which outcomes); of whole answers the sum
	// over their texts, which may have different lengths. A low one says that the model would have
	// answered something else. It is 1 for a network that has no other outcomes.
	Mass float64

	// Act is the probability that acting on the answer is right. Only Laya's networks have it.
	Act *float64

	// Temperature is that of the calibration, 0 where there is none.
	Temperature float64

	// Tokens is the length of the question's prompts together.
	Tokens int

	// Passes counts the sequences that went through the model.
	Passes int

	// Notes say what was truncated.
	Notes []string

	// hasOwnConfidence means that Confidence is what the network's program defines.
	hasOwnConfidence bool
}

// Best returns the most probable option, the first of equal ones.
func (a *Answer) Best() int { return slices.Index(a.P, slices.Max(a.P)) }

// Score returns the expected level: the mean of the options' numbers, which begin at 0.
func (a *Answer) Score() (mean float64) {
	for i, p := range a.P {
		mean += float64(i) * p
	}
	return mean
}

// HasDecisionHead reports whether a model was made for questions, as Laya, von and d1
// were.
func HasDecisionHead(m *unmask.Model) bool {
	switch m.Denoiser.(type) {
	case *encoders.Laya, *encoders.Von, *d1.Model:
		return true
	}
	return false
}

// asker asks a model questions about one state.
type asker struct {
	Options
	m     *unmask.Model
	state State

	// chat reports whether prompts go through the model's chat template.
	chat bool

	questions []Question
	answers   []Answer

	// letters are the tokens of the letters of options, as many as were needed so far.
	letters [][]int32

	// shared has what the prompts of a form share.
	shared map[Form]*sharedState
}

// Ask returns a model's answers to questions about a state. Questions do not see each other, so an
// answer does not depend on what else is asked.
//
// With more than 15 options, models favour places in the list over what stands there. Pairs of
// options are asked then, in both orders: each loser gives its place to the winner until one is
// left, and P follows from the odds of these pairs. An error is a *param.Error that names the
// question and what is wrong with it, that of a model that answers none, or that of a pass.
func Ask(ctx context.Context, m *unmask.Model, state State, questions []Question,
	o Options) ([]Answer, error) {
	if err := o.Calibration.Check(); err != nil {
		return nil, err
	}
	if err := o.Form.Check(); err != nil {
		return nil, err
	}
	for i := range questions {
		if err := questions[i].Check(); err != nil {
			return nil, inQuestion(i, err)
		}
	}

	a := &asker{
		Options:   o,
		m:         m,
		state:     state,
		questions: questions,
		answers:   make([]Answer, len(questions)),
		shared:    map[Form]*sharedState{},
	}
	if err := a.ask(ctx); err != nil {
		return nil, err
	}

	for i := range a.answers {
		if err := a.calibrate(i); err != nil {
			return nil, inQuestion(i, err)
		}
	}
	return a.answers, nil
}

// ask fills LogP of all answers, by the network's decision head or by prompts.
func (a *asker) ask(ctx context.Context) error {
	switch net := a.m.Denoiser.(type) {
	case *encoders.Laya:
		return a.askLaya(ctx, net)
	case *encoders.Von:
		return a.askVon(ctx, net)
	case *d1.Model:
		return a.askD1(ctx, net)
	}
	if a.m.Text == nil {
		return param.Refuse("model", param.Unsupported,
			"model is a %s, want one of text with a mask token, Laya, von or d1", a.m.Info.Architecture)
	}
	return a.askText(ctx)
}

// calibrate sets P and Confidence of answer i from LogP and the temperature of its kind.
func (a *asker) calibrate(i int) error {
	answer := &a.answers[i]
	answer.Temperature = a.Calibration[a.questions[i].Kind].Temperature
	temperature := cmp.Or(answer.Temperature, 1)

	answer.P = nn.Probabilities(answer.LogP, temperature)
	if math.IsNaN(answer.P[0]) {
		return fmt.Errorf("a logit is NaN, want finite numbers")
	}

	// A network's own confidence holds only for the probabilities that its head gave.
	if !answer.hasOwnConfidence || temperature != 1 {
		n := float64(len(answer.P))
		answer.Confidence = (n*slices.Max(answer.P) - 1) / (n - 1)
	}
	return nil
}

// inQuestion says which question an error is about.
func inQuestion(i int, err error) error { return fmt.Errorf("question %d: %w", i+1, err) }

// maxLetters is the most options of one prompt: with more, models favour places over options.
const maxLetters = 15

// prompt is a question with two of its options, or with all of them where pair is nil.
type prompt struct {
	question int
	pair     []int
}

// askText asks a model of text, in the form of the options.
func (a *asker) askText(ctx context.Context) error {
	_, err := a.m.Chat()
	a.chat = err == nil

	if a.Form != WholeAnswers {
		if err := a.askLetters(ctx); err != nil {
			return err
		}
	}
	for i := range a.questions {
		var err error
		switch {
		case a.Form == WholeAnswers:
			err = a.askWholeAnswers(ctx, i)
		case a.Form == "" && a.answers[i].Mass < MinMass:
			err = a.askAgain(ctx, i)
		}
		if err != nil {
			return inQuestion(i, err)
		}
	}
	return nil
}

// askLetters asks by prompts whose options are letters. The prompts of all questions with few
// options go through the model together; each question with many options takes rounds of its own.
func (a *asker) askLetters(ctx context.Context) error {
	var prompts []prompt
	for i := range a.questions {
		if len(a.questions[i].optionTexts()) <= maxLetters {
			prompts = append(prompts, prompt{question: i})
		}
		a.answers[i].Form = Letters
		a.answers[i].Mass = math.Inf(1)
	}
	scores, err := a.scorePrompts(ctx, prompts)
	if err != nil {
		return err
	}
	for i, p := range prompts {
		a.answers[p.question].LogP = scores[i].LogP
	}

	for i := range a.questions {
		n := len(a.questions[i].Options)
		if n <= maxLetters {
			continue
		}
		a.answers[i].LogP, err = knockout(n, func(pairs [][]int) ([]float64, error) {
			return a.scorePairs(ctx, i, pairs)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scorePairs returns by how much the first option of each pair is more probable than the second, in
// nats. Each pair is asked in both orders, so that what a place adds to its option drops out.
func (a *asker) scorePairs(ctx context.Context, question int, pairs [][]int) ([]float64, error) {
	var prompts []prompt
	for _, pair := range pairs {
		reversed := []int{pair[1], pair[0]}
		prompts = append(prompts, prompt{question, pair}, prompt{question, reversed})
	}
	scores, err := a.scorePrompts(ctx, prompts)
	if err != nil {
		return nil, err
	}

	odds := make([]float64, len(pairs))
	for i := range odds {
		inOrder := scores[2*i].LogP
		reversed := scores[2*i+1].LogP
		odds[i] = (inOrder[0] - inOrder[1] + reversed[1] - reversed[0]) / 2
	}
	return odds, nil
}

// knockout returns log p of n options, 0 for the best one, from the odds of n-1 pairs in rounds:
// the winner of each pair stays. The result is the softmax's where odds do not depend on further
// options, so n-1 pairs are enough and not all n(n-1)/2 are asked.
func knockout(n int, scorePairs func(pairs [][]int) ([]float64, error)) ([]float64, error) {
	logP := make([]float64, n)
	remaining := make([]int, n)

	// beaten has, for each option, itself and all options that lost to it or to one it has beaten:
	// when it loses, they become less probable by the same odds.
	beaten := make([][]int, n)
	for i := range n {
		remaining[i] = i
		beaten[i] = []int{i}
	}

	for len(remaining) > 1 {
		paired := len(remaining) / 2 * 2
		pairs := slices.Collect(slices.Chunk(remaining[:paired], 2))
		odds, err := scorePairs(pairs)
		if err != nil {
			return nil, err
		}

		remaining = slices.Clone(remaining[paired:])
		for i, pair := range pairs {
			winner := pair[0]
			loser := pair[1]
			if odds[i] < 0 {
				winner, loser = loser, winner
			}
			for _, option := range beaten[loser] {
				logP[option] -= math.Abs(odds[i])
			}
			beaten[winner] = append(beaten[winner], beaten[loser]...)
			remaining = append(remaining, winner)
		}
	}
	return logP, nil
}

// scorePrompts returns the scores of the options of prompts, and adds what they cost to the
// answers.
func (a *asker) scorePrompts(ctx context.Context, prompts []prompt) ([]LabelScores, error) {
	queries := make([]Query, len(prompts))
	for _, i := range a.longestFirst(prompts) {
		err := ctx.Err()
		if err == nil {
			queries[i], err = a.buildQuery(ctx, prompts[i])
		}
		if err != nil {
			return nil, inQuestion(prompts[i].question, err)
		}
	}

	scores, err := ScoreLabels(ctx, a.m.Denoiser, queries, a.Turn)
	for i := range scores {
		answer := &a.answers[prompts[i].question]
		answer.Mass = min(answer.Mass, scores[i].Mass())
		answer.Tokens += len(queries[i].Tokens)
		answer.Passes += scores[i].Passes
	}
	return scores, err
}

// longestFirst returns the indexes of prompts, those with the longest questions first: what is not
// longer than a prompt before it needs no second look at the state, see sharedState.
func (a *asker) longestFirst(prompts []prompt) []int {
	questionBytes := make([]int, len(a.questions))
	for i := range a.questions {
		questionBytes[i] = len(a.questions[i].Instructions)
		for _, text := range a.questions[i].optionTexts() {
			questionBytes[i] += len(text)
		}
	}
	indexes := make([]int, len(prompts))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortStableFunc(indexes, func(i, j int) int {
		return questionBytes[prompts[j].question] - questionBytes[prompts[i].question]
	})
	return indexes
}

// layaKinds are Laya's names of kinds.
var layaKinds = map[Kind]string{Boolean: "noul", Choice: "choice", Score: "score"}

// askLaya asks a network that was made for questions.
func (a *asker) askLaya(ctx context.Context, net *encoders.Laya) error {
	state, err := net.EncodeState(a.state.Text)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	prompts := make([]encoders.LayaPrompt, len(a.questions))
	tokens := make([][]int32, len(a.questions))
	for i := range a.questions {
		if err := ctx.Err(); err != nil {
			return err
		}
		question := &a.questions[i]
		encoded, err := net.EncodeQuestion(encoders.LayaQuestion{
			Kind:         layaKinds[question.Kind],
			Instructions: question.Instructions,
			Options:      question.optionTexts(),
			State:        state,
			KeepEnd:      a.state.List,
		})
		if err != nil {
			return inQuestion(i, err)
		}
		prompts[i] = encoded
		tokens[i] = encoded.Tokens
	}

	return model.VisitGroups(net.Spec(), tokens, func(group []int) error {
		release, err := a.Turn.Acquire(ctx, a.m.Denoiser)
		if err != nil {
			return err
		}
		defer release()

		results, err := net.Answer(ctx, model.Pick(prompts, group))
		for i, result := range results {
			answer := &a.answers[group[i]]
			answer.Confidence = result.Confidence
			answer.hasOwnConfidence = true
			answer.Act = &result.Act
			answer.Mass = 1
			answer.Passes = 1
			answer.Tokens = len(prompts[group[i]].Tokens)
			answer.Notes = prompts[group[i]].Notes
			for _, p := range result.Probabilities {
				answer.LogP = append(answer.LogP, math.Log(p))
			}
		}
		return err
	})
}
