package decide

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/likelihood"
	"unmask/testkit/refusal"
)

// A question that a model answers by no letter is asked by whole answers, each of which is measured
// alone; so p of an option does not depend on its place or on other questions.
func TestWholeAnswers(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	state := State{Text: "It is hot."}
	list := []Question{
		{Kind: Boolean, Instructions: "Is it hot?"},
		{Kind: Choice, Instructions: "How is it?", Options: []Option{{Label: "It is hot."},
			{Label: "hot", Description: "above thirty"}, {Label: "It is cold."}}},
		{Kind: Score, Instructions: "How?", Options: []Option{{Label: "cold"}, {Label: "hot"}}},
	}
	for name, m := range map[string]*unmask.Model{"text": text, "chat": chat, "encoder": bert(t)} {
		t.Run(name, func(t *testing.T) {
			forced, err := Ask(t.Context(), m, state, list, Options{Form: WholeAnswers})
			require.NoError(t, err)
			letters, err := Ask(t.Context(), m, state, list, Options{Form: Letters})
			require.NoError(t, err)
			chosen, err := Ask(t.Context(), m, state, list, Options{})
			require.NoError(t, err)
			for i := range list {
				require.Equal(t, WholeAnswers, forced[i].Form)
				require.Equal(t, Letters, letters[i].Form)
				want := forced[i]
				if letters[i].Mass >= MinMass {
					want = letters[i]
				}
				require.Equal(t, want.Form, chosen[i].Form)
				require.Equal(t, want.P, chosen[i].P)
				require.Equal(t, want.Mass, chosen[i].Mass)
				require.GreaterOrEqual(t, chosen[i].Passes, letters[i].Passes)

				alone, err := Ask(t.Context(), m, state, list[i:i+1], Options{Form: WholeAnswers})
				require.NoError(t, err)
				require.Equal(t, forced[i], alone[0])
			}

			back := list[1]
			back.Options = slices.Clone(back.Options)
			slices.Reverse(back.Options)
			reversed, err := Ask(t.Context(), m, state, []Question{back}, Options{Form: WholeAnswers})
			require.NoError(t, err)
			slices.Reverse(reversed[0].P)
			require.InDeltaSlice(t, forced[1].P, reversed[0].P, 1e-9)
		})
	}
	_, err = Ask(t.Context(), chat, state, list, Options{Form: "marks"})
	refusal.Require(t, err, "by", `"marks"`)
}

// Log p of whole answers is that of their tokens, over an equal number of them for all options.
func TestLengthsOfWholeAnswers(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	options := []string{"The kite is red.", "It is a fox.", "Yes"}
	q := Question{Kind: Choice, Instructions: "What color is the kite?"}
	messages, err := json.Marshal([]map[string]string{
		{"role": "user", "content": "The kite is red.\n\nWhat color is the kite?"}})
	require.NoError(t, err)
	var perToken []float64
	tokens := 0
	mass := 0.0
	for _, label := range options {
		q.Options = append(q.Options, Option{Label: label})
		request := unmask.Request{Messages: messages}
		ids, from, to, err := m.TokensWithAnswer(t.Context(), request, label, nil)
		require.NoError(t, err)
		e, err := likelihood.Measure(t.Context(), m.Denoiser, ids, from, to,
			likelihood.Options{Method: likelihood.LeftToRight})
		require.NoError(t, err)
		perToken = append(perToken, e.LogProb/float64(to-from))
		tokens += to - from
		mass += math.Exp(e.LogProb)
	}
	answers, err := Ask(t.Context(), m, State{Text: "The kite is red."}, []Question{q},
		Options{Form: WholeAnswers})
	require.NoError(t, err)
	for i, logP := range answers[0].LogP {
		require.InDelta(t, perToken[i]*float64(tokens)/3, logP, 1e-9)
	}
	require.InDelta(t, mass, answers[0].Mass, 1e-9)
	require.Equal(t, 0, answers[0].Best())
}

// An option that cannot be a whole answer leaves the question to the letters.
func TestImpossibleWholeAnswers(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	q := Question{Kind: Choice, Instructions: "Who?",
		Options: []Option{{Label: "Lily"}, {Description: "nobody"}}}
	answers, err := Ask(t.Context(), m, State{Text: "It is."}, []Question{q}, Options{})
	require.NoError(t, err)
	require.Equal(t, Letters, answers[0].Form)
	_, err = Ask(t.Context(), m, State{Text: "It is."}, []Question{q}, Options{Form: WholeAnswers})
	require.Error(t, err)
}
