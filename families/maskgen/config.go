package maskgen

import (
	"cmp"
	"fmt"
	"slices"

	"unmask/media/codecs/clip"
	"unmask/media/codecs/latents"
	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	Hidden    int // width of the residual stream
	Depth     int // blocks
	Heads     int
	Inner     int // width inside the MLPs
	Tokens    int // latent tokens of an image
	Codes     int // outcomes
	IDs       int // rows of the embedding: codes, the mask, and 1001 unused ones
	TextRows  int // rows of a text
	TextWidth int // width of the text encoder's states
	Sinusoids int // numbers of the aesthetic score's embedding

	// Score is the aesthetic score of prompts without one.
	Score float64

	// TiedName is the name of the tensor that is both embedding and head; "" if there are two.
	TiedName string
}

// Presets are the published sizes (Kim et al. 2025; 1d-tokenizer, README_MaskGen.md).
var Presets = map[string]Config{
	"l": {
		Hidden:    1024,
		Depth:     16,
		Heads:     16,
		Inner:     4096,
		Tokens:    128,
		Codes:     8192,
		IDs:       9194,
		TextRows:  77,
		TextWidth: 768,
		Sinusoids: 256,
		Score:     6.5,
		TiedName:  wordsName,
	},
	"xl": {
		Hidden:    1280,
		Depth:     20,
		Heads:     16,
		Inner:     5120,
		Tokens:    128,
		Codes:     8192,
		IDs:       9194,
		TextRows:  77,
		TextWidth: 768,
		Sinusoids: 256,
		Score:     6.5,
		TiedName:  wordsName,
	},
}

const (
	wordsName = "embeddings.weight"
	headName  = "lm_head.weight"
	extraIDs  = 1002 // ids after the codes: the mask, and those of TiTok's classes
)

// settings are the network's keys. Those of the authors' run (cfg, num_iter, temperature) are not
// read: their program takes its own, as recipe has them.
var settings = model.Settings{
	Path: "model.maskgen",
	KnownKeys: `decoder_embed_dim decoder_depth
	decoder_num_heads micro_condition_embed_dim text_drop_prob condition_num_classes cfg num_iter
	temperature sample_aesthetic_score weight_tying`,
	RequiredValues: map[string]any{"micro_condition": true, "mask_schedule_strategy": "arccos"},
}

// readConfig reads the sizes from the tensors, and the rest from config.json.
func readConfig(src *model.Source) (c Config, err error) {
	var f struct {
		Model struct {
			Tokenizer struct {
				Rows int `json:"text_context_length"`
			} `json:"vq_model"`
			MaskGen struct {
				Heads int     `json:"decoder_num_heads"`
				Score float64 `json:"sample_aesthetic_score"`
			} `json:"maskgen"`
		} `json:"model"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, err
	}
	if err := src.CheckKeys(append(slices.Clip(latents.Settings), settings)...); err != nil {
		return c, err
	}
	z := &weights.Sizes{Set: src.Set}
	c = Config{
		Heads:    f.Model.MaskGen.Heads,
		Score:    f.Model.MaskGen.Score,
		TextRows: f.Model.Tokenizer.Rows,
		TiedName: wordsName,
	}
	c.Heads = cmp.Or(c.Heads, 16)  // as in both published ones
	c.Score = cmp.Or(c.Score, 6.5) // the authors' default
	c.TextRows = cmp.Or(c.TextRows, 77)
	switch {
	case !z.Has(wordsName):
		c.TiedName = headName
	case z.Has("lm_head.bias"):
		c.TiedName = ""
	}
	name := cmp.Or(c.TiedName, wordsName)
	c.IDs = z.Dim(name, 2, 0)
	c.Hidden = z.Dim(name, 2, 1)
	c.Tokens = z.Dim("pos_embed", 3, 1)
	c.Codes = c.IDs - extraIDs
	if c.TiedName == "" {
		c.Codes = z.Dim("lm_head.bias", 1, 0)
	}
	c.TextWidth = z.Dim("text_embed_proj.weight", 2, 1)
	c.Sinusoids = z.Dim("cond_pooled_proj.weight", 2, 1) - c.TextWidth
	c.Inner = z.Dim("blocks.0.ff.net.0.proj.weight", 2, 0)
	c.Depth = z.Count("blocks.", ".norm1.linear.weight")
	switch {
	case z.Err != nil:
		return c, z.Err
	case c.Heads < 1 || c.Hidden%c.Heads != 0:
		return c, fmt.Errorf("config.json: decoder_num_heads is %d, want a divisor of the width %d",
			c.Heads, c.Hidden)
	case c.TextRows < 1 || c.TextRows > maxRows:
		return c, fmt.Errorf("config.json: text_context_length is %d, want 1 to %d", c.TextRows, maxRows)
	case !(c.Score > 0 && c.Score <= 10):
		return c, fmt.Errorf("config.json: sample_aesthetic_score is %v, want more than 0 and at most 10",
			c.Score)
	case c.Codes < 1 || c.Codes >= c.IDs:
		return c, fmt.Errorf("tensor %q has %d rows, want more than %d", name, c.IDs,
			max(c.Codes, extraIDs))
	case c.Sinusoids < 2 || c.Sinusoids%2 != 0:
		return c, fmt.Errorf("the conditioning vector has %d numbers beside the text's %d, want an even "+
			"number from 2", c.Sinusoids, c.TextWidth)
	}
	return c, nil
}

const maxRows = 1024 // rows of a text

// loadModel loads a generator. Its text encoder is loaded with the first prompt.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	m := New(c)
	ignore := []string{}
	if c.TiedName == wordsName {
		ignore = append(ignore, headName) // the same tensor a second time
	}
	report, err := o.Bind(m, src.Set, weights.BindOptions{Ignore: ignore}, m.packWeights)
	if err != nil {
		return nil, err
	}
	m.prompter = clip.Prompter{Source: src, Options: o, Width: c.TextWidth, Rows: c.TextRows, Pad: 0}
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Recipe:   recipe,
		Presets:  map[string]string{"fid": recipe},
		Info: model.Info{
			Sizes: map[string]int{
				"hidden":    c.Hidden,
				"heads":     c.Heads,
				"blocks":    c.Depth,
				"mlp":       c.Inner,
				"length":    c.Tokens,
				"codes":     c.Codes,
				"text rows": c.TextRows,
				"mask":      c.Codes,
			},
			Parameters: model.Parameters(report.Bound, src.Set),
			Unused:     report.Unused,
		},
	}, nil
}

// recipe is the authors' (1d-tokenizer, modeling/maskgen.py, generate).
const recipe = "titok schedule=titok steps=16 guidance=12 guidance-schedule=cosine"

// matchesSource reports whether a folder has a MaskGen-VQ.
func matchesSource(src *model.Source) bool {
	return src.HasTensor("cond_pooled_proj.weight") && src.HasTensor("text_embed_proj.weight")
}

// companions are the image tokenizer and the text encoder of the generators on the hub, which are
// published without them.
var companions = map[string]string{
	"codec":        "turkeyju/tokenizer_tatitok_bl128_vq",
	"text_encoder": "openai/clip-vit-large-patch14-336",
}

func init() {
	model.Register(model.Format{
		Name:  "maskgen",
		Kinds: []string{"maskgen"},
		Match: matchesSource,
		Load:  loadModel,
		Companions: map[string]map[string]string{
			"turkeyju/generator_maskgen_vq_l":  companions,
			"turkeyju/generator_maskgen_vq_xl": companions,
		},
	})
	model.RegisterCodec(model.CodecFormat{
		Name:  "maskgen",
		Match: matchesSource,
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			c, err := readConfig(src)
			if err != nil {
				return nil, err
			}
			return latents.Open(src, c.Tokens, c.Codes, o)
		},
	})
}
