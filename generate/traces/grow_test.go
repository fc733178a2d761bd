package traces_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/generate"
	"unmask/generate/traces"
)

// A trace of holes that grow and shrink ends, when it is played again, with the run's text, and
// opened_at has a step for each position that the run opened.
func TestTraceOfGrowingHoles(t *testing.T) {
	m, err := unmask.LoadFS(os.DirFS("../../testdata/packs/dreamon-tiny"), "dreamon",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	moved := 0
	for _, text := range []string{"12 20[?]17 18", "5 6 7[?]8", "33[?]34 35 36"} {
		tokens, err := m.Text.Infill(text, 0)
		require.NoError(t, err)
		recipe, err := m.Defaults()
		require.NoError(t, err)
		o, err := generate.Options{Recipe: recipe, Tokens: tokens, Seed: 5}.Check(m.Denoiser)
		require.NoError(t, err)
		name := filepath.Join(t.TempDir(), "t.jsonl")
		w, err := traces.Create(name, traces.NewHeader(m.Spec(), o.Request(0), m.Text, "m", "_"), m.Text)
		require.NoError(t, err)
		var openings traces.Openings
		var last []int32
		for step, err := range generate.Run(context.Background(), m.Denoiser, o) {
			require.NoError(t, err)
			require.NoError(t, w.Write(step))
			openings.Add(step)
			moved += len(step.Sequences[0].Resized)
			last = append(last[:0], step.Sequences[0].Tokens...)
		}
		require.NoError(t, w.Close())
		opening := openings.Take(0)
		require.Len(t, opening.Steps, len(last))
		require.Len(t, opening.LogP, len(last))
		begin := len(m.Spec().Before)
		require.Zero(t, opening.Steps[begin], "given text")
		for p, at := range opening.Steps {
			require.Equal(t, at > 0, opening.LogP[p] == opening.LogP[p], "position %d", p)
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var end string
		require.NoError(t, traces.Read(bytes.NewReader(data), func(r *traces.State,
			s *traces.Step) error {
			end = strings.Join(r.Texts(), "")
			return nil
		}))
		require.Equal(t, strings.Join(m.Text.Pieces(last), ""), end)
	}
	require.Positive(t, moved)
}
