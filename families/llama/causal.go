package llama

import (
	"bytes"
	"io/fs"
	"slices"

	"unmask/model"
	"unmask/weights"
)

// The config.json files of models whose final tokens are computed causally, and of the one whose
// holes grow. The networks' passes are in feed.go.

const nemotronKind = "nemotron_labs_diffusion"

// nemotron reads nvidia/Nemotron-Labs-Diffusion-3B, -8B and -14B and their -Base: a Llama with YaRN
// and queries that grow with the position, as Ministral 3 has them.
func (f *file) nemotron(set *weights.Set) Config {
	f.RequireValues(map[string]any{"hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
		"attention_dropout": 0.0, "partial_rotary_factor": 1.0, "sliding_window": nil})
	paradigm := f.Text("dlm_paradigm")
	if !slices.Contains([]string{"", "bidirectional", "autoregressive"}, paradigm) {
		f.Fail("dlm_paradigm is %q, want bidirectional or autoregressive", paradigm)
	}
	c := f.sizes(set, "encoder.embed_tokens.weight", 1e-5)
	c.Block, c.Causal = f.BoundedInt("block_size", 32, 1, maxLength), model.NextToken
	if paradigm == "autoregressive" {
		c.Block = 1
	}
	if f.Err == nil {
		c.Rope = f.rope(c.Length, "yarn")
	}
	return c
}

// wedlmMask is the mask of WeDLM where config.json has none (its configuration class).
const wedlmMask = "151665"

// wedlm reads tencent/WeDLM-7B-* (Qwen2.5) and -8B-* (Qwen3).
func (f *file) wedlm(set *weights.Set) Config {
	f.RequireValues(map[string]any{"rope_scaling": nil})
	if !f.Has("mask_token_id") {
		f.Keys["mask_token_id"] = []byte(wedlmMask)
	}
	c := f.qwen(set)
	biased, normed := f.Bool("attention_bias", true), f.Bool("qk_norm", false)
	if c.Biased != biased {
		f.Fail("attention_bias is %v, want %v, as the tensors have it", biased, c.Biased)
	}
	if c.Normed != normed {
		f.Fail("qk_norm is %v, want %v, as the tensors have it", normed, c.Normed)
	}
	c.Block, c.Causal = 0, model.MasksLast
	return c
}

// growth returns the tokens of DreamOn (Dream-org/DreamOn-v0-7B), which is Dream with two more
// outcomes at a mask, or nil. The end token deletes.
func (f *file) growth(c Config) *model.Growth {
	if f.Err != nil || f.Text("model_type") != "Dream" || c.Block != 0 || len(c.EOS) == 0 {
		return nil
	}
	if list := f.ids("expand_token_id", c.Vocab); len(list) > 0 {
		return &model.Growth{Expand: list[0], Delete: c.EOS[0]}
	}
	if id, ok := f.token(expandToken, c.Vocab); ok {
		return &model.Growth{Expand: id, Delete: c.EOS[0]}
	}
	return nil
}

const expandToken = "<|expand|>"

// begin returns the token that DreamOn's texts begin with: <|beginoftext|> if the tokenizer has it,
// otherwise bos_token_id.
func (f *file) begin(c Config) []int32 {
	if id, ok := f.token("<|beginoftext|>", c.Vocab); ok {
		return []int32{id}
	}
	if list := f.ids("bos_token_id", c.Vocab); len(list) > 0 {
		return list[:1]
	}
	return nil
}

// mentions reports whether a tokenizer's files have a token, without the time to parse them.
func mentions(files fs.FS, token string) bool {
	for _, name := range []string{"added_tokens.json", "tokenizer.json"} {
		data, err := model.ReadFile(files, name, 1<<28)
		if err == nil && bytes.Contains(data, []byte(token)) {
			return true
		}
	}
	return false
}
