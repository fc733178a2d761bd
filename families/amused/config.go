package amused

import (
	"fmt"

	"unmask/model"
	"unmask/weights"
)

// Config is the transformer's sizes.
type Config struct {
	// The transformer has Depth layers of width Hidden with Heads heads and Inner numbers inside the
	// MLPs.
	Hidden, Depth, Heads, Inner int

	// The convolutional stages around it have Res levels of width Width, whose attentions have
	// BlockHeads heads. In is the width of the embedding and of the head.
	In, Width, BlockHeads, Res int

	Side   int  // the image is Side x Side codes
	Halved bool // the transformer works on cells of 2x2 codes

	Vocab int // ids, of which the last is the mask
	Codes int // outcomes, the first ids

	TextWidth   int // width of the text encoder's states
	Frequencies int // sinusoids of each further number, see condVector

	// Mapped says that the stages' attentions project the text before their keys and values.
	Mapped bool
}

// Presets are the published sizes (Patil et al. 2024, "aMUSEd: an open MUSE reproduction").
var Presets = map[string]Config{
	"256": {
		Hidden:      1024,
		Depth:       22,
		Heads:       16,
		Inner:       2816,
		In:          768,
		Width:       768,
		BlockHeads:  12,
		Res:         3,
		Side:        16,
		Vocab:       8256,
		Codes:       8192,
		TextWidth:   768,
		Frequencies: 256,
		Mapped:      true,
	},
	"512": {
		Hidden:      1024,
		Depth:       22,
		Heads:       16,
		Inner:       2816,
		In:          768,
		Width:       768,
		BlockHeads:  12,
		Res:         3,
		Side:        32,
		Halved:      true,
		Vocab:       8256,
		Codes:       8192,
		TextWidth:   768,
		Frequencies: 256,
		Mapped:      true,
	},
}

const (
	// numbers counts the further inputs of the conditioning vector: width, height, top and left of the
	// crop, aesthetic score.
	numbers = 5

	maxSide  = 1 << 9  // codes along a side
	maxTexts = 1 << 10 // rows of a text
)

// ratio returns the number of codes of a cell along a side.
func (c Config) ratio() int {
	if c.Halved {
		return 2
	}
	return 1
}

// cellGrid returns the number of cells along a side.
func (c Config) cellGrid() int { return c.Side / c.ratio() }

// settings are the keys of diffusers' UVit2DModel.
var settings = model.Settings{KnownKeys: `_class_name _diffusers_version num_attention_heads block_num_heads
	sample_size hidden_size num_hidden_layers intermediate_size in_channels block_out_channels
	num_res_blocks downsample upsample vocab_size codebook_size encoder_hidden_size cond_embed_dim
	micro_cond_encode_dim micro_cond_embed_dim`,
	RequiredValues: map[string]any{
		"use_bias":              false,
		"ln_elementwise_affine": true,
		"layer_norm_eps":        eps,
	}}

// readConfig reads the sizes from the tensors; heads and grid are in transformer/config.json.
func readConfig(src *model.Source) (c Config, err error) {
	var f struct {
		Heads      int `json:"num_attention_heads"`
		BlockHeads int `json:"block_num_heads"`
		Side       int `json:"sample_size"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, err
	}
	if err := src.CheckKeys(settings); err != nil {
		return c, err
	}
	z := &weights.Sizes{Set: src.Set}
	c = Config{
		Heads:      f.Heads,
		BlockHeads: f.BlockHeads,
		Side:       f.Side,
		Halved:     z.Has("down_block.downsample.conv.weight"),
		Mapped:     z.Has("down_block.attention_blocks.0.kv_mapper.weight"),
	}
	c.Hidden = z.Dim("encoder_proj.weight", 2, 0)
	c.TextWidth = z.Dim("encoder_proj.weight", 2, 1)
	c.Vocab = z.Dim("embed.embeddings.weight", 2, 0)
	c.In = z.Dim("embed.embeddings.weight", 2, 1)
	c.Width = z.Dim("embed.conv.weight", 4, 0)
	c.Codes = z.Dim("mlm_layer.conv2.weight", 4, 0)
	c.Inner = z.Dim("transformer_layers.0.ff.net.2.weight", 2, 1)

	// The first layer of the condition reads the pooled text and the sinusoids of each number.
	c.Frequencies = (z.Dim("cond_embed.linear_1.weight", 2, 1) - c.TextWidth) / numbers
	c.Depth = z.Count("transformer_layers.", ".norm1.norm.weight")
	c.Res = z.Count("down_block.res_blocks.", ".norm.weight")
	switch {
	case z.Err != nil:
		return c, z.Err
	case c.Heads < 1 || c.Hidden%c.Heads != 0:
		return c, fmt.Errorf("config.json: num_attention_heads is %d, want a divisor of the width %d",
			c.Heads, c.Hidden)
	case c.BlockHeads < 1 || c.Width%c.BlockHeads != 0:
		return c, fmt.Errorf("config.json: block_num_heads is %d, want a divisor of the width %d",
			c.BlockHeads, c.Width)
	case c.Side < 1 || c.Side > maxSide || c.Side%c.ratio() != 0:
		return c, fmt.Errorf("config.json: sample_size is %d, want 1 to %d, even where the grid is halved", c.Side, maxSide)
	case c.Codes >= c.Vocab: // the last embedding is the mask's
		return c, fmt.Errorf("there are %d embeddings, want more than the %d codes", c.Vocab, c.Codes)
	case c.Frequencies < 2 || c.Frequencies%2 != 0 || c.Depth < 1 || c.Res < 1:
		return c, fmt.Errorf("there are %d sinusoids of a number, %d layers and %d blocks a stage, want "+
			"an even number from 2, and 1 at least", c.Frequencies, c.Depth, c.Res)
	}
	return c, nil
}
