package gpt2

import (
	"bytes"
	"context"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/demo"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/tokenizers"
	"unmask/weights"
)

// each loads a pack on every device.
func each(t *testing.T, f func(t *testing.T, p *parity.Pack, m *Model, tolerance float64)) {
	for _, name := range []string{"gpt2-tiny", "gpt2-large"} {
		for _, d := range parity.Devices {
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := parity.Open(t, name)
				if d.Slow() && p.Full() {
					t.Skip("minutes a pass")
				}
				m, err := Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
				require.NoError(t, err)
				f(t, p, m, d.Tolerance)
			})
		}
	}
}

// tiny returns the small pack on the reference device.
func tiny(t *testing.T) (*parity.Pack, *Model) {
	p := parity.Open(t, "gpt2-tiny")
	m, err := Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	return p, m
}

func sequences(tokens []int32, shape []int) [][]int32 {
	return slices.Collect(slices.Chunk(tokens, shape[1]))
}

func flat(nll [][]float64) []float32 {
	var out []float32
	for _, s := range nll {
		for _, v := range s {
			out = append(out, float32(v))
		}
	}
	return out
}

func TestScore(t *testing.T) {
	each(t, func(t *testing.T, p *parity.Pack, m *Model, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, _ := p.Floats("nll")
		nll, err := m.Score(context.Background(), sequences(tokens, shape))
		require.NoError(t, err)
		parity.RequireClose(t, want, flat(nll), tolerance)
	})
}

func TestLogits(t *testing.T) {
	each(t, func(t *testing.T, p *parity.Pack, m *Model, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, wantShape := p.Floats("logits")
		require.NoError(t, m.passes.Full(newBatch(sequences(tokens, shape), shape[1])))
		require.NoError(t, m.runPass(context.Background(), m.passes.Next()))
		got := make([]float32, len(want))
		m.device.HeadVisit(m.work.X, len(tokens), m.head, func(row int, logits []float32) {
			copy(got[row*wantShape[2]:(row+1)*wantShape[2]], logits)
		})
		parity.RequireClose(t, want, got, tolerance)
	})
}

// A sequence has the same score, bit for bit, alone and in a batch of other lengths that needs
// several passes, on a model that has scored something else before.
func TestScoreIsBatchInvariant(t *testing.T) {
	p := parity.Open(t, "gpt2-tiny")
	for _, d := range parity.Devices {
		t.Run(d.Name+"/"+d.Precision.String(), func(t *testing.T) {
			m, err := Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
			require.NoError(t, err)
			tokens, shape := p.Ints("tokens")
			s := sequences(tokens, shape)
			batch := [][]int32{s[0][:17], {}, s[1], s[0][:1], s[0], s[1][3:20], s[0][:2]}
			for range 55 { // more than one group of rows
				if !d.Slow() {
					batch = append(batch, s[1])
				}
			}
			all, err := m.Score(context.Background(), batch)
			require.NoError(t, err)
			for _, i := range []int{0, 1, 2, 3, 4, 5, 6, len(batch) - 1} {
				alone, err := m.Score(context.Background(), batch[i:i+1])
				require.NoError(t, err)
				require.Equal(t, alone[0], all[i], "sequence %d", i)
				require.Len(t, all[i], max(len(batch[i])-1, 0))
			}
		})
	}
}

func TestDemoJudge(t *testing.T) {
	files := demo.Judge()
	data, err := fs.ReadFile(files, "tokenizer.json")
	require.NoError(t, err)
	tok, err := tokenizers.Parse(data)
	require.NoError(t, err)
	src, err := model.OpenFS(files, "judge")
	require.NoError(t, err)
	m, err := Load(src, model.Options{Backend: parity.Devices[1].New(t)})
	require.NoError(t, err)
	require.Equal(t, "tokenizer.json", m.Info().Tokenizer)
	require.Equal(t, 256, m.Context())

	english, err := tok.Encode("Once upon a time there was a brave girl named Lily.")
	require.NoError(t, err)
	reversed := slices.Clone(english)
	slices.Reverse(reversed)
	nll, err := m.Score(context.Background(), [][]int32{english, reversed})
	require.NoError(t, err)
	uniform := math.Log(1024)
	require.Less(t, mean(nll[0]), 0.8*uniform, "trained text is likelier than chance")
	require.Less(t, mean(nll[0])+1, mean(nll[1]), "and than the same words the other way round")
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func TestBadTokens(t *testing.T) {
	_, m := tiny(t)
	ctx := context.Background()
	for _, c := range []struct {
		tokens [][]int32
		want   string
	}{
		{[][]int32{{1}, {1, 113}}, "token 1 of sequence 1 is 113, want 0 to 112"},
		{[][]int32{{-1}}, "token 0 of sequence 0 is -1, want 0 to 112"},
		{[][]int32{make([]int32, 41)}, "sequence 0 has 41 tokens, want 0 to 40"},
	} {
		_, err := m.Score(ctx, c.tokens)
		require.EqualError(t, err, c.want)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := m.Score(cancelled, [][]int32{{1, 2}})
	require.ErrorIs(t, err, context.Canceled)
}

// variant returns the tiny pack with its tensors changed.
func variant(t *testing.T, change func(v *weights.Tensor) (keep bool),
	more ...weights.Tensor) *model.Source {
	p := parity.Open(t, "gpt2-tiny")
	var some []weights.Tensor
	for _, name := range p.Set.Names() {
		v, _ := p.Set.Get(name)
		c := *v
		if change(&c) {
			some = append(some, c)
		}
	}
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, append(some, more...), nil))
	set, err := weights.Parse(file.Bytes(), "model.safetensors")
	require.NoError(t, err)
	return &model.Source{Name: "variant", Config: p.Config, Set: set, Files: fstest.MapFS{}}
}

// Files of older versions have a prefix on names, masks, and a copy of the tied head.
func TestPrefixAndBuffers(t *testing.T) {
	p, m := tiny(t)
	tokens, shape := p.Ints("tokens")
	want, err := m.Score(context.Background(), sequences(tokens, shape))
	require.NoError(t, err)
	mask := func(name string) weights.Tensor {
		return weights.Tensor{Name: name, DType: weights.U8, Shape: []int{1, 1, 2, 2},
			Data: make([]byte, 4)}
	}
	src := variant(t, func(v *weights.Tensor) bool { v.Name = "transformer." + v.Name; return true },
		mask("transformer.h.0.attn.bias"), mask("transformer.h.0.attn.masked_bias"),
		weights.Tensor{Name: "lm_head.weight", DType: weights.F32, Shape: []int{1},
			Data: make([]byte, 4)})
	old, err := Load(src, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	require.Equal(t, []string{"lm_head.weight", "transformer.h.0.attn.bias",
		"transformer.h.0.attn.masked_bias"}, old.Info().Unused)
	require.Equal(t, m.Info().Parameters, old.Info().Parameters)
	got, err := old.Score(context.Background(), sequences(tokens, shape))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// One error lists everything that is wrong.
func TestWrongWeights(t *testing.T) {
	src := variant(t, func(v *weights.Tensor) bool {
		if v.Name == "h.1.ln_1.bias" {
			v.Shape = []int{8, 8}
		}
		return v.Name != "h.2.mlp.c_fc.weight"
	}, weights.Tensor{Name: "extra", DType: weights.F32, Shape: []int{1}, Data: make([]byte, 4)})
	_, err := Load(src, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, `1 missing: "h.2.mlp.c_fc.weight"`)
	require.ErrorContains(t, err, `1 unexpected: "extra"`)
	require.ErrorContains(t, err, `"h.1.ln_1.bias" is [8 8], want [64]`)
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"n_embd": 64`, `"n_embd": 0`, "n_embd is 0, want 1 to 1048576"},
		{`"n_layer": 3`, `"n_layer": 2147483648`, "n_layer is 2147483648"},
		{`"n_head": 4`, `"n_head": 5`, "n_head is 5, want the divisors of n_embd 64"},
		{`"n_head": 4,`, ``, "n_head is missing"},
		{`"gpt2"`, `"llama"`, `model_type is "llama", want "gpt2"`},
		{`"gelu_new"`, `"tanh"`, `activation_function is "tanh"`},
		{`1e-05`, `0`, "layer_norm_epsilon is 0"},
		{`"n_head": 4`, `"n_head": 4, "tie_word_embeddings": false`, "tie_word_embeddings is false"},
		{`"n_head": 4`, `"n_head": 4, "scale_attn_weights": false`, "scale_attn_weights is false"},
		{`"n_head": 4`, `"n_head": 4, "scale_attn_by_inverse_layer_idx": true`,
			"scale_attn_by_inverse_layer_idx is true"},
		{`"n_head": 4`, `"n_head": `, "config.json: "},
	} {
		p := parity.Open(t, "gpt2-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestTensorsOverruleTheConfig(t *testing.T) {
	p := parity.Open(t, "gpt2-tiny")
	p.Config = []byte(strings.Replace(string(p.Config), `"n_ctx": 40`, `"n_ctx": 41`, 1))
	m, err := Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	require.Equal(t, []string{"config.json says n_ctx 41, the tensors 40: the tensors are right"},
		m.Info().Notes)
}

// The published sizes have the published numbers of parameters: 124, 355, 774 and 1558 million.
func TestPresets(t *testing.T) {
	for name, want := range map[string]int{"gpt2": 124439808, "gpt2-medium": 354823168,
		"gpt2-large": 774030080, "gpt2-xl": 1557611200} {
		c := Presets[name]
		h := c.Hidden
		block := 4*h + (3*h*h + 3*h) + (h*h + h) + (h*c.MLP + c.MLP) + (c.MLP*h + h)
		require.Equal(t, want, (c.Vocab+c.Context)*h+c.Blocks*block+2*h, name)
		require.Zero(t, h%c.Heads)
	}
}
