package encoders_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights/pytorch"
)

// Hidden states are those after the last norm, in every layout.
func TestStatesOfESMC(t *testing.T) {
	for _, pack := range esmc {
		t.Run(pack, func(t *testing.T) {
			p := parity.Open(t, pack)
			m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
			require.NoError(t, err)
			tokens, shape := p.Ints("tokens")
			want, _ := p.Floats("hidden")
			got, err := m.Forward(t.Context(), parity.Batch(tokens, shape))
			require.NoError(t, err)
			states, _, err := got.(model.HiddenStates).Hidden(parity.Count(len(tokens)))
			require.NoError(t, err)
			parity.RequireClose(t, want, states, 1e-5)
		})
	}
}

// The table of tokens that stands for missing files is that of the files: letters, one token each,
// and the tokens around a protein. A file of weights alone is read as it lies in its repository.
func TestTokensOfESMC(t *testing.T) {
	var first []int32
	for _, name := range esmc[:3] {
		m := pack(t, name)
		require.Equal(t, "esmc", m.Info.Architecture)
		require.Equal(t, int32(32), m.Spec().Mask)
		require.Equal(t, []int32{0}, m.Spec().BeforeText)
		require.Equal(t, []int32{2}, m.Spec().AfterText)
		tokens, err := m.Text.Infill("MKTAYXBUZO.-[3]LAGVSERTIDPKQNFYMHWC", 0)
		require.NoError(t, err)
		if first == nil {
			first = tokens
		}
		require.Equal(t, first, tokens, name)
	}
	require.Equal(t, []int32{0, 20, 15, 11, 5, 19, 24}, first[:7])
}

// Neither special tokens nor rows without a token nor letters that are no residue are drawn.
func TestDrawnTokensOfESMC(t *testing.T) {
	for _, name := range esmc[:3] {
		m := pack(t, name)
		tokens, err := m.Text.Infill("MK[12]Y", 0)
		require.NoError(t, err)
		r := unmask.Request{Tokens: tokens, Overrides: unmask.Overrides{"steps": "4"}}
		for step, err := range unmask.Generate(t.Context(), m, r, 20) {
			require.NoError(t, err)
			for _, s := range step.Sequences {
				if step.Done {
					require.Regexp(t, "^MK[ACDEFGHIKLMNPQRSTVWYBUZO]{12}Y$", m.Text.Decode(s.Tokens), name)
				}
			}
		}
	}
}

// A converted checkpoint has the bits of the checkpoint itself.
func TestConvertedESMC(t *testing.T) {
	p := parity.Open(t, "esmc-pth-tiny")
	dir := t.TempDir()
	file := p.Dir(filepath.Join("data", "weights", "esmc_tiny_2024_12_v0.pth"))
	require.NoError(t, pytorch.Convert(t.Context(), file, dir, pytorch.Options{}))
	tokens, shape := p.Ints("tokens")
	logits := func(src *model.Source) []float32 {
		m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		got, err := m.Forward(t.Context(), parity.Batch(tokens, shape))
		require.NoError(t, err)
		return parity.Logits(t, got, parity.Count(len(tokens)), m.Spec().Outcomes)
	}
	src, err := model.Open(dir)
	require.NoError(t, err)
	defer src.Set.Close()
	require.Equal(t, logits(p.Source), logits(src))
}

// Two checkpoints in one folder are refused, and a file that is none says so.
func TestCheckpointsOfESMC(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", "weights"), 0o700))
	file := filepath.Join(dir, "data", "weights", "esmc_300m_2024_12_v0.pth")
	require.NoError(t, os.WriteFile(file, []byte("no zip"), 0o600))
	_, err := model.Open(dir)
	require.ErrorContains(t, err, "not a PyTorch checkpoint")
	require.NoError(t, os.WriteFile(strings.Replace(file, "300m", "600m", 1), nil, 0o600))
	_, err = model.Open(dir)
	require.ErrorContains(t, err, "there are 2 files data/weights/esmc_")
}

// The published 300M, a folder of any layout that UNMASK_ESMC names, has the values of
// transformers' own test, which ran in bfloat16.
func TestPublishedESMC(t *testing.T) {
	dir := os.Getenv("UNMASK_ESMC")
	if dir == "" {
		t.Skip("UNMASK_ESMC names no folder with ESM-C 300M")
	}
	src, err := model.Open(dir)
	require.NoError(t, err)
	defer src.Set.Close()
	m, err := model.Load(src, model.Options{
		Backend:   cpu.New(cpu.Options{}),
		Precision: backend.BF16,
	})
	require.NoError(t, err)
	tokens, err := m.Tokenizer.Encode("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ")
	require.NoError(t, err)
	tokens = slices.Concat(m.Spec().BeforeText, tokens, m.Spec().AfterText)
	got, err := m.Forward(t.Context(), &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens})
	require.NoError(t, err)
	logits := parity.Logits(t, got, []int32{1}, m.Spec().Outcomes)
	require.InDeltaSlice(t, []float32{-36, -36, -36.25, 14.25, 21.375, 20.125}, logits[:6], 0.5)
	states, _, err := got.(model.HiddenStates).Hidden([]int32{1})
	require.NoError(t, err)
	wantStates := []float32{.00708, -.008179, .038574, .038574, .011597, .039307}
	require.InDeltaSlice(t, wantStates, states[:6], 0.004)
}
