package gguf

import "fmt"

// llada2 is LLaDA2.0-mini, LLaDA2.1-mini and larger ones. llama.cpp has no such architecture;
// nurllama writes these files (nurl-lang/nurl#548), and it and diffuse-rs read them.
var llada2 = family{
	kind: "llada2_moe",
	sizeNames: mergeNames(qwenSizes, map[string]string{
		"expert_count":      "num_experts",
		"expert_used_count": "num_experts_per_tok",
		expertWidth:         "moe_intermediate_size",
	}),
	writeConfig: (*modelKeys).llada2Config,
	blockPrefix: "model.layers.%s.",
	tensorNames: mergeNames(expertNames, map[string]string{
		"token_embd":     "model.word_embeddings",
		"output_norm":    "model.norm",
		"output":         "lm_head",
		"attn_norm":      "input_layernorm",
		"attn_qkv":       "attention.query_key_value",
		"attn_q_norm":    "attention.query_layernorm",
		"attn_k_norm":    "attention.key_layernorm",
		"attn_output":    "attention.dense",
		"ffn_norm":       "post_attention_layernorm",
		"ffn_gate_inp":   "mlp.gate",
		"ffn_gate":       "mlp.gate_proj",
		"ffn_up":         "mlp.up_proj",
		"ffn_down":       "mlp.down_proj",
		"ffn_gate_shexp": "mlp.shared_experts.gate_proj",
		"ffn_up_shexp":   "mlp.shared_experts.up_proj",
		"ffn_down_shexp": "mlp.shared_experts.down_proj",
	}),
	// its name ends in neither .weight nor .bias
	wholeNames: map[string]string{"exp_probs_b.bias": "mlp.gate.expert_bias"},
	suffixes:   []string{".weight", ".bias"},
}

// The mask and the end of LLaDA2's vocabulary, and a sigmoid among gating functions.
const (
	llada2Mask    = 156895
	llada2End     = 156892
	sigmoidGating = 2
)

// llada2Config returns what config.json has beside sizes.
func (k *modelKeys) llada2Config() map[string]any {
	headDim := k.positiveInt("attention.key_length")
	shared := k.naturalInt(k.fullName("expert_shared_count"))
	if key := k.fullName("expert_shared_feed_forward_length"); k.Has(key) {
		width := shared * k.positiveInt(expertWidth)
		if got := k.naturalInt(key); got != width {
			k.keepError(fmt.Errorf("key %s is %d, want %d, that of %d experts", key, got, width, shared))
		}
	}
	rotary := k.positiveInt("rope.dimension_count")
	values := map[string]any{
		"vocab_size":            k.vocabularySize(),
		"rope_theta":            k.positiveFloat("rope.freq_base", 600000),
		"partial_rotary_factor": float64(rotary) / float64(max(headDim, 1)),
		"rms_norm_eps":          k.positiveFloat("attention.layer_norm_rms_epsilon", 1e-6),
		"tie_word_embeddings":   k.tiedHead,
		"hidden_act":            "silu",
		"norm_topk_prob":        true,
		"score_function":        "sigmoid",
		"use_qk_norm":           true,
		"routed_scaling_factor": k.positiveFloat("expert_weights_scale", 1),
		"n_group":               k.positiveInt("expert_group_count"),
		"topk_group":            k.positiveInt("expert_group_used_count"),
		"num_shared_experts":    shared,
		"first_k_dense_replace": k.naturalInt(k.fullName("leading_dense_block_count")),
		"mask_token_id":         k.maskToken(llada2Mask),
		"eos_token_id":          k.endTokens(llada2End),
		"pad_token_id":          k.specialToken("padding", llada2End),
	}
	if k.Has(blockKey) {
		values["block_size"] = k.naturalInt(blockKey)
	}
	return values
}

// llada2Keys returns the keys of the network beside sizes. Readers take a missing one for another
// value than the network's, so all are there.
func (c *converter) llada2Keys(arch string) []Key {
	c.require(c.configText("score_function") != "softmax", "score_function", "sigmoid")
	c.require(!c.hasConfig("norm_topk_prob") || string(c.config["norm_topk_prob"]) == "true",
		"norm_topk_prob", "true")
	number := func(name string, missing int) uint32 {
		if !c.hasConfig(name) {
			return uint32(missing)
		}
		return uint32(c.configNumber(name))
	}
	scale := float32(1)
	if c.hasConfig("routed_scaling_factor") {
		scale = float32(c.configNumber("routed_scaling_factor"))
	}
	shared := number("num_shared_experts", 0)
	keys := []Key{
		{arch + ".attention.causal", false},
		{shiftKey, false},
		{arch + ".vocab_size", uint32(c.configSize("vocab_size"))},
		{arch + ".leading_dense_block_count", number("first_k_dense_replace", 0)},
		{arch + ".expert_shared_count", shared},
		{arch + ".expert_shared_feed_forward_length",
			shared * uint32(c.configSize("moe_intermediate_size"))},
		{arch + ".expert_weights_scale", scale},
		{arch + ".expert_weights_norm", true},
		{arch + ".expert_gating_func", uint32(sigmoidGating)},
		{arch + ".expert_group_count", number("n_group", 1)},
		{arch + ".expert_group_used_count", number("topk_group", 1)},
	}
	if c.hasConfig("block_size") {
		keys = append(keys, Key{blockKey, uint32(c.configSize("block_size"))})
	}
	return keys
}
