package demo_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/decide"
	"unmask/demo"
)

// decision is a state and questions about it, in other sentences than any that training has. Want
// is true, false or the index of the right option.
type decision struct {
	State     string `json:"state"`
	Questions []struct {
		Ask     string          `json:"ask"`
		Options []string        `json:"options"`
		Want    json.RawMessage `json:"want"`
	} `json:"questions"`
}

// questions returns a decision's typed questions and the indexes of their right options.
func (d *decision) questions(t *testing.T) (list []decide.Question, right []int) {
	for _, q := range d.Questions {
		question := decide.Question{Kind: decide.Boolean, Instructions: q.Ask}
		text := string(q.Want)
		if q.Options != nil {
			question.Kind = decide.Choice
			for _, option := range q.Options {
				question.Options = append(question.Options, decide.Option{Label: option})
			}
		} else {
			require.Contains(t, []string{"true", "false"}, text)
			text = map[string]string{"false": "0", "true": "1"}[text]
		}
		index, err := strconv.Atoi(text)
		require.NoError(t, err)
		list = append(list, question)
		right = append(right, index)
	}
	return list, right
}

// 300 questions about 60 states: how many are answered rightly, and how well the probabilities say
// so. As above, no answer is a failure.
func TestHeldOutDecisions(t *testing.T) {
	list := readHeldOut[decision](t, "decisions.jsonl")
	require.Len(t, list, 60)
	m := weighed(t, *answerModel, demo.Chat())
	var answers []decide.LabelledAnswer
	mass := 0.0
	asked := 0
	for i := range list {
		questions, right := list[i].questions(t)
		require.Len(t, questions, 5)
		for k := range questions {
			require.NoError(t, questions[k].Check())
			require.Less(t, right[k], max(2, len(questions[k].Options)))
		}
		if i >= *heldOutCount {
			continue
		}
		state := decide.State{Text: list[i].State}
		given, err := decide.Ask(t.Context(), m, state, questions, decide.Options{Form: decide.Letters})
		require.NoError(t, err)
		for k, answer := range given {
			asked++
			mass += answer.Mass
			answers = append(answers, decide.LabelledAnswer{Kind: questions[k].Kind, LogP: answer.LogP,
				Right: right[k]})
			if best := answer.Best(); best != right[k] {
				t.Logf("%s\n%s %v: option %d with p %.2f, want %d", list[i].State,
					questions[k].Instructions, list[i].Questions[k].Options, best, answer.P[best], right[k])
			}
		}
	}
	if asked > 0 {
		quality := decide.MeasureQuality(answers, 1)
		t.Logf("%.0f of %d right, calibration error %.3f, mass of letters %.3f",
			quality.Accuracy*float64(asked), asked, quality.ECE, mass/float64(asked))
	}
}
