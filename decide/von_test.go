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

var vonPacks = []string{"von-tiny", "von-11-tiny"}

// Prompts are those of the published programs, token for token, and answers those of its networks,
// of the version whose options see each other and of that whose do not.
func TestVon(t *testing.T) {
	for _, pack := range vonPacks {
		m, err := unmask.Load(t.Context(), "../testdata/packs/"+pack, unmask.Options{Threads: 2})
		require.NoError(t, err)
		require.Equal(t, "von", m.Info.Architecture)
		require.True(t, HasDecisionHead(m))
		require.Nil(t, m.Text)
		net := m.Denoiser.(*encoders.Von)
		asked := 0
		for _, c := range layaCases(t, pack) {
			t.Run(pack+"/"+c.Name, func(t *testing.T) {
				q, err := ReadQuestion(c.Question)
				require.NoError(t, err)
				state, err := ReadState(c.State)
				require.NoError(t, err)
				text, err := vonState(state)
				require.NoError(t, err)
				p, err := net.EncodeQuestion(encoders.VonQuestion{Instructions: q.Instructions, State: text,
					Options: q.vonOptions()})
				require.NoError(t, err)
				require.Equal(t, c.IDs, p.Tokens)
				require.Equal(t, c.Markers, p.MaskPositions)

				answers, err := Ask(t.Context(), m, state, []Question{q}, Options{})
				require.NoError(t, err)
				a := answers[0]
				want := c.Answer.Probabilities
				if q.Kind == Boolean {
					want = []float64{want[1], want[0]}
				}
				require.InDeltaSlice(t, want, a.P, 1e-5)
				switch {
				case c.Answer.Choice != nil:
					// Options with the same words are equally probable.
					require.InDelta(t, a.P[a.Best()], a.P[*c.Answer.Choice], 1e-6)
					require.InDelta(t, c.Answer.Confidence, a.Confidence, 2e-5)
				case c.Answer.Score != nil:
					require.InDelta(t, *c.Answer.Score, a.Score(), 1e-5)
					require.InDelta(t, c.Answer.Confidence, a.Confidence, 2e-5)
				default:
					require.InDelta(t, *c.Answer.Noul, a.P[1], 1e-5)
				}
				asked++
			})
		}
		require.Equal(t, 15, asked)
	}
}

// Where options are independent, their order changes no probability: a logit depends on the option,
// on what is outside of the options and on the length of all.
func TestIndependentOptions(t *testing.T) {
	m, err := unmask.Load(t.Context(), "../testdata/packs/von-tiny", unmask.Options{Threads: 2})
	require.NoError(t, err)
	options := []Option{{Label: "billing", Description: "charges, invoices, payments"},
		{Label: "technical"}, {Label: "sales", Description: "a question before buying"},
		{Label: "other"}}
	ask := func(m *unmask.Model, list []Option) map[string]float64 {
		q := Question{Kind: Choice, Instructions: "Which queue?", Options: list}
		answers, err := Ask(t.Context(), m, State{Text: strings.Repeat("It is broken. ", 20)},
			[]Question{q}, Options{})
		require.NoError(t, err)
		p := map[string]float64{}
		for i, o := range list {
			p[o.Label] = answers[0].P[i]
		}
		return p
	}
	want := ask(m, options)
	reversed := []Option{options[3], options[2], options[1], options[0]}
	for label, p := range ask(m, reversed) {
		require.InDelta(t, want[label], p, 1e-6, label)
	}
	older, err := unmask.Load(t.Context(), "../testdata/packs/von-11-tiny", unmask.Options{Threads: 2})
	require.NoError(t, err)
	before := ask(older, options)
	moved := 0.0
	for label, p := range ask(older, reversed) {
		moved = max(moved, p-before[label])
	}
	require.Greater(t, moved, 1e-3, "options that see each other depend on their order")
}

// A text that spells the mask would be another option, and a folder without its calibration cannot
// say which version it is.
func TestVonRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/von-tiny")))
	m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.NoError(t, err)
	q := Question{Kind: Boolean, Instructions: "Is it broken?"}
	_, err = Ask(t.Context(), m, State{Text: "yes [MASK] no"}, []Question{q}, Options{})
	refusal.RequireText(t, err, "state is with [MASK], want a question without it")
	_, err = Ask(t.Context(), m, State{Text: strings.Repeat("a b ", 8192)}, []Question{q}, Options{})
	refusal.RequireText(t, err, "state is too long")

	require.NoError(t, os.Remove(filepath.Join(dir, "marker_calibration.json")))
	_, err = unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
	require.ErrorContains(t, err, "marker_calibration.json: ")
}

// The kind is decided by option_marker.pt, which has all weights, and the version by a key: without
// it the same weights let options see each other.
func TestVonVersion(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/von-tiny")))
	load := func() *unmask.Model {
		m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
		require.NoError(t, err)
		return m
	}
	require.Contains(t, strings.Join(load().Info.Notes, " "), "as of version 1.2")
	name := filepath.Join(dir, "marker_calibration.json")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(data, &keys))
	delete(keys, "independent_options")
	data, err = json.Marshal(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	require.Contains(t, strings.Join(load().Info.Notes, " "), "as in version 1.1")

	require.NoError(t, os.Remove(filepath.Join(dir, "option_marker.pt")))
	m := load()
	require.Equal(t, "modernbert", m.Info.Architecture)
	require.False(t, HasDecisionHead(m))
}
