package llama

import (
	"cmp"

	"unmask/weights"
)

// The families and their config.json files.

// readLLaDA reads the config.json of GSAI-ML/LLaDA-8B-Base, -Instruct and LLaDA-1.5 (Nie et al.
// 2025, "Large language diffusion models"; configuration_llada.py).
func (f *file) readLLaDA(set *weights.Set) Config {
	f.RequireValues(map[string]any{"layer_norm_type": "rms", "block_type": "llama",
		"activation_type": "silu",
		"rope":            true,
		"alibi":           false, "include_bias": false, "include_qkv_bias": false,
		"attention_layer_norm": false,
		"scale_logits":         false, "input_emb_norm": false, "block_group_size": 1.0,
		"bias_for_layer_norm": false, "rope_scaling": nil, "partial_rotary_factor": 1.0,
		"layer_norm_with_affine": true, "rope_full_precision": true, "multi_query_attention": false})
	c := Config{
		Hidden: f.BoundedInt("d_model", 0, 1, maxSize), Layers: f.BoundedInt("n_layers", 0, 1, maxLayers),
		Heads:  f.BoundedInt("n_heads", 0, 1, maxSize),
		MLP:    f.BoundedInt("mlp_hidden_size", 0, 1, maxSize),
		Length: f.BoundedInt("max_sequence_length", 4096, 1, maxLength),
		Theta:  f.PositiveNumber("rope_theta", 10000),
		Eps:    float32(f.PositiveNumber("rms_norm_eps", 1e-5)), Tied: f.Bool("weight_tying", false),
	}
	c.EmbeddingRows = embeddingRows(set, "model.transformer.wte.weight",
		f.BoundedInt("embedding_size", c.EmbeddingRows, 1, 1<<24))
	c.Vocab = f.BoundedInt("vocab_size", c.EmbeddingRows, 1, c.EmbeddingRows)
	f.readHeads(&c, "n_kv_heads")
	return c
}

// readQwen reads that of models made from Qwen2.5, Qwen3 and Llama.
func (f *file) readQwen(set *weights.Set) Config {
	f.RequireValues(map[string]any{"hidden_act": "silu", "use_sliding_window": false,
		"mlp_bias":  false,
		"use_mrope": false, "partial_rotary_factor": 1.0, "pretraining_tp": 1.0})
	if f.checkFullAttention(); f.kind.blockKey == "" && f.Has("block_size") {
		f.Fail("block_size is %s, want null: %s has no blocks of its own", f.Keys["block_size"],
			f.kind.name)
	}
	trunk := cmp.Or(f.kind.trunkPrefix, "model") + "."
	first := trunk + "layers.0.self_attn."
	_, biased := set.Get(first + "q_proj.bias")
	_, normed := set.Get(first + "q_norm.weight")
	c := f.readSizes(set, trunk+"embed_tokens.weight", 1e-6)
	c.QKVBias = biased
	c.QKNorm = normed
	f.readScaling(&c)
	return c
}

// readSizes reads the sizes under the names of transformers. eps is that of a file without one.
func (f *file) readSizes(set *weights.Set, embedding string, eps float64) Config {
	c := Config{
		Hidden: f.BoundedInt("hidden_size", 0, 1, maxSize),
		Layers: f.BoundedInt("num_hidden_layers", 0, 1, maxLayers),
		Heads:  f.BoundedInt("num_attention_heads", 0, 1, maxSize),
		MLP:    f.BoundedInt("intermediate_size", 0, 1, maxSize),
		Length: f.BoundedInt("max_position_embeddings", 4096, 1, maxLength),
		Theta:  f.PositiveNumber("rope_theta", 10000),
		Eps:    float32(f.PositiveNumber("rms_norm_eps", eps)),
	}
	// A head in the files counts, as in transformers. CoDA's class says true, and its program does
	// not tie.
	_, headed := set.Get(cmp.Or(f.kind.tensorNames["lm_head.weight"], "lm_head.weight"))
	c.Tied = (f.Bool("tie_word_embeddings", false) || f.kind.name == "CoDA") && !headed
	c.EmbeddingRows = embeddingRows(set, embedding, f.BoundedInt("vocab_size", 0, 1, 1<<24))
	c.Vocab = f.BoundedInt("vocab_size", c.EmbeddingRows, 1, c.EmbeddingRows)
	f.readHeads(&c, "num_key_value_heads")
	return c
}

// checkFullAttention refuses the keys of layers that see a window only.
func (f *file) checkFullAttention() {
	var layers []string
	f.Read("layer_types", &layers, "a list of texts")
	for _, l := range layers {
		if l != "full_attention" {
			f.Fail("layer_types has %.40q, want full_attention: this network computes no other", l)
		}
	}
}

// readScaling reads the scaling of rotary frequencies, which may add positions.
func (f *file) readScaling(c *Config) {
	if f.Err == nil {
		c.Rope = f.readRope(c.Length, ropeTypes...)
		c.Length = max(c.Length, min(int(c.Rope.Factor*float64(c.Rope.Length)), maxLength))
	}
}

// readHeads reads the keys that all families have.
func (f *file) readHeads(c *Config, kv string) {
	c.KVHeads = f.BoundedInt(kv, max(c.Heads, 1), 1, maxSize)
	if f.Err != nil {
		return
	}
	if !f.Has("head_dim") && c.Hidden%c.Heads != 0 {
		f.Fail("%d heads of a width of %d, want a divisor", c.Heads, c.Hidden)
		return
	}
	c.HeadDim = f.BoundedInt("head_dim", c.Hidden/c.Heads, 1, maxSize)
	c.Rotary = c.HeadDim
}
