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

	lfm2Names = map[string]string{
		"embed_tokens":             "lfm2.embed_tokens",
		"layers":                   "lfm2.layers",
		"norm":                     "lfm2.embedding_norm",
		"input_layernorm":          "operator_norm",
		"self_attn.q_norm":         "self_attn.q_layernorm",
		"self_attn.k_norm":         "self_attn.k_layernorm",
		"self_attn.o_proj":         "self_attn.out_proj",
		"post_attention_layernorm": "ffn_norm",
		"mlp":                      "feed_forward",
		"gate_proj":                "w1",
		"up_proj":                  "w3",
		"down_proj":                "w2",
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
