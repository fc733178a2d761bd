package gguf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"unmask/weights"
)

// lfm2 is LFM2.5-Encoder-230M, -350M and -350M-Diffusion, as llama.cpp's converter writes them.
// Their architecture is also that of LFM2, which writes from left to right: the key
// attention.causal tells the two apart. Layers without key heads are convolutions.
var lfm2 = family{
	kind: "lfm2",
	sizeNames: map[string]string{
		"embedding_length":     "hidden_size",
		"block_count":          "num_hidden_layers",
		"attention.head_count": "num_attention_heads",
		"feed_forward_length":  "intermediate_size",
		"context_length":       "max_position_embeddings",
	},
	writeConfig: (*modelKeys).lfm2Config,
	blockPrefix: "lfm2.layers.%s.",
	tensorNames: map[string]string{
		"token_embd":         "lfm2.embed_tokens",
		"token_embd_norm":    "lfm2.embedding_norm",
		"attn_norm":          "operator_norm",
		"attn_q":             "self_attn.q_proj",
		"attn_k":             "self_attn.k_proj",
		"attn_v":             "self_attn.v_proj",
		"attn_output":        "self_attn.out_proj",
		"attn_q_norm":        "self_attn.q_layernorm",
		"attn_k_norm":        "self_attn.k_layernorm",
		"shortconv.in_proj":  "conv.in_proj",
		"shortconv.conv":     "conv.conv",
		"shortconv.out_proj": "conv.out_proj",
		"ffn_norm":           "ffn_norm",
		"ffn_gate":           "feed_forward.w1",
		"ffn_up":             "feed_forward.w3",
		"ffn_down":           "feed_forward.w2",
	},
	suffixes: []string{".weight"},
}

// keyHeads is the key with the number of key heads, for LFM2 one for each layer.
const keyHeads = "attention.head_count_kv"

// lfm2Config returns what config.json has beside sizes.
func (k *modelKeys) lfm2Config() map[string]any {
	causal := k.fullName("attention.causal")
	isCausal, err := k.Bool(causal)
	if !k.Has(causal) || isCausal {
		k.keepError(fmt.Errorf("architecture is lfm2 without %s false: other models of this "+
			"architecture write from left to right", causal))
	}
	k.keepError(err)
	if _, ok := k.Set.Get("dense_2.weight"); ok {
		k.keepError(errors.New("tensor dense_2.weight: LFM2-ColBERT is not read"))
	}
	if !k.tiedHead {
		k.keepError(errors.New("there is a tensor output.weight, want none: the embedding is the head"))
	}

	var layers []string
	heads := 0
	list, err := k.Ints(k.fullName(keyHeads))
	k.keepError(err)
	for _, n := range list {
		if n == 0 {
			layers = append(layers, "conv")
			continue
		}
		layers = append(layers, "full_attention")
		if heads != 0 && n != heads {
			k.keepError(fmt.Errorf("key %s.%s has %d and %d, want one number of heads and 0", k.arch,
				keyHeads, heads, n))
		}
		heads = n
	}
	values := map[string]any{
		"architectures":            []string{"Lfm2BidirectionalForMaskedLM"},
		"layer_types":              layers,
		"num_key_value_heads":      heads,
		"norm_eps":                 k.positiveFloat("attention.layer_norm_rms_epsilon", 1e-5),
		"rope_theta":               k.positiveFloat("rope.freq_base", 1000000),
		"conv_L_cache":             k.positiveInt("shortconv.l_cache"),
		"block_auto_adjust_ff_dim": false, // the width in the file is the width
		"tie_word_embeddings":      true,
		"vocab_size":               k.vocabularySize(),
		"mask_token_id":            k.maskToken(16),
		"eos_token_id":             k.endTokens(7),
		"pad_token_id":             k.specialToken("padding", 0),
		"bos_token_id":             k.specialToken("bos", 1),
	}
	if heads == 0 {
		delete(values, "num_key_value_heads") // convolutions alone
	}
	if k.Has(kindKey) {
		kind, err := k.Text(kindKey)
		k.keepError(err)
		values["diffusion_model_type"] = kind
	}
	return values
}

// convFilter returns a filter [width, taps] of the file as its authors publish it, [width, 1,
// taps].
func convFilter(t *weights.Tensor) *weights.Tensor {
	if len(t.Shape) != 2 {
		return t
	}
	view := *t
	view.Shape = []int{t.Shape[0], 1, t.Shape[1]}
	return &view
}

// prepareLFM2 gives config.json the names and values that other families have: the width of MLPs is
// that of the tensors, which is not always what config.json says.
func (c *converter) prepareLFM2() {
	c.require(strings.Contains(string(c.config["architectures"]), "Lfm2BidirectionalForMaskedLM"),
		"architectures", "Lfm2BidirectionalForMaskedLM")
	gate, ok := c.set.Get("lfm2.layers.0.feed_forward.w1.weight")
	if !ok || len(gate.Shape) != 2 {
		c.err = cmp.Or(c.err, errors.New("tensor lfm2.layers.0.feed_forward.w1.weight is missing"))
		return
	}
	c.config["intermediate_size"] = json.RawMessage(strconv.Itoa(gate.Shape[0]))
	for name, older := range map[string]string{
		"rms_norm_eps":        "norm_eps",
		"num_attention_heads": "num_heads",
	} {
		if !c.hasConfig(name) {
			c.config[name] = c.config[older]
		}
	}
	if !c.hasConfig("rope_theta") {
		c.config["rope_theta"] = json.RawMessage("1000000")
	}
	c.findTokenizerMask()
}

// lfm2Keys returns the keys of the network beside sizes.
func (c *converter) lfm2Keys(arch string) []Key {
	// A layer without keys is a convolution, which llama.cpp tells by a number of heads of 0.
	heads := make([]int32, c.blocks)
	for i := range heads {
		name := fmt.Sprintf("lfm2.layers.%d.self_attn.k_proj.weight", i)
		if _, ok := c.set.Get(name); ok {
			heads[i] = int32(c.configSize("num_key_value_heads"))
		}
	}
	keys := []Key{
		{arch + "." + keyHeads, heads},
		{arch + ".attention.causal", false},
		{arch + ".vocab_size", uint32(c.configSize("vocab_size"))},
		{arch + ".shortconv.l_cache", uint32(c.configSize("conv_L_cache"))},
	}
	template, err := c.chatTemplate()
	c.err = cmp.Or(c.err, err)
	if strings.Contains(template, "[Question]") { // the model that writes answers
		keys = append(keys, Key{kindKey, "lfm2-diffusion"})
	}
	return keys
}

// chatTemplate returns the chat template of the folder, "" if it has none.
func (c *converter) chatTemplate() (string, error) {
	config, err := readTokenizerConfig(c.dir)
	if err != nil {
		return "", err
	}
	return readChatTemplate(c.dir, config)
}

// isFilter reports whether a tensor is a convolution's filter [width, 1, taps].
func (c *converter) isFilter(name string, t *weights.Tensor) bool {
	return strings.HasSuffix(name, ".shortconv.conv.weight") && len(t.Shape) == 3 &&
		t.Shape[1] == 1 && t.DType.IsFloat()
}

// filterTensor returns a filter as a matrix of float32, as llama.cpp has it.
func (c *converter) filterTensor(name string, t *weights.Tensor) Tensor {
	return Tensor{
		Name:  name,
		DType: weights.F32,
		Shape: []int{t.Shape[0], t.Shape[2]},
		Write: func(w io.Writer) error {
			return c.writeTensor(w, t, weights.F32, func(i int) int { return i })
		},
	}
}
