package llama

// The names of a Model's tensors in published checkpoints, by the tags of its fields, which are
// those of Qwen2, Qwen3 and Llama below the trunk (weights.BindOptions.Names).
var (
	qwenNames = map[string]string{
		"embed_tokens": "model.embed_tokens",
		"layers":       "model.layers",
		"norm":         "model.norm",
	}

	nemotronNames = map[string]string{
		"embed_tokens":   "encoder.embed_tokens",
		"layers":         "encoder.layers",
		"norm":           "encoder.norm",
		"lm_head.weight": "diffusion_head.weight",
	}

	lladaNames = map[string]string{
		"embed_tokens":             "model.transformer.wte",
		"layers":                   "model.transformer.blocks",
		"norm":                     "model.transformer.ln_f",
		"lm_head.weight":           "model.transformer.ff_out.weight",
		"input_layernorm":          "attn_norm",
		"self_attn.q_proj":         "q_proj",
		"self_attn.k_proj":         "k_proj",
		"self_attn.v_proj":         "v_proj",
		"self_attn.o_proj":         "attn_out",
		"post_attention_layernorm": "ff_norm",
		"mlp":                      "",
		"gate_proj":                "ff_proj",
		"down_proj":                "ff_out",
	}

	llada2Names = map[string]string{
		"embed_tokens":     "model.word_embeddings",
		"layers":           "model.layers",
		"norm":             "model.norm",
		"self_attn.q_proj": "attention.query_key_value",
		"self_attn.q_norm": "attention.query_layernorm",
		"self_attn.k_norm": "attention.key_layernorm",
		"self_attn.o_proj": "attention.dense",
	}
)
