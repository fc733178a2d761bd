package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"unmask"
	"unmask/families/encoders"
	"unmask/model"
	"unmask/nn"
	"unmask/param"
)

// Options say how questions are asked. The zero value is one pass a question.
type Options struct {
	Calibration Calibration
	Turn        model.Turn
}

// Answer is a model's answer to a question.
type Answer struct {
	P    []float64 // of the options, which add to 1
	LogP []float64 // before the temperature, in nats, up to a constant
	// (n max-1)/(n-1) of n options; of Laya's networks as their program has it: 1-entropy/ln n, or
	// the larger p of a Boolean
	Confidence float64
	// of the options together (Found.LogP says among what), the least of its passes: a low one says
	// that the prompt does not fit the model; 1 of a network without other outcomes
	Mass        float64
	Act         *float64 // of Laya's networks: the probability that acting on the answer is right
	Temperature float64  // of the calibration; 0 where there is none
	Tokens      int      // of the prompts
	Passes      int      // sequences that went through the model
	Notes       []string // what was cut off
}

// Best returns the most probable option, the first of equal ones.
func (a *Answer) Best() int { return slices.Index(a.P, slices.Max(a.P)) }

// Score returns the mean of the options' numbers, from 0.
func (a *Answer) Score() (mean float64) {
	for i, p := range a.P {
		mean += float64(i) * p
	}
	return mean
}

// HasDecisionHead reports whether a model was made for questions, as Laya was.
func HasDecisionHead(m *unmask.Model) bool {
	_, ok := m.Denoiser.(*encoders.Laya)
	return ok
}

// asker asks a model questions about one state.
type asker struct {
	Options
	m     *unmask.Model
	state State
	chat  bool
	list  []Question
	out   []Answer
}

// Ask returns a model's answers to questions about a state. Questions do not see each other. With
// more than 15 options, pairs of them are asked in both orders, each loser gives its place to the
// winner until one is left, and p follows from the odds of these pairs.
func Ask(ctx context.Context, m *unmask.Model, state State, list []Question, o Options) ([]Answer,
	error) {
	if err := o.Calibration.Check(); err != nil {
		return nil, err
	}
	for i := range list {
		if err := list[i].Check(); err != nil {
			return nil, inQuestion(i, err)
		}
	}
	a := &asker{Options: o, m: m, state: state, list: list, out: make([]Answer, len(list))}
	ask := a.askText
	if net, ok := m.Denoiser.(*encoders.Laya); ok {
		ask = func(ctx context.Context) error { return a.askLaya(ctx, net) }
	} else if m.Text == nil {
		return nil, param.Refuse("model", param.Unsupported,
			"model is a %s, want one of text with a mask token, or Laya", m.Info.Architecture)
	}
	if err := ask(ctx); err != nil {
		return nil, err
	}
	for i := range a.out {
		one := &a.out[i]
		one.Temperature = a.Calibration[list[i].Kind].Temperature
		t := cmp.Or(one.Temperature, 1)
		one.P = nn.Probabilities(one.LogP, t)
		if math.IsNaN(one.P[0]) {
			return nil, inQuestion(i, fmt.Errorf("a logit is NaN, want finite numbers"))
		}
		if one.Act == nil || t != 1 {
			n := float64(len(one.P))
			one.Confidence = (n*slices.Max(one.P) - 1) / (n - 1)
		}
	}
	return a.out, nil
}

// inQuestion says which question an error is about.
func inQuestion(i int, err error) error { return fmt.Errorf("question %d: %w", i+1, err) }

// atOnce is the most options of a prompt: with more, models favour places over options.
const atOnce = 15

// posed is a question with two of its options, or with all of them where pair is nil.
type posed struct {
	question int
	pair     []int
}

// askText asks by prompts whose options are letters.
func (a *asker) askText(ctx context.Context) error {
	_, err := a.m.Chat()
	a.chat = err == nil
	var list []posed
	for i := range a.list {
		if n := len(a.list[i].texts()); n <= atOnce {
			list = append(list, posed{i, nil})
		}
		a.out[i].Mass = math.Inf(1)
	}
	found, err := a.pose(ctx, list)
	if err != nil {
		return err
	}
	for at, p := range list {
		a.out[p.question].LogP = found[at].LogP
	}
	for i := range a.list {
		if n := len(a.list[i].Options); n > atOnce {
			a.out[i].LogP, err = knockout(n, func(pairs [][]int) ([]float64, error) {
				return a.odds(ctx, i, pairs)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// odds returns by how much the first option of each pair is more probable than the second, in nats.
// Each is asked in both orders, so that what a place adds to its option drops out.
func (a *asker) odds(ctx context.Context, question int, pairs [][]int) ([]float64, error) {
	var list []posed
	for _, pair := range pairs {
		list = append(list, posed{question, pair}, posed{question, []int{pair[1], pair[0]}})
	}
	found, err := a.pose(ctx, list)
	out := make([]float64, len(pairs))
	for i := range out {
		if err == nil {
			one := found[2*i].LogP
			two := found[2*i+1].LogP
			out[i] = (one[0] - one[1] + two[1] - two[0]) / 2
		}
	}
	return out, err
}

// knockout returns log p of n options, 0 for the best one, from the odds of n-1 pairs in rounds:
// the winner of each pair stays. It is the softmax's where odds do not depend on further options.
func knockout(n int, odds func(pairs [][]int) ([]float64, error)) (logP []float64, err error) {
	logP = make([]float64, n)
	left := make([]int, n)
	beaten := make([][]int, n) // by each option, itself and whom these have beaten
	for i := range n {
		left[i] = i
		beaten[i] = []int{i}
	}
	for len(left) > 1 {
		pairs := slices.Collect(slices.Chunk(left[:len(left)/2*2], 2))
		found, err := odds(pairs)
		if err != nil {
			return nil, err
		}
		left = slices.Clone(left[len(left)/2*2:])
		for i, pair := range pairs {
			winner := pair[0]
			loser := pair[1]
			if found[i] < 0 {
				winner, loser = loser, winner
			}
			for _, option := range beaten[loser] {
				logP[option] -= math.Abs(found[i])
			}
			beaten[winner] = append(beaten[winner], beaten[loser]...)
			left = append(left, winner)
		}
	}
	return logP, nil
}

// pose asks questions and counts what they take.
func (a *asker) pose(ctx context.Context, list []posed) ([]LabelScores, error) {
	made := make([]Query, len(list))
	for i, p := range list {
		err := ctx.Err()
		if err == nil {
			made[i], err = a.row(p)
		}
		if err != nil {
			return nil, inQuestion(p.question, err)
		}
	}
	found, err := ScoreLabels(ctx, a.m.Denoiser, made, a.Turn)
	for i := range found {
		one := &a.out[list[i].question]
		one.Mass = min(one.Mass, found[i].Mass())
		one.Tokens = one.Tokens + len(made[i].Tokens)
		one.Passes = one.Passes + found[i].Passes
	}
	return found, err
}

// row returns the prompt of a question with an open answer.
func (a *asker) row(p posed) (row Query, err error) {
	q := &a.list[p.question]
	spec := a.m.Spec()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", a.state.Text, q.Instructions)
	texts := q.texts()
	if p.pair != nil {
		texts = model.Pick(texts, p.pair)
	}
	for i, text := range texts {
		fmt.Fprintf(&b, "\n%c. %s", 'A'+i, text)
	}
	b.WriteString("\n\nAnswer with the letter of one option.")
	request := unmask.Request{}
	space := ""
	if a.chat {
		if request.Messages, err = json.Marshal([]map[string]string{
			{
				"role":    "user",
				"content": b.String(),
			},
		}); err != nil {
			return row, err
		}
	} else {
		b.WriteString("\nAnswer:")
		request.Prompt = b.String()
		space = " "
	}
	if row.Labels, err = a.letters(space, len(texts)); err != nil {
		return row, err
	}
	tokens, from, to, err := a.m.TokensWithAnswer(request, space+"A", nil)
	if err != nil {
		return row, tooLong(err)
	}
	open := slices.Repeat([]int32{spec.Mask}, to-from)
	if !spec.Fixed {
		open = open[:1]
	}
	row.Position = from
	row.Tokens = slices.Concat(tokens[:from], open, tokens[to:])
	for spec.Block > 0 && spec.Blocks == model.WholeBlocks && !spec.Fixed && // as it opens blocks
		len(row.Tokens)%spec.Block > 0 && len(row.Tokens) < spec.Length() {
		row.Tokens = append(row.Tokens, spec.Mask)
	}
	return row, nil
}

// letters returns the tokens of the first letters, as they stand at the end of a prompt.
func (a *asker) letters(space string, n int) (labels [][]int32, err error) {
	for i := range n {
		short := unmask.Request{Prompt: "Answer:"}
		if a.chat {
			short.Prompt = ""
		}
		tokens, from, to, err := a.m.TokensWithAnswer(short, space+string(rune('A'+i)), nil)
		if err != nil {
			return nil, err
		}
		labels = append(labels, slices.Clone(tokens[from:to]))
	}
	return labels, nil
}

// tooLong names the state in an error about a prompt that leaves no room for an answer.
func tooLong(err error) error {
	if e, ok := errors.AsType[*param.Error](err); ok && e.Reason == param.TooLong {
		return &param.Error{
			Name:   "state",
			Found:  "too long",
			Want:   e.Want + " tokens with its question",
			Reason: e.Reason,
		}
	}
	return err
}

// layaKinds are Laya's names of kinds.
var layaKinds = map[Kind]string{Boolean: "noul", Choice: "choice", Score: "score"}

// askLaya asks a network that was made for questions.
func (a *asker) askLaya(ctx context.Context, net *encoders.Laya) error {
	prompts := make([]encoders.LayaPrompt, len(a.list))
	tokens := make([][]int32, len(a.list))
	for i := range a.list {
		q := &a.list[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		prompts[i], err = net.EncodeQuestion(encoders.LayaQuestion{
			Kind:         layaKinds[q.Kind],
			Instructions: q.Instructions,
			Options:      q.texts(),
			State:        a.state.Text,
			KeepEnd:      a.state.List,
		})
		if err != nil {
			return inQuestion(i, err)
		}
		tokens[i] = prompts[i].Tokens
	}
	return model.VisitGroups(net.Spec(), tokens, func(group []int) error {
		done, err := a.Turn.Acquire(ctx, a.m.Denoiser)
		if err != nil {
			return err
		}
		defer done()
		made, err := net.Answer(ctx, model.Pick(prompts, group))
		for i, one := range made {
			out := &a.out[group[i]]
			out.Confidence = one.Confidence
			out.Act = &one.Act
			out.Mass = 1
			out.Passes = 1
			out.Tokens = len(prompts[group[i]].Tokens)
			out.Notes = prompts[group[i]].Notes
			for _, p := range one.Probabilities {
				out.LogP = append(out.LogP, math.Log(p))
			}
		}
		return err
	})
}
