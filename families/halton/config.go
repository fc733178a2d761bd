package halton

import (
	"fmt"
	"math"

	"unmask/internal/imagenet"
	"unmask/media/codecs/vq"
	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	Hidden    int // width of the residual stream
	Depth     int // transformer blocks
	Heads     int
	HeadDim   int // numbers of a head; Heads*HeadDim may be less than Hidden
	Inner     int // width inside the MLPs
	Side      int // the image is Side x Side codes
	Positions int // rows of the position embedding, at least Side*Side
	Codes     int // outcomes
	Classes   int
	Registers int // rows after the image that belong to no code
}

// Presets are the published sizes (Besnier et al. 2025; Halton-MaskGIT, README.md). The small
// models have 6 heads of 85 numbers in 512.
var Presets = map[string]Config{
	"256-tiny": {
		Hidden:    384,
		Depth:     6,
		Heads:     6,
		HeadDim:   64,
		Inner:     1024,
		Side:      16,
		Positions: 256,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
	"256-small": {
		Hidden:    512,
		Depth:     12,
		Heads:     6,
		HeadDim:   85,
		Inner:     1536,
		Side:      16,
		Positions: 256,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
	"256-base": {
		Hidden:    768,
		Depth:     12,
		Heads:     12,
		HeadDim:   64,
		Inner:     2048,
		Side:      16,
		Positions: 256,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
	"384-small": {
		Hidden:    512,
		Depth:     12,
		Heads:     6,
		HeadDim:   85,
		Inner:     1536,
		Side:      24,
		Positions: 576,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
	"384-base": {
		Hidden:    768,
		Depth:     12,
		Heads:     12,
		HeadDim:   64,
		Inner:     2048,
		Side:      24,
		Positions: 576,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
	"384-large": {
		Hidden:    1024,
		Depth:     24,
		Heads:     16,
		HeadDim:   64,
		Inner:     2816,
		Side:      24,
		Positions: 576,
		Codes:     16384,
		Classes:   1000,
		Registers: 1,
	},
}

// anchor is the tensor that shows a checkpoint's prefix.
const anchor = "last_norm.norm_final.weight"

// unused are tensors in published files that generation does not need: the head's weight is the
// embedding.
var unused = []string{"head.weight"}

const maxHeads = 1 << 12 // in config.json

// readConfig reads the sizes from the tensors; config.json has the number of heads.
func readConfig(src *model.Source) (c Config, err error) {
	set, err := src.Set.Rebase(anchor)
	if err != nil {
		return c, err
	}
	f := src.ConfigValues()
	heads := f.BoundedInt("num_attention_heads", 0, 1, maxHeads)
	if f.Err != nil {
		return c, f.Err
	}
	err = src.CheckKeys(model.Settings{KnownKeys: "num_attention_heads"})
	if err != nil {
		return c, err
	}
	z := &weights.Sizes{Set: set}
	c.Codes = z.Dim("tok_emb.weight", 2, 0) - 1
	c.Hidden = z.Dim("tok_emb.weight", 2, 1)
	c.Classes = z.Dim("cls_emb.weight", 2, 0) - 1
	c.Positions = z.Dim("pos_emb.weight", 2, 0)
	width := z.Dim("transformer.layers.0.attn.wq.weight", 2, 0)
	c.Inner = z.Dim("transformer.layers.0.ff.w1.weight", 2, 0)
	if z.Has("reg_tokens.weight") {
		c.Registers = z.Dim("reg_tokens.weight", 2, 0)
	}
	c.Depth = z.Count("transformer.layers.", ".ln1.weight")
	c.Side = int(math.Sqrt(float64(c.Positions)))
	switch {
	case z.Err != nil:
		return c, z.Err
	case width%heads != 0:
		return c, fmt.Errorf("config.json: num_attention_heads is %d, want a divisor of the width %d",
			heads, width)
	case c.Side*c.Side != c.Positions:
		return c, fmt.Errorf("tensor \"pos_emb.weight\" has %d rows, want a square", c.Positions)
	case c.Codes < 1 || c.Classes < 1:
		return c, fmt.Errorf("there are %d codes and %d classes, want 1 at least beside the mask and no "+
			"class", c.Codes, c.Classes)
	}
	c.Heads = heads
	c.HeadDim = width / heads
	return c, nil
}

// loadModel loads a checkpoint that unmask convert made.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	m := New(c)
	report, err := o.Bind(m, src.Set, weights.BindOptions{Anchor: anchor, Ignore: unused},
		m.packWeights)
	if err != nil {
		return nil, err
	}
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Classes:  imagenet.Classes(c.Classes),
		Recipe:   recipe,
		Presets:  map[string]string{"fid": c.evaluationRecipe(), "confidence": confidence},
		Info: model.Info{
			Sizes: map[string]int{
				"hidden":  c.Hidden,
				"heads":   c.Heads,
				"blocks":  c.Depth,
				"mlp":     c.Inner,
				"grid":    c.Side,
				"codes":   c.Codes,
				"classes": c.Classes,
				"mask":    c.Codes,
			},
			Parameters: model.Parameters(report.Bound, src.Set),
			Unused:     report.Unused,
		},
	}, nil
}

// recipe is the authors' demonstration (Halton-MaskGIT, README.md).
const recipe = "halton-maskgit(last=1.2) schedule=arccos steps=32 guidance=2"

// confidence is the authors' other sampler with its defaults (Sampler/confidence_sampler.py).
const confidence = "maskgit-redraw schedule=late-arccos steps=12 guidance=3 guidance-schedule=ramp"

// evaluationRecipe returns the run of the authors' evaluation of 50,000 images (Halton-MaskGIT,
// README.md and launch/eval_test_to_img.sh): guidance depends on the size; there are 32 steps, with
// half the exponent in the first ones.
func (c Config) evaluationRecipe() string {
	guidance := "0.5"
	switch {
	case c.Hidden <= 384:
		guidance = "1.5"
	case c.Hidden <= 512:
		guidance = "1"
	case c.Hidden <= 768:
		guidance = "0.7"
	}
	return "halton-maskgit(warm=1) schedule=arccos steps=32 guidance=" + guidance
}

// matchesSource reports whether a folder has a Halton-MaskGIT.
func matchesSource(src *model.Source) bool {
	return src.Facts().Type == "halton-maskgit" || src.HasTensor(anchor) &&
		src.HasTensor("cls_emb.weight")
}

func init() {
	model.Register(model.Format{
		Name:  "halton-maskgit",
		Kinds: []string{"halton-maskgit"},
		Load:  loadModel,
		Match: matchesSource,
	})
	model.RegisterCodec(model.CodecFormat{
		Name:  "halton-maskgit",
		Match: matchesSource,
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			c, err := readConfig(src)
			if err != nil {
				return nil, err
			}
			return vq.Open(src, "codec", c.Side, c.Codes, o)
		},
	})
}
