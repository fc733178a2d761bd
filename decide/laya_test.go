package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/families/encoders"
	"unmask/testkit/refusal"
)

// layaCase is a question of a pack with its tokens and its answer.
type layaCase struct {
	Name     string
	State    json.RawMessage
	Question json.RawMessage
	IDs      []int32
	Markers  []int32
	Answer   struct {
		Probabilities []float64
		Act           float64  `json:"act_probability"`
		Confidence    float64  `json:"confidence"`
		Choice        *int     `json:"choice"`
		Score         *float64 `json:"score"`
		Noul          *float64 `json:"noul"`
	}
}

func layaCases(t *testing.T, name string) (list []layaCase) {
	data, err := os.ReadFile(filepath.Join("../testdata/packs", name, "cases.json"))
	require.NoError(t, err)
	file := struct{ Cases []layaCase }{}
	require.NoError(t, json.Unmarshal(data, &file))
	require.Greater(t, len(file.Cases), 10)
	return file.Cases
}

// prompt returns a case's prompt and question.
func (c *layaCase) prompt(t *testing.T, net *encoders.Laya) (encoders.LayaPrompt, Question, State) {
	q, err := ReadQuestion(c.Question)
	if len(q.Options) != 1 { // which the network can be asked, but nobody needs to
		require.NoError(t, err)
	}
	state, err := ReadState(c.State)
	require.NoError(t, err)
	stateTokens, err := net.EncodeState(state.Text)
	require.NoError(t, err)
	p, err := net.EncodeQuestion(encoders.LayaQuestion{Kind: layaKinds[q.Kind],
		Instructions: q.Instructions, Options: q.optionTexts(), State: stateTokens,
		KeepEnd: state.List})
	require.NoError(t, err)
	return p, q, state
}

// Prompts are those of the published program, token for token, and answers those of its network.
func TestLaya(t *testing.T) {
	m, err := unmask.Load(t.Context(), "../testdata/packs/laya-tiny", unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.Equal(t, "laya", m.Info.Architecture)
	require.Nil(t, m.Text)
	net := m.Denoiser.(*encoders.Laya)
	var all []encoders.LayaPrompt
	cases := layaCases(t, "laya-tiny")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p, q, state := c.prompt(t, net)
			require.Equal(t, c.IDs, p.Tokens)
			require.Equal(t, c.Markers, p.MaskPositions)
			all = append(all, p)
			got, err := net.Answer(t.Context(), []encoders.LayaPrompt{p})
			require.NoError(t, err)
			require.InDeltaSlice(t, c.Answer.Probabilities, got[0].Probabilities, 1e-5)
			require.InDelta(t, c.Answer.Act, got[0].Act, 1e-5)
			require.InDelta(t, c.Answer.Confidence, got[0].Confidence, 1e-5)
			if len(q.Options) == 1 {
				return
			}
			answers, err := Ask(t.Context(), m, state, []Question{q}, Options{})
			require.NoError(t, err)
			a := answers[0]
			require.InDeltaSlice(t, c.Answer.Probabilities, a.P, 1e-5)
			switch {
			case c.Answer.Choice != nil:
				require.Equal(t, *c.Answer.Choice, a.Best())
			case c.Answer.Score != nil:
				require.InDelta(t, *c.Answer.Score, a.Score(), 1e-5)
			default:
				require.InDelta(t, *c.Answer.Noul, a.P[1], 1e-5)
			}
			require.InDelta(t, c.Answer.Confidence, a.Confidence, 1e-5)
		})
	}
	got, err := net.Answer(t.Context(), all) // in one batch
	require.NoError(t, err)
	for i, c := range cases {
		alone, err := net.Answer(t.Context(), all[i:i+1])
		require.NoError(t, err)
		require.Equal(t, alone[0], got[i], c.Name)
	}
}

// The multilingual tokenizer makes the published prompts too. Its pack has no weights.
func TestMultilingualLaya(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/laya-multilingual-prompt-tiny")))
	weights, err := os.ReadFile("../testdata/packs/laya-tiny/model.safetensors")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o600))
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.NoError(t, err)
	for _, c := range layaCases(t, "laya-multilingual-prompt-tiny") {
		t.Run(c.Name, func(t *testing.T) {
			p, _, _ := c.prompt(t, m.Denoiser.(*encoders.Laya))
			require.Equal(t, c.IDs, p.Tokens)
			require.Equal(t, c.Markers, p.MaskPositions)
		})
	}
}

// Weights that are too large are an error, not an answer.
func TestLayaOverflow(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/laya-tiny")))
	path := filepath.Join(dir, "model.safetensors")
	weights, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := len(weights) / 2; i < len(weights); i++ {
		weights[i] = 0x7f // 3e38, so that sums overflow
	}
	require.NoError(t, os.WriteFile(path, weights, 0o600))
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.NoError(t, err)
	q := Question{Kind: Boolean, Instructions: "Is it?"}
	_, err = Ask(t.Context(), m, State{Text: "a"}, []Question{q}, Options{})
	require.EqualError(t, err, "question 1: a logit is NaN, want finite numbers")
}

// What is cut off is said, and what cannot be asked is refused.
func TestLayaLimits(t *testing.T) {
	m, err := unmask.Load(t.Context(), "../testdata/packs/laya-tiny", unmask.Options{Threads: 1})
	require.NoError(t, err)
	q := Question{Kind: Choice, Instructions: "Which?"}
	for range 12 {
		q.Options = append(q.Options, Option{strings.Repeat("x", len(q.Options)+1), "a long description"})
	}
	a, err := Ask(t.Context(), m, State{Text: strings.Repeat("word ", 200)}, []Question{q}, Options{})
	require.NoError(t, err)
	require.Contains(t, strings.Join(a[0].Notes, "\n"), "options were cut to 4 tokens each")
	require.Contains(t, strings.Join(a[0].Notes, "\n"), "the state was cut from")
	for range 60 {
		q.Options = append(q.Options, Option{strings.Repeat("x", len(q.Options)+1), ""})
	}
	_, err = Ask(t.Context(), m, State{}, []Question{q}, Options{})
	refusal.Require(t, err, "options", "72")
}
