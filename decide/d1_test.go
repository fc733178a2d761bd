package decide

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/families/d1"
	"unmask/model"
	"unmask/testkit/refusal"
)

// Prompts are those of the published program, token for token, and answers those of its network.
func TestD1(t *testing.T) {
	const dir = "../testdata/packs/d1-omni-text-tiny"
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.Equal(t, "d1", m.Info.Architecture)
	require.Contains(t, m.Info.Notes,
		"text alone is read: the parts for pictures and sound are not")
	require.True(t, HasDecisionHead(m))
	require.Nil(t, m.Text)
	net := m.Denoiser.(*d1.Model)
	data, err := os.ReadFile(dir + "/cases.json")
	require.NoError(t, err)
	file := struct {
		Cases []struct {
			Name            string
			State, Question json.RawMessage
			IDs, Markers    []int32
			Probabilities   []float64
		}
	}{}
	require.NoError(t, json.Unmarshal(data, &file))
	require.Len(t, file.Cases, 17)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			q, err := ReadQuestion(c.Question)
			require.NoError(t, err)
			state, err := ReadState(c.State)
			require.NoError(t, err)
			p, err := net.EncodeQuestion(d1.Question{Kind: layaKinds[q.Kind],
				Instructions: q.Instructions, State: state.Text, Options: q.optionTexts()})
			require.NoError(t, err)
			require.Equal(t, c.IDs, p.Tokens)
			require.Equal(t, c.Markers, p.MaskPositions)

			answers, err := Ask(t.Context(), m, state, []Question{q}, Options{})
			require.NoError(t, err)
			require.InDeltaSlice(t, c.Probabilities, answers[0].P, 2e-5)
			require.InDelta(t, slices.Max(c.Probabilities), answers[0].Confidence, 2e-5)
			if strings.HasPrefix(c.Name, "long_") || c.Name == "many" {
				require.NotEmpty(t, answers[0].Notes)
			}
		})
	}
}

// It writes nothing, options that do not fit are refused, and a folder says what is wrong with it.
func TestD1Refuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/d1-omni-text-tiny")))
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.NoError(t, err)
	_, err = m.Denoiser.Forward(t.Context(), &model.Batch{})
	require.ErrorContains(t, err, "d1 answers typed questions alone")
	q := Question{Kind: Choice, Instructions: "Which?"}
	for i := range 100 {
		q.Options = append(q.Options, Option{Label: strings.Repeat("x", i+1)})
	}
	_, err = Ask(t.Context(), m, State{Text: "a"}, []Question{q}, Options{})
	refusal.RequireText(t, err, "options is 100, want as many as fit into 256 tokens")

	config, err := os.ReadFile(dir + "/config.json")
	require.NoError(t, err)
	for change, want := range map[[2]string]string{
		{`"head_layers": 1`, `"head_layers": 2`}:      "weights do not fit the network",
		{`"max_length": 256`, `"max_length": 5`}:      "max_length is 5, want 128 to 131072",
		{`"text_config"`, `"words_config"`}:           "text_config is missing",
		{`"choice:2": 1.7465145`, `"choice:2": -1.7`}: `the temperature of "choice:2" is -1.7`,
		{`"conv_L_cache": 3`, `"conv_L_cache": 4`}:    "text_config: ",
	} {
		require.Contains(t, string(config), change[0])
		changed := strings.Replace(string(config), change[0], change[1], 1)
		require.NoError(t, os.WriteFile(dir+"/config.json", []byte(changed), 0o600))
		_, err = unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
		require.ErrorContains(t, err, want)
	}
}
