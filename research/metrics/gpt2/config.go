package gpt2

import (
	"fmt"
	"strings"

	"unmask/backend"
	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	Hidden  int // width of the residual stream
	Heads   int
	Blocks  int
	MLP     int // width inside the MLPs, 4*Hidden as published
	Context int // positions
	Vocab   int
	Eps     float32
	Act     backend.Activation

	// SpecialTokens are no part of a text: its first token, and what fills it up.
	SpecialTokens []int32
}

// Presets are the published sizes by their names on the hub, openai-community/gpt2 and so on
// (Radford et al., "Language models are unsupervised multitask learners", 2019, table 2).
var Presets = map[string]Config{
	"gpt2": {
		Hidden:  768,
		Heads:   12,
		Blocks:  12,
		MLP:     3072,
		Context: 1024,
		Vocab:   50257,
		Eps:     1e-5,
		Act:     backend.GELUTanh,
	},
	"gpt2-medium": {
		Hidden:  1024,
		Heads:   16,
		Blocks:  24,
		MLP:     4096,
		Context: 1024,
		Vocab:   50257,
		Eps:     1e-5,
		Act:     backend.GELUTanh,
	},
	"gpt2-large": {
		Hidden:  1280,
		Heads:   20,
		Blocks:  36,
		MLP:     5120,
		Context: 1024,
		Vocab:   50257,
		Eps:     1e-5,
		Act:     backend.GELUTanh,
	},
	"gpt2-xl": {
		Hidden:  1600,
		Heads:   25,
		Blocks:  48,
		MLP:     6400,
		Context: 1024,
		Vocab:   50257,
		Eps:     1e-5,
		Act:     backend.GELUTanh,
	},
}

// configFile is config.json.
type configFile struct {
	Hidden    *int     `json:"n_embd"`
	Heads     *int     `json:"n_head"`
	Blocks    *int     `json:"n_layer"`
	MLP       *int     `json:"n_inner"`
	Context   *int     `json:"n_ctx"`
	Positions *int     `json:"n_positions"`
	Vocab     *int     `json:"vocab_size"`
	Eps       *float32 `json:"layer_norm_epsilon"`
	Act       string   `json:"activation_function"`
	Begin     *int32   `json:"bos_token_id"`
	Pad       *int32   `json:"pad_token_id"`
	End       *int32   `json:"eos_token_id"`
}

// knownSettings are the keys of GPT-2's class, some for other tasks and one whose result is the
// same.
var knownSettings = model.Settings{KnownKeys: strings.Join(model.JSONKeys(configFile{}), " ") + ` summary_activation
	reorder_and_upcast_attn summary_first_dropout summary_proj_to_labels summary_type summary_use_proj`,
	RequiredValues: map[string]any{
		"model_type":                      "gpt2",
		"tie_word_embeddings":             true,
		"scale_attn_weights":              true,
		"scale_attn_by_inverse_layer_idx": false,
	}}

const maxSize = 1 << 20 // largest dimension in config.json

var activations = map[string]backend.Activation{
	"":                  backend.GELUTanh,
	"gelu_new":          backend.GELUTanh,
	"gelu_pytorch_tanh": backend.GELUTanh,
	"gelu":              backend.GELUErf,
	"relu":              backend.ReLU,
	"silu":              backend.SiLU,
	"swish":             backend.SiLU,
}

// readConfig reads config.json. The tensors decide if it lacks a size or differs from them, with a
// note; the head count comes from config.json alone.
func readConfig(src *model.Source, set *weights.Set) (c Config, notes []string, err error) {
	var f configFile
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, nil, err
	}
	if err := src.CheckKeys(knownSettings); err != nil {
		return c, nil, err
	}
	if c, err = sizesFromTensors(set); err != nil {
		return c, nil, err
	}
	var sizes model.ConfigSizes
	sizes.CompleteSize("n_embd", f.Hidden, &c.Hidden, maxSize)
	sizes.CompleteSize("n_head", f.Heads, &c.Heads, maxSize)
	sizes.CompleteSize("n_layer", f.Blocks, &c.Blocks, maxSize)
	sizes.CompleteSize("n_inner", f.MLP, &c.MLP, maxSize)
	sizes.CompleteSize("n_positions", f.Positions, &c.Context, maxSize)
	sizes.CompleteSize("n_ctx", f.Context, &c.Context, maxSize)
	sizes.CompleteSize("vocab_size", f.Vocab, &c.Vocab, maxSize)
	if sizes.Err != nil {
		return c, nil, sizes.Err
	}
	for _, id := range []*int32{f.Begin, f.Pad} {
		if id != nil && (f.End == nil || *id != *f.End) { // many name the end of a text for all three
			c.SpecialTokens = append(c.SpecialTokens, *id)
		}
	}
	c.Eps = 1e-5
	if f.Eps != nil {
		c.Eps = *f.Eps
	}
	var known bool
	c.Act, known = activations[f.Act]
	switch {
	case !known:
		err = fmt.Errorf("config.json: activation_function is %q, want gelu_new, gelu_pytorch_tanh, "+
			"gelu, relu, silu, swish", f.Act)
	case !(c.Eps > 0 && c.Eps < 1):
		err = fmt.Errorf("config.json: layer_norm_epsilon is %v, want more than 0 and less than 1", c.Eps)
	case c.Heads < 1:
		err = fmt.Errorf("config.json: n_head is missing, want the divisors of n_embd %d", c.Hidden)
	case c.Hidden%c.Heads != 0:
		err = fmt.Errorf("config.json: n_head is %d, want the divisors of n_embd %d", c.Heads, c.Hidden)
	}
	return c, append(sizes.Notes, src.Notes...), err
}

// sizesFromTensors reads the sizes that the tensors show.
func sizesFromTensors(set *weights.Set) (c Config, err error) {
	token, err := model.TensorShape(set, anchor, 2)
	if err != nil {
		return c, err
	}
	position, err := model.TensorShape(set, "wpe.weight", 2)
	if err != nil {
		return c, err
	}
	c.Vocab = token[0]
	c.Hidden = token[1]
	c.Context = position[0]
	c.MLP = 4 * c.Hidden
	if up, err := model.TensorShape(set, "h.0.mlp.c_fc.weight", 2); err == nil {
		c.MLP = up[1]
	}
	c.Blocks = max(c.Blocks, set.CountBlocks("h."))
	return c, nil
}
