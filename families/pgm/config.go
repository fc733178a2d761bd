package pgm

import (
	"fmt"

	"unmask/internal/imagenet"
	"unmask/media/codecs/vq"
	"unmask/model"
	"unmask/tokenizers"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	Hidden  int // width of the residual streams
	Heads   int // attention heads of a block
	Encoder int // blocks of the encoder
	Decoder int // blocks of the decoder
	Cond    int // width of a text's conditioning vector
	MLP     int // width inside the MLPs, 4*Hidden as published

	// Vocab is the number of rows of the embedding: of text the outcomes, of which the last begins
	// every text, and the mask; of images the codes, the mask and the begin token.
	Vocab int

	// Length is the number of positions of a text, and Side that of codes along a side of an image.
	Length int
	Side   int

	// Classes is that of images, 0 of text.
	Classes int

	// HideLast hides the token that opened last from everything, as the authors' program does with
	// images.
	HideLast bool
}

// Presets are the published sizes (jdeschena/pgm).
var Presets = map[string]Config{
	"text-8-8": {
		Hidden:  768,
		Heads:   12,
		Encoder: 8,
		Decoder: 8,
		Cond:    128,
		MLP:     3072,
		Vocab:   50258,
		Length:  1024,
	},
	"text-6-6": {
		Hidden:  1024,
		Heads:   16,
		Encoder: 6,
		Decoder: 6,
		Cond:    128,
		MLP:     4096,
		Vocab:   50258,
		Length:  1024,
	},
	"images-12-12": {
		Hidden:   1024,
		Heads:    16,
		Encoder:  12,
		Decoder:  12,
		MLP:      4096,
		Vocab:    16386,
		Side:     32,
		Classes:  1000,
		HideLast: true,
	},
	"images-14-10": {
		Hidden:   1024,
		Heads:    16,
		Encoder:  14,
		Decoder:  10,
		MLP:      4096,
		Vocab:    16386,
		Side:     32,
		Classes:  1000,
		HideLast: true,
	},
}

// firstPosition returns the rotary position of a sequence's first position.
func (c *Config) firstPosition() int {
	if c.Classes > 0 {
		return firstCell
	}
	return 0
}

// positions returns the number of rotary positions.
func (c *Config) positions() int {
	if c.Classes > 0 {
		return firstCell + c.Side*c.Side
	}
	return c.Length
}

// anchor is the tensor that shows a checkpoint's prefix and that it is a PGM.
const anchor = "decoder.group_swap.base_embedding"

// classTable is the tensor that networks of images have and those of text do not.
const classTable = "cls_embed.embedding_table.weight"

// unused are tensors of published files that inference does not need.
var unused = []string{"rotary_emb.inv_freq", "noise.*"}

const (
	maxHeads  = 1 << 12 // in config.json
	maxLength = 1 << 17
	maxSide   = 1 << 8
)

// settings are the keys of config.json, as convert writes it. The other forms that the authors'
// program has were not published, and some of them do not run there.
var settings = model.Settings{
	KnownKeys: "n_heads length grid hide_last tokenizer",
	RequiredValues: map[string]any{
		"pre_query_mode":     "learn+freqs",
		"query_process_mode": "linear",
		"normalize_mode":     "layernorm",
		"time_conditioning":  false,
		"causal_attention":   false,
	},
}

// readConfig reads the sizes from the tensors, and what they do not show from config.json.
func readConfig(src *model.Source, set *weights.Set) (c Config, err error) {
	if err := src.CheckKeys(settings); err != nil {
		return c, err
	}
	z := &weights.Sizes{Set: set}
	c.Vocab = z.Dim("vocab_embed.embedding", 2, 0)
	c.Hidden = z.Dim("vocab_embed.embedding", 2, 1)
	c.Encoder = z.Count("encoder.blocks.", ".norm1.weight")
	c.Decoder = z.Count("decoder.layers.", ".q_norm1.weight")
	c.MLP = z.Dim("encoder.blocks.0.mlp.0.weight", 2, 0)
	isImages := z.Has(classTable)
	if isImages {
		c.Classes = z.Dim(classTable, 2, 0) - 1
	} else {
		c.Cond = z.Dim("sigma_map.mlp.2.weight", 2, 0)
	}
	if z.Err == nil && z.Has("decoder.layers.0.attn_qkv.weight") {
		z.Fail("decoder.layers.0.attn_qkv.weight is there, want none: the decoder's rows see each other " +
			"in no published network")
	}
	if z.Err != nil {
		return c, z.Err
	}

	f := src.ConfigValues()
	c.Heads = f.BoundedInt("n_heads", 0, 1, maxHeads)
	if isImages {
		c.Side = f.BoundedInt("grid", 0, 1, maxSide)
		c.HideLast = f.Bool("hide_last", true)
	} else {
		c.Length = f.BoundedInt("length", 0, 2, maxLength)
	}
	if name := f.Text("tokenizer"); name != "" && name != "gpt2" {
		f.Fail("tokenizer is %.40q, want gpt2: networks of other vocabularies, such as LM1B's, were not "+
			"published", name)
	}
	if f.Err != nil {
		return c, f.Err
	}
	switch {
	case c.Hidden%(2*c.Heads) != 0:
		return c, fmt.Errorf("config.json: n_heads is %d, want those that cut the width %d into heads of "+
			"even width", c.Heads, c.Hidden)
	case c.Vocab < 3:
		return c, fmt.Errorf("vocab_embed.embedding has %d rows, want an outcome, the mask and the begin "+
			"token at least", c.Vocab)
	case isImages && c.Classes < 1:
		return c, fmt.Errorf("%s has %d rows, want a class and the row without one at least", classTable,
			c.Classes+1)
	}
	return c, nil
}

// loadModel loads a checkpoint that unmask convert made.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	set, err := src.Set.Rebase(anchor)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(src, set)
	if err != nil {
		return nil, err
	}
	m := New(c)
	if c.Classes > 0 {
		report, err := o.Bind(m, set, weights.BindOptions{Ignore: unused}, m.packWeights)
		if err != nil {
			return nil, err
		}
		return m.describeImages(model.Parameters(report.Bound, src.Set), report.Unused), nil
	}

	waitTokenizer := src.StartTokenizer("gpt2")
	report, err := o.Bind(m, set, weights.BindOptions{Ignore: unused}, m.packWeights)
	if err != nil {
		return nil, err
	}
	t, tokenizerName, err := waitTokenizer()
	if err != nil {
		return nil, err
	}
	begin := m.Spec().BeforeText
	if t != nil {
		t = tokenizers.WithMask(t, begin[0], "")
	}
	loaded := &model.Loaded{
		Denoiser:  m,
		Kind:      model.KindText,
		Tokenizer: t,
		Recipe:    textRecipe,
		Presets:   map[string]string{"naive": naive},
	}
	loaded.Info = m.info(model.Parameters(report.Bound, src.Set), report.Unused)
	loaded.Info.Sizes["length"] = c.Length
	loaded.Info.Sizes["cond"] = c.Cond
	loaded.Info.Tokenizer = tokenizerName
	return loaded, nil
}

// describeImages returns what is loaded of a network of images.
func (m *Model) describeImages(parameters int, unused []string) *model.Loaded {
	c := &m.cfg
	loaded := &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Classes:  imagenet.Classes(c.Classes),
		Recipe:   imageRecipe,
		Presets:  map[string]string{"steps-64": imageRecipe64, "confidence": confidence},
	}
	loaded.Info = m.info(parameters, unused)
	loaded.Info.Sizes["grid"] = c.Side
	loaded.Info.Sizes["codes"] = c.Vocab - 2
	loaded.Info.Sizes["classes"] = c.Classes
	if c.HideLast {
		loaded.Info.Notes = append(loaded.Info.Notes, "the token that opened last is seen by nobody, as in "+
			"the authors' program, which made their figures; \"hide_last\": false in config.json shows it")
	}
	return loaded
}

// info returns what both kinds of networks have.
func (m *Model) info(parameters int, unused []string) model.Info {
	c := &m.cfg
	return model.Info{
		Sizes: map[string]int{
			"hidden":         c.Hidden,
			"heads":          c.Heads,
			"encoder blocks": c.Encoder,
			"decoder blocks": c.Decoder,
			"mlp":            c.MLP,
			"vocabulary":     c.Vocab,
			"mask":           int(m.Spec().Mask),
		},
		Parameters: parameters,
		Unused:     unused,
	}
}

// The published runs (jdeschena/pgm). A text's is efficient-uniform, with the steps of the authors'
// measurement of latency; naive has MDLM's coins. Of images there are 32 or 64 steps in Halton's
// order, with half the exponent in the first, and guidance of 0 to 7, which rises from nothing;
// confidence is the authors' other rule.
const (
	textRecipe    = "random schedule=pgm steps=128"
	naive         = "vanilla steps=128"
	imageRecipe   = "halton-maskgit(warm=1,roll=off) schedule=arccos steps=32 guidance-schedule=ramp"
	imageRecipe64 = "halton-maskgit(warm=1,roll=off) schedule=arccos steps=64 guidance-schedule=ramp"
	confidence    = "amused(noise=5) schedule=pgm-arccos steps=32 guidance-schedule=ramp"
)

// matchesSource reports whether a folder has a PGM.
func matchesSource(src *model.Source) bool { return src.HasTensor(anchor) }

func init() {
	model.Register(model.Format{
		Name:  "pgm",
		Kinds: []string{"pgm"},
		Match: matchesSource,
		Load:  loadModel,
	})
	model.RegisterCodec(model.CodecFormat{
		Name: "pgm",
		Match: func(src *model.Source) bool {
			return matchesSource(src) && src.HasTensor(classTable)
		},
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			set, err := src.Set.Rebase(anchor)
			if err != nil {
				return nil, err
			}
			c, err := readConfig(src, set)
			if err != nil {
				return nil, err
			}
			return vq.Open(src, "codec", c.Side, c.Vocab-2, o)
		},
	})
}
