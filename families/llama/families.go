package llama

import (
	"cmp"

	"unmask/weights"
)

// The families' config.json files, but for those with experts (experts.go) and the causal ones
// (causal.go).

// readLLaDA reads the config.json of GSAI-ML/LLaDA-8B-Base, -Instruct and LLaDA-1.5 (Nie et al.
// 2025, "Large language diffusion models"; configuration_llada.py).
func (f *file) readLLaDA(set *weights.Set) Config {
	f.RequireValues(map[string]any{
		"activation_type":        "silu",
		"alibi":                  false,
		"attention_layer_norm":   false,
		"bias_for_layer_norm":    false,
		"block_group_size":       1.0,
		"block_type":             "llama",
		"include_bias":           false,
		"include_qkv_bias":       false,
		"input_emb_norm":         false,
		"layer_norm_type":        "rms",
		"layer_norm_with_affine": true,
		"multi_query_attention":  false,
		"partial_rotary_factor":  1.0,
		"rope":                   true,
		"rope_full_precision":    true,
		"rope_scaling":           nil,
		"scale_logits":           false,
	})
	c := Config{
		Hidden: f.BoundedInt("d_model", 0, 1, maxSize),
		Layers: f.BoundedInt("n_layers", 0, 1, maxLayers),
		Heads:  f.BoundedInt("n_heads", 0, 1, maxSize),
		MLP:    f.BoundedInt("mlp_hidden_size", 0, 1, maxSize),
		Length: f.BoundedInt("max_sequence_length", 4096, 1, maxLength),
		Theta:  f.PositiveNumber("rope_theta", 10000),
		Eps:    float32(f.PositiveNumber("rms_norm_eps", 1e-5)),
		Tied:   f.Bool("weight_tying", false),
	}
	const embedding = "model.transformer.wte.weight"
	// without embedding_size the authors' class makes vocab_size rows
	rows := f.BoundedInt("vocab_size", embeddingRows(set, embedding, 0), 1, 1<<24)
	rows = f.BoundedInt("embedding_size", rows, 1, 1<<24)
	c.EmbeddingRows = embeddingRows(set, embedding, rows)
	c.Vocab = f.BoundedInt("vocab_size", c.EmbeddingRows, 1, c.EmbeddingRows)
	f.readHeads(&c, "n_kv_heads")
	return c
}

// readQwen reads the config.json of models made from Qwen2.5, Qwen3 and Llama. The tensors say
// which of them it is: Qwen2.5's queries have biases, Qwen3's heads have norms.
func (f *file) readQwen(set *weights.Set) Config {
	f.RequireValues(map[string]any{
		"hidden_act":            "silu",
		"mlp_bias":              false,
		"partial_rotary_factor": 1.0,
		"pretraining_tp":        1.0,
		"use_mrope":             false,
		"use_sliding_window":    false,
	})
	f.checkFullAttention()
	if f.kind.blockKey == "" && f.Has("block_size") {
		f.Fail("block_size is %s, want null: %s has no blocks of its own", f.Keys["block_size"],
			f.kind.name)
	}
	trunk := cmp.Or(f.kind.trunkPrefix, "model") + "."
	c := f.readSizes(set, trunk+"embed_tokens.weight", 1e-6)
	_, c.QKVBias = set.Get(trunk + "layers.0.self_attn.q_proj.bias")
	_, c.QKNorm = set.Get(trunk + "layers.0.self_attn.q_norm.weight")
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
	// A head in the files counts, as in transformers. CoDA's class says that the embedding is the
	// head, but its files have a head and its program uses that.
	_, hasHead := set.Get(cmp.Or(f.kind.tensorNames["lm_head.weight"], "lm_head.weight"))
	isTied := f.Bool("tie_word_embeddings", false)
	c.Tied = (isTied || f.kind.name == "CoDA") && !hasHead
	if isTied && hasHead || f.Has("rope_parameters") {
		c.Revision = "0.2"
	}
	c.EmbeddingRows = embeddingRows(set, embedding, f.BoundedInt("vocab_size", 0, 1, 1<<24))
	c.Vocab = f.BoundedInt("vocab_size", c.EmbeddingRows, 1, c.EmbeddingRows)
	f.readHeads(&c, "num_key_value_heads")
	return c
}

// checkFullAttention refuses layers that see a window only.
func (f *file) checkFullAttention() {
	var layerTypes []string
	f.Read("layer_types", &layerTypes, "a list of texts")
	for _, layerType := range layerTypes {
		if layerType != "full_attention" {
			f.Fail("layer_types has %.40q, want full_attention: this network computes no other", layerType)
		}
	}
}

// readScaling reads the scaling of rotary frequencies, which may add positions: a context that was
// stretched by a factor is as long as the factor says, whatever max_position_embeddings is.
func (f *file) readScaling(c *Config) {
	if f.Err == nil {
		c.Rope = f.readRope(c.Length, ropeTypes...)
		c.Length = max(c.Length, min(int(c.Rope.Factor*float64(c.Rope.Length)), maxLength))
	}
}

// readHeads reads the keys of attention heads, which all families have. kvKey is the key of the
// number of key and value heads.
func (f *file) readHeads(c *Config, kvKey string) {
	c.KVHeads = f.BoundedInt(kvKey, max(c.Heads, 1), 1, maxSize)
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
