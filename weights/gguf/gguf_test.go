package gguf

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/quant"
	"unmask/weights"
)

// Every type's values equal the reference's, bit for bit. Products get the same values for the
// types that are held without rounding, and else values as near as Q8_0 has them.
func TestTypes(t *testing.T) {
	for _, file := range []string{"types", "legacy"} { // testdata/legacy.py makes the second
		f, err := Open("testdata/" + file + ".gguf")
		require.NoError(t, err)
		defer f.Set.Close()
		want, err := weights.Open("testdata/" + file + ".safetensors")
		require.NoError(t, err)
		defer want.Close()
		require.Equal(t, want.Names(), f.Set.Names())
		for _, name := range want.Names() {
			a, _ := f.Set.Get(name)
			b, _ := want.Get(name)
			require.Equal(t, b.Shape, a.Shape)
			got, err := a.Floats()
			require.NoError(t, err, name)
			values, err := b.Floats()
			require.NoError(t, err)
			for i := range values {
				require.Equal(t, math.Float32bits(values[i]), math.Float32bits(got[i]), "%s, element %d",
					name, i)
			}
			requireHeld(t, a, values)
		}
	}
}

// requireHeld requires that the blocks that products get have a tensor's values.
func requireHeld(t *testing.T, a *weights.Tensor, values []float32) {
	held, ok := a.BlockFormat()
	if !ok {
		return
	}
	from, _ := quant.Parse(string(a.DType))
	width := a.Shape[len(a.Shape)-1]
	row, blocks := make([]float32, width), make([]byte, held.RowBytes(width))
	for i := range len(values) / width {
		require.NoError(t, a.ReadBlocks(blocks, i))
		quant.Decode(held, row, blocks)
		for j, v := range row {
			bound := 0.0
			if from.LosesPrecision() {
				largest := float32(0)
				for _, w := range values[i*width+j/32*32:][:32] {
					largest = max(largest, w, -w)
				}
				bound = float64(largest) * (0.5/127 + 1.0/2048) // and a scale of 11 bits
			}
			require.InDelta(t, values[i*width+j], v, bound, "%s as %v, row %d, element %d", a.DType, held,
				i, j)
		}
	}
}

func TestKeys(t *testing.T) {
	f, err := Open("testdata/types.gguf")
	require.NoError(t, err)
	defer f.Set.Close()
	require.Equal(t, []string{"a.bool", "a.float", "a.ints", "a.text", "a.texts", "general.alignment",
		"general.architecture"}, f.Keys())
	yes, err := f.Bool("a.bool")
	require.NoError(t, err)
	require.True(t, yes)
	half, err := f.Float("a.float")
	require.NoError(t, err)
	require.Equal(t, 0.5, half)
	n, err := f.Float("general.alignment")
	require.NoError(t, err)
	require.Equal(t, 32.0, n)
	ints, err := f.Ints("a.ints")
	require.NoError(t, err)
	require.Equal(t, []int{-1, 2}, ints)
	word, err := f.Text("a.text")
	require.NoError(t, err)
	require.Equal(t, "café", word)
	words, err := f.Texts("a.texts")
	require.NoError(t, err)
	require.Equal(t, []string{"x", "", "yz"}, words)

	for _, wrong := range []func() error{
		func() error { _, err := f.Int("a.text"); return err },
		func() error { _, err := f.Float("a.ints"); return err },
		func() error { _, err := f.Bool("a.float"); return err },
		func() error { _, err := f.Text("a.texts"); return err },
		func() error { _, err := f.Texts("a.ints"); return err },
		func() error { _, err := f.Ints("a.texts"); return err },
		func() error { _, err := f.Ints("a.bool"); return err },
	} {
		require.ErrorContains(t, wrong(), ", want ")
	}
	_, err = f.Int("a.none")
	require.EqualError(t, err, "key a.none is absent")
}

// llama.cpp's dialect gives the authors' names and config, with Q and K in half-split order.
func TestLLaDA(t *testing.T) {
	f, err := Open("testdata/llada-tiny.gguf")
	require.NoError(t, err)
	defer f.Set.Close()
	data, set, err := f.Model()
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(data, &c))
	for key, want := range map[string]any{"model_type": "llada", "d_model": 64.0, "n_layers": 2.0,
		"n_heads": 4.0, "n_kv_heads": 2.0,
		"mlp_hidden_size": 96.0, "vocab_size": 160.0, "mask_token_id": 150.0,
		"eos_token_id": []any{140.0},
		"weight_tying": false, "rope_theta": 500000.0} {
		require.Equal(t, want, c[key], key)
	}
	require.Contains(t, set.Names(), "model.transformer.blocks.1.ff_proj.weight")
	require.Contains(t, set.Names(), "model.transformer.ff_out.weight")
	for _, name := range set.Names() {
		require.Regexp(t, `^model\.transformer\.`, name)
	}
	stored, _ := f.Set.Get("blk.0.attn_k.weight")
	view, _ := set.Get("model.transformer.blocks.0.k_proj.weight")
	file, err := stored.Floats()
	require.NoError(t, err)
	turned, err := view.Floats()
	require.NoError(t, err)
	const heads, dim, width = 2, 16, 64
	row, blocks := make([]float32, width), make([]byte, 2*18)
	for h := range heads {
		for s := range 2 {
			for j := range dim / 2 {
				i := h*dim + s*dim/2 + j
				from := h*dim + 2*j + s
				require.Equal(t, file[from*width:(from+1)*width], turned[i*width:(i+1)*width], "row %d", i)
				require.NoError(t, view.ReadFloat32s(row, i*width))
				require.Equal(t, file[from*width:(from+1)*width], row)
				require.NoError(t, view.ReadBlocks(blocks, i))
				require.Equal(t, stored.Data[from*36:(from+1)*36], blocks)
			}
		}
	}
	part := make([]float32, 96) // one row and a half, from the middle of the table
	require.NoError(t, view.ReadFloat32s(part, 3*width+32))
	require.Equal(t, turned[3*width+32:][:96], part)
	require.NoError(t, set.ReleaseAll())
}

// diffuse-cpp's dialect has the same names, nothing to reorder, and no tokenizer.
func TestDiffuse(t *testing.T) {
	f := model("diffuse", map[string]any{"diffuse.model_type": "llada",
		"diffuse.mask_token_id": uint32(7)})
	data, set, err := f.Model()
	require.NoError(t, err)
	require.Contains(t, string(data), `"mask_token_id":7`)
	stored, _ := f.Set.Get("blk.0.attn_q.weight")
	view, _ := set.Get("model.transformer.blocks.0.q_proj.weight")
	require.Equal(t, stored.Data, view.Data)
	want, err := stored.Floats()
	require.NoError(t, err)
	got, err := view.Floats()
	require.NoError(t, err)
	require.Equal(t, want, got)

	f = model("diffuse", map[string]any{"diffuse.model_type": "dream",
		"diffuse.mask_token_id": uint32(7)})
	data, set, err = f.Model()
	require.NoError(t, err)
	require.Contains(t, string(data), `"model_type":"Dream"`)
	require.Contains(t, set.Names(), "model.layers.0.self_attn.q_proj.weight")
}

func TestModelRefuses(t *testing.T) {
	for want, f := range map[string]*File{
		`architecture is "gpt2", want llada`: model("gpt2", nil),
		"key diffuse.model_type is absent":   model("diffuse", nil),
		`architecture is "llada2_moe"`: model("diffuse",
			map[string]any{"diffuse.model_type": "llada2_moe"}),
		"key llada.block_count is 0, want 1 to": model("llada",
			map[string]any{"llada.block_count": uint32(0)}),
		"key llada.embedding_length is a text, want an integer": model("llada",
			map[string]any{"llada.embedding_length": "x"}),
		"key llada.rope.freq_base is NaN": model("llada",
			map[string]any{"llada.rope.freq_base": float32(math.NaN())}),
		"key diffusion.shift_logits is true, want false for llada": model("llada",
			map[string]any{"diffusion.shift_logits": true}),
		"key llada.attention.causal is true, want false for llada": model("llada",
			map[string]any{"llada.attention.causal": true}),
		"key llada.attention.causal is a 32-bit integer, want a boolean": model("llada",
			map[string]any{"llada.attention.causal": uint32(0)}),
		`key llada.rope.scaling.type is "linear", want "none" for llada`: model("llada",
			map[string]any{"llada.rope.scaling.type": "linear", "llada.rope.scaling.factor": float32(1)}),
		"key dream.rope.scaling.factor is 4, want 1 for Dream": model("dream",
			map[string]any{"dream.rope.scaling.factor": float32(4)}),
		"key llada.rope.scale_linear is 4, want 1": model("llada",
			map[string]any{"llada.rope.scale_linear": float32(4)}),
		"key llada.rope.dimension_count is 8, want 2": model("llada",
			map[string]any{"llada.rope.dimension_count": uint32(8)}),
		"key llada.rope.dimension_count is 2, want 8": model("llada", map[string]any{
			"llada.rope.dimension_count": uint32(2), "llada.attention.key_length": uint32(8)}),
		"key dream.attention.value_length is 4, want 2": model("dream",
			map[string]any{"dream.attention.value_length": uint32(4)}),
		"key dream.attention.sliding_window is 4, want 0": model("dream",
			map[string]any{"dream.attention.sliding_window": uint32(4)}),
		"key llada.attn_logit_softcapping is 5, want 0": model("llada",
			map[string]any{"llada.attn_logit_softcapping": float32(5)}),
		"key llada.attention.scale is 1, want 0": model("llada",
			map[string]any{"llada.attention.scale": float32(1)}),
		"key dream.attention.scale is a text, want a number": model("dream",
			map[string]any{"dream.attention.scale": "x"}),
		"want [rows, width] with rows a multiple of 2 x 3 heads": model("llada",
			map[string]any{"llada.attention.head_count": uint32(3)}),
		"key tokenizer.ggml.mask_token_id is -1, want 0 to 10737418": model("llada",
			map[string]any{"tokenizer.ggml.mask_token_id": int32(-1)}),
		"architecture is mistral3 without key diffusion.model_type": model("mistral3", nil),
		"key diffusion.model_type is dream, want wedlm or sdar or a2d-qwen3 with": model("qwen3",
			map[string]any{kindKey: "dream"}),
		"architecture is llama without key diffusion.model_type, want a2d-llama": model("llama", nil),
		"key diffusion.model_type is sdar, want sdar_moe with": model("qwen3moe",
			map[string]any{kindKey: "sdar"}),
		"key diffusion.model_type is a 32-bit integer, want a text": model("qwen2",
			map[string]any{kindKey: uint32(1)}),
		`architecture is "qwen2"`: model("diffuse",
			map[string]any{diffuseKey: "qwen2"}),
		"key diffusion.block_size is -8, want 0 to": model("mistral3",
			map[string]any{kindKey: nemotron.kind, blockKey: int32(-8)}),
		"key diffusion.expand_token_id is -2, want 0 to": model("dream",
			map[string]any{expandKey: int32(-2)}),
		`key dream.rope.scaling.type is "longrope", want none, linear or yarn`: model("dream",
			map[string]any{"dream.rope.scaling.type": "longrope"}),
		"key mistral3.rope.scaling.yarn_beta_slow is NaN": model("mistral3", map[string]any{
			kindKey: nemotron.kind, "mistral3.rope.scaling.type": "yarn",
			"mistral3.rope.scaling.yarn_beta_slow": float32(math.NaN())}),
		"key mistral3.rope.scaling.original_context_length is 0, want 1": model("mistral3",
			map[string]any{kindKey: nemotron.kind, "mistral3.rope.scaling.type": "yarn",
				"mistral3.rope.scaling.original_context_length": uint32(0)}),
	} {
		_, _, err := f.Model()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "m.gguf: ")
	}
	bare, err := Parse(build(nil), "m.gguf")
	require.NoError(t, err)
	_, _, err = bare.Model()
	require.ErrorContains(t, err, "key general.architecture is absent")
}

// Keys that llama.cpp's converters write beside sizes are known. Others of the architecture are in
// the config.json, whose loader notes them by name.
func TestUnknownKeys(t *testing.T) {
	f := model("llada", map[string]any{"llada.attention.causal": false,
		"llada.attention.key_length": uint32(2), "llada.attention.value_length": uint32(2),
		"llada.rope.dimension_count": uint32(2), "llada.rope.scaling.type": "none",
		"llada.rope.scaling.finetuned": false, "llada.vocab_size": uint32(8),
		"llada.attention.layer_norm_rms_epsilon": float32(1e-5), "general.foo": "x",
		"llada.attention.layer_norm_epsilon": float32(0.1), "llada.foo": uint32(5)})
	data, _, err := f.Model()
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(data, &c))
	require.Equal(t, 2.0, c["head_dim"])
	for key := range c {
		if strings.Contains(key, ".") {
			require.Contains(t, []string{"llada.foo", "llada.attention.layer_norm_epsilon"}, key)
		}
	}
	require.Contains(t, c, "llada.foo")
	require.Contains(t, c, "llada.attention.layer_norm_epsilon")
}

func TestNamesMeet(t *testing.T) {
	f := model("llada", nil)
	_, err := f.Set.View(func(string, *weights.Tensor) (string, *weights.Tensor, error) {
		return "same", &weights.Tensor{Name: "x"}, nil
	})
	require.ErrorContains(t, err, `are both "same"`)
	require.True(t, slices.IsSorted(f.Keys()))
}
