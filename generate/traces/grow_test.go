package traces_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/samplers"
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
		moved += followsResizes(t, m, generate.Options{Request: generate.Request{Recipe: recipe,
			Known: tokens, Seed: 5}})
	}
	require.Positive(t, moved)
}

// So does that of a text that finds its length.
func TestTraceOfTextsThatFindTheirLength(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	tokens, err := m.Text.Infill("Lily had[24]", 0)
	require.NoError(t, err)
	sentence, err := m.Text.Infill("Lily had[1].", 0)
	require.NoError(t, err)
	for _, name := range []string{"daedal(start=8,grow=3,low=0.3)", "rho-eos(start=8,unit=4)",
		"rho-eos(start=20,high=0.01,low=0.001,cut=any)"} {
		sampler, err := samplers.Parse(name)
		require.NoError(t, err)
		require.Positive(t, followsResizes(t, m,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{
				Sampler: sampler}, Known: tokens, EndTokens: sentence[len(sentence)-1:]}}))
	}
}

// followsResizes compares a run's text with the end of its trace, and counts its resizes.
func followsResizes(t *testing.T, m *unmask.Model, o generate.Options) (moved int) {
	o, err := o.Check(m.Denoiser)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "t.jsonl")
	w, err := traces.Create(name, traces.NewHeader(m.Spec(), o.Request, m.Text, "m", "_"), m.Text)
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
	require.Zero(t, opening.Steps[len(m.Spec().BeforeText)], "given text")
	for p, at := range opening.Steps {
		require.True(t, at > 0 || opening.LogP[p] != opening.LogP[p], "position %d", p)
	}
	require.Equal(t, strings.Join(m.Text.Pieces(last), ""), endOf(t, name))
	return moved
}

// endOf follows the lines of a trace of one sample to its end, and returns its text.
func endOf(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var h traces.Header
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &h))
	now := make([]traces.Piece, h.Shape[0])
	for i := range now {
		now[i].Piece = h.Hole
	}
	for _, p := range h.Known {
		now[p.Position] = p
	}
	for _, line := range lines[1:] {
		var s traces.Step
		require.NoError(t, json.Unmarshal([]byte(line), &s))
		now = generate.ApplyResizes(now, s.Resized, traces.Piece{Piece: h.Hole})
		for _, p := range s.Opened {
			now[p.Position] = p
		}
		for _, p := range s.Closed {
			now[p] = traces.Piece{Piece: h.Hole}
		}
	}
	var end strings.Builder
	for _, p := range now {
		end.WriteString(p.Piece + string(p.Bytes))
	}
	return end.String()
}
