package llama

import (
	"path/filepath"
	"strings"

	"unmask/weights"
)

// The families and their config.json files.

// llada reads the config.json of GSAI-ML/LLaDA-8B-Base, -Instruct and LLaDA-1.5 (Nie et al. 2025,
// "Large language diffusion models"; configuration_llada.py).
func (f *file) llada(set *weights.Set) Config {
	f.only(map[string]any{"layer_norm_type": "rms", "block_type": "llama", "activation_type": "silu",
		"rope":  true,
		"alibi": false, "include_bias": false, "include_qkv_bias": false, "attention_layer_norm": false,
		"scale_logits": false, "input_emb_norm": false, "block_group_size": 1.0,
		"bias_for_layer_norm":    false,
		"layer_norm_with_affine": true, "rope_full_precision": true})
	c := Config{
		Hidden: f.whole("d_model", 0, maxSize), Layers: f.whole("n_layers", 0, maxLayers),
		Heads: f.whole("n_heads", 0, maxSize), MLP: f.whole("mlp_hidden_size", 0, maxSize),
		Length: f.whole("max_sequence_length", 4096, maxLength), Theta: f.number("rope_theta", 10000),
		Eps: float32(f.number("rms_norm_eps", 1e-5)), Tied: f.flag("weight_tying"),
	}
	c.Rows = rows(set, "model.transformer.wte.weight", f.whole("embedding_size", c.Rows, 1<<24))
	c.Vocab = f.whole("vocab_size", c.Rows, c.Rows)
	f.heads(&c, "n_kv_heads")
	return c
}

// shifted are the kinds in which row i predicts position i+1, as in the autoregressive models that
// they were made from.
var shifted = map[string]bool{"Dream": true, "Fast_dLLM_Qwen": true}

// qwen reads that of models made from Qwen2.5 and Qwen3, and of iLLaDA:
//
//	Dream              Dream-org/Dream-v0-*-7B, Dream-Coder-v0-Instruct-7B, apple/DiffuCoder-7B-*;
//	                   with block_size Dream-org/DreamReasoner-8B, which is not shifted
//	a2d-qwen2, -qwen3  dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-*, Qwen3-0.6B-diffusion-*
//	sdar               JetLM/SDAR-*-Chat (Cheng et al. 2025, "SDAR")
//	Fast_dLLM_Qwen     Efficient-Large-Model/Fast_dLLM_v2_* (Wu et al. 2025, "Fast-dLLM v2")
//	illada             GSAI-ML/iLLaDA-8B-*
func (f *file) qwen(set *weights.Set, kind string) Config {
	f.only(map[string]any{"hidden_act": "silu", "use_sliding_window": false, "attention_dropout": 0.0,
		"mlp_bias": false})
	const first = "model.layers.0.self_attn."
	_, biased := set.Get(first + "q_proj.bias")
	_, normed := set.Get(first + "q_norm.weight")
	c := Config{
		Hidden: f.whole("hidden_size", 0, maxSize), Layers: f.whole("num_hidden_layers", 0, maxLayers),
		Heads: f.whole("num_attention_heads", 0, maxSize), MLP: f.whole("intermediate_size", 0, maxSize),
		Length: f.whole("max_position_embeddings", 4096, maxLength), Theta: f.number("rope_theta", 10000),
		Eps: float32(f.number("rms_norm_eps", 1e-6)), Tied: f.flag("tie_word_embeddings"),
		Biased: biased, Normed: normed, Shift: shifted[kind],
	}
	switch {
	case kind == "sdar":
		c.Block = f.whole("block_size", 4, maxLength)
	case kind == "Fast_dLLM_Qwen":
		c.Block = f.whole("bd_size", 32, maxLength)
	case bd3lm(f.name):
		c.Block = f.whole("block_size", 32, maxLength)
	case f.has("block_size"):
		c.Block, c.Shift = f.whole("block_size", 0, maxLength), false
	}
	f.scaled(&c)
	c.Rows = rows(set, "model.embed_tokens.weight", f.whole("vocab_size", 0, 1<<24))
	c.Vocab = f.whole("vocab_size", c.Rows, c.Rows)
	f.heads(&c, "num_key_value_heads")
	return c
}

// scaled reads the scaling of rotary frequencies, which may add positions.
func (f *file) scaled(c *Config) {
	if f.err == nil {
		c.Rope = f.rope(c.Length, ropeTypes...)
		c.Length = max(c.Length, min(int(c.Rope.Factor*float64(c.Rope.Length)), maxLength))
	}
}

// bd3lm reports whether a model of kind a2d-* was trained with blocks, which shows in its published
// name but not in its config.json.
func bd3lm(name string) bool { return strings.Contains(filepath.Base(name), "-bd3lm") }

// heads reads the keys that all families have.
func (f *file) heads(c *Config, kv string) {
	c.KV = f.whole(kv, max(c.Heads, 1), maxSize)
	if f.err != nil {
		return
	}
	if !f.has("head_dim") && c.Hidden%c.Heads != 0 {
		f.fail("%d heads of a width of %d, want a divisor", c.Heads, c.Hidden)
		return
	}
	c.HeadDim = f.whole("head_dim", c.Hidden/c.Heads, maxSize)
	c.Rotary = c.HeadDim
}
