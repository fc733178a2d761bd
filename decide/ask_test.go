package decide

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/model"
	"unmask/nn"
	"unmask/testkit/refusal"
)

// bert returns a small ModernBERT with a vocabulary of letters and words.
func bert(t *testing.T) *unmask.Model {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/modernbert-chat-tiny")))
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ":", ",", "?", "-", "0",
		"1", "2"}
	for c := 'a'; c <= 'z'; c++ {
		words = append(words, string(c), "##"+string(c))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(strings.Join(words, "\n")),
		0o600))
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.NoError(t, err)
	return m
}

func makeOptions(n int) (list []Option) {
	for i := range n {
		list = append(list, Option{Label: fmt.Sprintf("n%c", 'a'+i)})
	}
	return list
}

// A state is written as it is, also its nulls, whatever a chat template's messages are.
func TestValueText(t *testing.T) {
	const value = `{"content": null, "reasoning": [null]}` // as json.dumps writes it
	text, err := ValueText([]byte(value))
	require.NoError(t, err)
	require.Equal(t, value, text)
}

// A chat model, one of text and an encoder answer all kinds of questions, and a question's answer
// is the same alone, among others, and on the model's own logits at the mask.
func TestAsk(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	list := []Question{
		{Kind: Boolean, Instructions: "Hot?"},
		{Kind: Choice, Instructions: "Who?", Options: makeOptions(3)},
		{Kind: Score, Instructions: "How?", Options: []Option{{Label: "cold"}, {Label: "hot"}}},
	}
	for name, m := range map[string]*unmask.Model{"text": text, "chat": chat, "encoder": bert(t)} {
		t.Run(name, func(t *testing.T) {
			state := State{Text: "It is."}
			all, err := Ask(t.Context(), m, state, list, Options{Form: Letters})
			require.NoError(t, err)
			for i := range list {
				alone, err := Ask(t.Context(), m, state, list[i:i+1], Options{Form: Letters})
				require.NoError(t, err)
				require.Equal(t, alone[0], all[i])
				a := all[i]
				sum := 0.0
				for _, p := range a.P {
					sum += p
				}
				require.InDelta(t, 1, sum, 1e-12)
				require.Greater(t, a.Mass, 0.0)
				require.Less(t, a.Mass, 1.0)
				require.Equal(t, 1, a.Passes)
				n := float64(len(a.P))
				require.InDelta(t, (n*a.P[a.Best()]-1)/(n-1), a.Confidence, 1e-12)
				require.GreaterOrEqual(t, a.Score(), 0.0)

				ask := &asker{m: m, state: state, questions: list, chat: name == "chat",
					shared: map[Form]*sharedState{}}
				row, err := ask.buildQuery(t.Context(), prompt{question: i})
				require.NoError(t, err)
				require.Equal(t, 1, m.Spec().CountMasked(row.Tokens))
				marginals, err := m.Forward(t.Context(), &model.Batch{Size: 1, Length: len(row.Tokens),
					Tokens: row.Tokens, Time: []float64{1 / float64(len(row.Tokens))}})
				require.NoError(t, err)
				require.NoError(t, marginals.Visit([]int32{int32(row.Position)}, func(_ int, logits []float32) {
					var own []float64
					for _, label := range row.Labels {
						own = append(own, float64(logits[label[0]]))
					}
					require.InDeltaSlice(t, nn.Probabilities(own, 1), a.P, 1e-9)
				}))
			}
			half, err := Ask(t.Context(), m, state, list, Options{Form: Letters, Calibration: Calibration{
				Choice: {Temperature: 2}}})
			require.NoError(t, err)
			require.Equal(t, all[0].P, half[0].P)
			require.InDeltaSlice(t, nn.Probabilities(all[1].LogP, 2), half[1].P, 1e-12)
		})
	}
}

// With so many options that pairs of them are asked, an option has the same p wherever it stands.
func TestOrders(t *testing.T) {
	q := Question{Kind: Choice, Instructions: "who", Options: makeOptions(16)}
	back := q
	back.Options = slices.Clone(q.Options)
	slices.Reverse(back.Options)
	a, err := Ask(t.Context(), bert(t), State{Text: "ab"}, []Question{q, back},
		Options{Form: Letters})
	require.NoError(t, err)
	slices.Reverse(a[1].P)
	require.InDeltaSlice(t, a[0].P, a[1].P, 1e-6)
	require.Equal(t, 30, a[0].Passes)
}

func TestRefusedQuestions(t *testing.T) {
	m := bert(t)
	for name, c := range map[string]struct{ question, want string }{
		"kind":      {`{"type":"box"}`, `type is "box", want boolean, choice or score`},
		"one label": {`{"type":"choice","criteria":{"a":null}}`, "options is 1, want 2 to 255 of them"},
		"levels": {`{"type":"score","criteria":["a","b","c","d","e","f","g","h","i","j","k"]}`,
			"options is 11, want 2 to 10 of them"},
		"nothing":   {`{"type":"noul"}`, "instructions is missing, want a question, or descriptions of true or false"},
		"list":      {`{"type":"noul","criteria":["a","b"]}`, "criteria is a list, want a list of a score or choice, an object of others"},
		"object":    {`{"type":"score","criteria":{"a":"b"}}`, "criteria is an object, want a list of a score or choice, an object of others"},
		"twice":     {`{"type":"choice","criteria":["a","a"]}`, `options is "a" twice, want it once`},
		"other key": {`{"type":"noul","instructions":"x","criteria":{"maybe":"y"}}`, `criteria is "maybe", want true and false`},
		"a text":    {`{"type":"choice","criteria":"a"}`, "criteria is a text, want an object or a list"},
		"unknown":   {`{"type":"noul","question":"x"}`, `unknown field "question"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadQuestion([]byte(c.question))
			require.EqualError(t, err, c.want)
		})
	}
	_, err := Ask(t.Context(), m, State{Text: strings.Repeat("a ", 9000)},
		[]Question{{Kind: Boolean, Instructions: "b"}}, Options{})
	refusal.Require(t, err, "state", "too long")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Ask(ctx, m, State{}, []Question{{Kind: Boolean, Instructions: "b"}}, Options{})
	require.ErrorIs(t, err, context.Canceled)
	for _, bad := range []float64{-1, 0, 1e-9, math.NaN(), math.Inf(1)} {
		_, err = Ask(t.Context(), m, State{}, []Question{{Kind: Choice, Options: makeOptions(2)}},
			Options{Calibration: Calibration{Boolean: {Temperature: bad}}})
		require.EqualError(t, err, fmt.Sprintf("temperature of boolean is %v, want 0.05 to 20", bad))
	}
	_, err = Ask(t.Context(), m, State{}, nil,
		Options{Calibration: Calibration{"box": {Temperature: 1}}})
	require.EqualError(t, err, `type is "box", want boolean, choice or score`)
}
