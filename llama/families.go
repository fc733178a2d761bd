package llama

import (
	"cmp"

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
		"layer_norm_with_affine": true, "rope_full_precision": true, "multi_query_attention": false})
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

// qwen reads that of models made from Qwen2.5, Qwen3 and Llama.
func (f *file) qwen(set *weights.Set) Config {
	f.only(map[string]any{"hidden_act": "silu", "use_sliding_window": false, "mlp_bias": false,
		"use_mrope": false, "partial_rotary_factor": 1.0, "pretraining_tp": 1.0})
	if f.fullAttention(); f.kind.sized == "" && f.has("block_size") {
		f.fail("block_size is %s, want null: %s has no blocks of its own", f.values["block_size"],
			f.kind.name)
	}
	trunk := cmp.Or(f.kind.trunk, "model") + "."
	first := trunk + "layers.0.self_attn."
	_, biased := set.Get(first + "q_proj.bias")
	_, normed := set.Get(first + "q_norm.weight")
	c := f.sizes(set, trunk+"embed_tokens.weight", 1e-6)
	c.Biased, c.Normed = biased, normed
	if f.kind.name == "CoDA" { // its class says true, and its program does not tie
		_, headed := set.Get("lm_head.weight")
		c.Tied = !headed
	}
	f.scaled(&c)
	return c
}

// sizes reads the sizes under the names of transformers. eps is that of a file without one.
func (f *file) sizes(set *weights.Set, embedding string, eps float64) Config {
	c := Config{
		Hidden: f.whole("hidden_size", 0, maxSize), Layers: f.whole("num_hidden_layers", 0, maxLayers),
		Heads: f.whole("num_attention_heads", 0, maxSize), MLP: f.whole("intermediate_size", 0, maxSize),
		Length: f.whole("max_position_embeddings", 4096, maxLength), Theta: f.number("rope_theta", 10000),
		Eps: float32(f.number("rms_norm_eps", eps)), Tied: f.flag("tie_word_embeddings"),
	}
	c.Rows = rows(set, embedding, f.whole("vocab_size", 0, 1<<24))
	c.Vocab = f.whole("vocab_size", c.Rows, c.Rows)
	f.heads(&c, "num_key_value_heads")
	return c
}

// fullAttention refuses the keys of layers that see a window only.
func (f *file) fullAttention() {
	var layers []string
	f.read("layer_types", &layers, "a list of texts")
	for _, l := range layers {
		if l != "full_attention" {
			f.fail("layer_types has %.40q, want full_attention: this network computes no other", l)
		}
	}
}

// scaled reads the scaling of rotary frequencies, which may add positions.
func (f *file) scaled(c *Config) {
	if f.err == nil {
		c.Rope = f.rope(c.Length, ropeTypes...)
		c.Length = max(c.Length, min(int(c.Rope.Factor*float64(c.Rope.Length)), maxLength))
	}
}

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
