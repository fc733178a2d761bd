package vit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
)

const word = "token_emb.word_embeddings.weight"

// classed loads mage-tiny with class names in its config and with row `to` of its word embeddings
// replaced by row `from`.
func classed(t *testing.T, names []string, from, to int) *model.Loaded {
	p := parity.Open(t, "mage-tiny")
	var config map[string]any
	require.NoError(t, json.Unmarshal(p.Config, &config))
	config["class_names"] = names
	dir := t.TempDir()
	data, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644))
	var tensors []weights.Tensor
	for _, name := range p.Set.Names() {
		x, _ := p.Set.Get(name)
		c := weights.Tensor{Name: name, DType: x.DType, Shape: x.Shape, Data: slices.Clone(x.Data)}
		if row := len(c.Data) / x.Shape[0]; name == word {
			copy(c.Data[to*row:(to+1)*row], x.Data[from*row:])
		}
		tensors = append(tensors, c)
	}
	require.NoError(t, weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors, nil))
	src, err := model.Open(dir)
	require.NoError(t, err)
	m, err := model.Load(src, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	return m
}

// The pass of class c equals the pass without a class of weights that have c's token in that place.
func TestClassIsTheTokenBeforeTheImage(t *testing.T) {
	const codes, none = 64, 64 + 76
	p := parity.Open(t, "mage-tiny")
	tokens, shape := p.Ints("tokens")
	logits := func(m *model.Loaded, c *model.Condition) []float32 {
		b := parity.Batch(tokens, shape)
		b.Conditions = slices.Repeat([]*model.Condition{c}, b.Size)
		got, err := m.Denoiser.Forward(t.Context(), b)
		require.NoError(t, err)
		return parity.Logits(t, got, parity.Count(len(tokens)), codes)
	}
	with := classed(t, []string{"dawn", "day", "dusk"}, none, none)
	require.Equal(t, 3, with.Spec().Classes)
	require.Equal(t, []string{"dawn", "day", "dusk"}, with.Classes)
	plainly := logits(with, nil)
	require.Equal(t, plainly, logits(with, &model.Condition{Class: model.NoClass}))
	for c := range 3 {
		want := logits(classed(t, nil, codes+c, none), nil)
		require.Equal(t, want, logits(with, &model.Condition{Class: int32(c)}))
		require.NotEqual(t, want, plainly)
	}
	_, err := with.Denoiser.Forward(t.Context(), &model.Batch{Size: 1, Length: len(tokens) / shape[0],
		Tokens: tokens[:len(tokens)/shape[0]], Conditions: []*model.Condition{{Class: 3}}})
	require.ErrorContains(t, err, "class is 3, want 0 to 2, or -1 for none")
}

func TestTooManyClassNames(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	var config map[string]any
	require.NoError(t, json.Unmarshal(p.Config, &config))
	config["class_names"] = slices.Repeat([]string{"x"}, 77)
	var err error
	p.Config, err = json.Marshal(config)
	require.NoError(t, err)
	_, err = model.Load(p.Source, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, "class_names has 77 names, want 0 to 76")
}
