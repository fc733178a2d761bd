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

// nemotronKind is the model_type of Nemotron-Labs-Diffusion.
const nemotronKind = "nemotron_labs_diffusion"

// readNemotron reads nvidia/Nemotron-Labs-Diffusion-3B, -8B and -14B and their -Base: a Llama with
// YaRN and queries that grow with the position, as Ministral 3 has them.
func (f *file) readNemotron(set *weights.Set) Config {
	f.RequireValues(map[string]any{
		"hidden_act":            "silu",
		"attention_bias":        false,
		"mlp_bias":              false,
		"attention_dropout":     0.0,
		"partial_rotary_factor": 1.0,
		"sliding_window":        nil,
	})
	paradigm := f.Text("dlm_paradigm")
	if !slices.Contains([]string{"", "bidirectional", "autoregressive"}, paradigm) {
		f.Fail("dlm_paradigm is %q, want bidirectional or autoregressive", paradigm)
	}
	c := f.readSizes(set, "encoder.embed_tokens.weight", 1e-5)
	c.Block = f.BoundedInt("block_size", 32, 1, maxLength)
	c.Causal = model.NextToken
	if paradigm == "autoregressive" { // a block of one token is what such a model writes at a time
		c.Block = 1
	}
	if f.Err == nil {
		c.Rope = f.readRope(c.Length, "yarn")
	}
	return c
}

// wedlmMask is the mask of WeDLM where config.json has none (its configuration class).
const wedlmMask = "151665"

// readWeDLM reads tencent/WeDLM-7B-* (Qwen2.5) and -8B-* (Qwen3).
func (f *file) readWeDLM(set *weights.Set) Config {
	f.RequireValues(map[string]any{"rope_scaling": nil})
	if !f.Has("mask_token_id") {
		f.Keys["mask_token_id"] = []byte(wedlmMask)
	}
	c := f.readQwen(set)
	hasBias := f.Bool("attention_bias", true)
	hasNorm := f.Bool("qk_norm", false)
	if c.QKVBias != hasBias {
		f.Fail("attention_bias is %v, want %v, as the tensors have it", hasBias, c.QKVBias)
	}
	if c.QKNorm != hasNorm {
		f.Fail("qk_norm is %v, want %v, as the tensors have it", hasNorm, c.QKNorm)
	}
	c.Block = 0
	c.Causal = model.MasksLast
	return c
}

// readGrowth returns the tokens of DreamOn (Dream-org/DreamOn-v0-7B), which is Dream with two more
// outcomes at a mask, or nil. The end token deletes.
func (f *file) readGrowth(c Config) *model.Growth {
	if f.Err != nil || f.Text("model_type") != "Dream" || c.Block != 0 || len(c.EndTokens) == 0 {
		return nil
	}
	if list := f.readIDs("expand_token_id", c.Vocab); len(list) > 0 {
		return &model.Growth{Expand: list[0], Delete: c.EndTokens[0]}
	}
	if id, ok := f.findToken(expandToken, c.Vocab); ok {
		return &model.Growth{Expand: id, Delete: c.EndTokens[0]}
	}
	return nil
}

// expandToken becomes two masks where it opens.
const expandToken = "<|expand|>"

// beginTokens returns the token that DreamOn's texts begin with: <|beginoftext|> if the tokenizer
// has it, otherwise bos_token_id.
func (f *file) beginTokens(c Config) []int32 {
	if id, ok := f.findToken("<|beginoftext|>", c.Vocab); ok {
		return []int32{id}
	}
	if list := f.readIDs("bos_token_id", c.Vocab); len(list) > 0 {
		return list[:1]
	}
	return nil
}

// filesMention reports whether a tokenizer's files have a token's text somewhere. It searches
// bytes, because parsing a large tokenizer takes seconds.
func filesMention(files fs.FS, text string) bool {
	for _, name := range []string{"added_tokens.json", "tokenizer.json"} {
		data, err := model.ReadFile(files, name, 1<<28)
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}
