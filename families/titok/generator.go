// Package titok has the generators of TiTok (Yu et al., 2024, "An image is worth 32 tokens for
// reconstruction and generation"), which draw a short row of latent tokens for a class of ImageNet.
// Package latents turns these into images.
//
// Tokens have no place in the image, so there is no inpainting. Checkpoints:
// yucornetto/generator_titok_{l32,b64,s128}_imagenet and the tokenizers beside them.
package titok

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/internal/imagenet"
	"unmask/kvcache"
	"unmask/media/codecs/latents"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Config is a generator's sizes.
type Config struct {
	Kind    string // "ViT" or "UViT", as config.json has them
	Hidden  int    // width of the residual stream
	Depth   int    // transformer blocks; of a U-ViT without the middle one
	Heads   int
	Inner   int // width inside the MLPs
	Tokens  int // latent tokens of an image
	Codes   int // outcomes
	Classes int
}

// Presets are the published sizes (Yu et al. 2024, configs/infer/TiTok).
var Presets = map[string]Config{
	"l32": {
		Kind:    "ViT",
		Hidden:  768,
		Depth:   24,
		Heads:   16,
		Inner:   3072,
		Tokens:  32,
		Codes:   4096,
		Classes: 1000,
	},
	"b64": {
		Kind:    "ViT",
		Hidden:  768,
		Depth:   24,
		Heads:   16,
		Inner:   3072,
		Tokens:  64,
		Codes:   4096,
		Classes: 1000,
	},
	"s128": {
		Kind:    "UViT",
		Hidden:  1024,
		Depth:   20,
		Heads:   16,
		Inner:   4096,
		Tokens:  128,
		Codes:   4096,
		Classes: 1000,
	},
}

// idCount returns the number of embeddings: codes, the mask, classes, and no class.
func (c Config) idCount() int { return c.Codes + c.Classes + 2 }

// blockCount returns the number of blocks. Depth of a U-ViT does not count the middle one.
func (c Config) blockCount() int {
	if c.Kind == "UViT" {
		return c.Depth/2*2 + 1
	}
	return c.Depth
}

// network has the parts in which the two generators differ.
type network interface {
	// packWeights packs the bound weights and returns the head, which the caller packs.
	packWeights(l *nn.Loader) (head *nn.Linear)

	// resize makes room for a pass of `rows` rows.
	resize(b backend.Backend, rows int)

	// runBlocks computes the hidden states of a pass's rows, or of those that are read, in m.work.X,
	// and returns the pass of these rows. ids are the rows' ids.
	runBlocks(ctx context.Context, m *Model, p *model.Pass, ids []int32) (*model.Pass, error)

	// finishRows turns n hidden states x [n, hidden] into the head's input.
	finishRows(x *tensor.Dense, n int) *tensor.Dense
}

// Model is a generator on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	cfg   Config
	net   network
	b     backend.Backend
	layer attention.Layer
	work  nn.Work
	ids   []int32 // of the pass's rows
}

// New returns the network without weights, and the struct to bind them to.
func New(c Config) (m *Model, root any) {
	m = &Model{cfg: c, layer: attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads}}
	if c.Kind == "UViT" {
		n := newUvit(c)
		m.net = n
		return m, n
	}
	n := newBert(c)
	m.net = n
	return m, &struct {
		Model *bert `weight:"model"`
	}{n}
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	m.b = o.Backend
	m.layer.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	head := m.net.packWeights(l)
	m.Network = model.Network{
		Passes: model.Passes{
			Backend: o.Backend,
			Extra:   1,
			Layers: slices.Repeat([]kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}},
				c.blockCount()),
		},
		ModelSpec: model.Spec{
			Shape:    []int{c.Tokens},
			Outcomes: c.Codes,
			Mask:     int32(c.Codes),
			Fixed:    true,
			Classes:  c.Classes,
		},
		Head: backend.Head{
			W:        l.Matrix(&head.Weight, c.Codes),
			Bias:     l.Vector(l.Floats(&head.Bias)),
			Outcomes: c.Codes,
		},
		Width:   c.Hidden,
		RowSize: (8+c.Depth/2)*c.Hidden + c.Inner, // half of the blocks keep their output for the others
		Pass:    m.runPass,
		Finish:  m.net.finishRows,
	}
	return l.Err()
}

// runPass runs the network over the rows of p.
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	m.work.Prepare(m.b, p.Len(), m.cfg.Hidden, m.cfg.Inner)
	m.net.resize(m.b, p.Len())
	m.ids = append(m.ids[:0], p.Tokens...)
	for i, s := range p.Sequences {
		if p.Full { // position 0 is the class token
			m.ids[s.Row] = m.classToken(p.Condition(i))
		}
	}
	p, err := m.net.runBlocks(ctx, m, p, m.ids)
	return m.work.X, p, err
}

// runAttention computes a block's attention, with queries, keys and values in m.work.QKV and the
// result in m.work.H. In the last block it drops the rows that nobody reads.
func (m *Model) runAttention(p *model.Pass, layer int) *model.Pass {
	return p.Attend(m.b, &m.layer, &m.work, layer, p.RowsToRead(layer == m.cfg.blockCount()-1))
}

// classToken returns the id at position 0: classes follow the mask, and the last id is no class.
func (m *Model) classToken(c *model.Condition) int32 {
	if c == nil || c.Class == model.NoClass {
		return int32(m.cfg.Codes + 1 + m.cfg.Classes)
	}
	return int32(m.cfg.Codes+1) + c.Class
}

// readConfig reads a generator's sizes off its tensors; config.json has the heads.
func readConfig(src *model.Source) (c Config, run publishedRun, err error) {
	var f file
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, run, err
	}
	s := &weights.Sizes{Set: src.Set}
	heads := 16
	classes := 0 // as in all published ones
	if g := f.Model.Generator; g != nil {
		run = g.publishedRun
		n, err := readNumber("num_attention_heads", g.Heads)
		if err != nil {
			return c, run, err
		}
		if classes, err = readNumber("condition_num_classes", g.Classes); err != nil {
			return c, run, err
		}
		if n > 0 {
			heads = n
		}
	}
	c = Config{Kind: "ViT", Heads: heads}
	words := "model.embeddings.word_embeddings.weight"
	head := "model.lm_head.weight"
	if s.Has("mid_block.attn.qkv.weight") {
		c.Kind = "UViT"
		words = "embeddings.weight"
		head = "lm_head.weight"
		c.Depth = 2 * s.Count("in_blocks.", ".norm1.weight")
		c.Inner = s.Dim("mid_block.mlp.fc1.weight", 2, 0)
		c.Tokens = s.Dim("pos_embed", 3, 1) - 1
	} else {
		c.Depth = s.Count("model.encoder.layer.", ".output.dense.weight")
		c.Inner = s.Dim("model.encoder.layer.0.intermediate.dense.weight", 2, 0)
		c.Tokens = s.Dim("model.embeddings.position_embeddings.weight", 2, 0) - 1
	}
	keys := generatorKeys
	keys.RequiredValues = map[string]any{"model_type": c.Kind}
	if err := src.CheckKeys(append(slices.Clip(latents.Settings), keys)...); err != nil {
		return c, run, err
	}
	c.Hidden = s.Dim(words, 2, 1)
	c.Codes = s.Dim(head, 2, 0)
	c.Classes = s.Dim(words, 2, 0) - c.Codes - 2
	if c.Heads < 1 || c.Hidden%c.Heads != 0 {
		s.Fail("config.json: num_attention_heads is %d, want a divisor of the width %d", c.Heads,
			c.Hidden)
	}
	switch {
	case s.Err != nil:
		return c, run, s.Err
	case c.Tokens < 1 || c.Classes < 1:
		return c, run, fmt.Errorf("the embeddings have %d ids and %d positions, want more than %d codes, the "+
			"mask and no class, and a class token",
			c.Codes+c.Classes+2, c.Tokens+1, c.Codes)
	case classes != 0 && classes != c.Classes:
		return c, run, fmt.Errorf("config.json: condition_num_classes is %d, want %d as the embeddings have",
			classes, c.Classes)
	}
	return c, run, nil
}

// loadModel loads a generator. Its image tokenizer is loaded by package latents.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, run, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	recipe, err := c.publishedRecipe(run)
	if err != nil {
		return nil, err
	}
	m, root := New(c)
	report, err := o.Bind(root, src.Set, weights.BindOptions{Ignore: unusedGenerator}, m.packWeights)
	if err != nil {
		return nil, err
	}
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Classes:  imagenet.Classes(c.Classes),
		Recipe:   recipe,
		Presets:  map[string]string{"fid": recipe},
		Info: model.Info{
			Sizes: map[string]int{
				"hidden":  c.Hidden,
				"heads":   c.Heads,
				"blocks":  c.blockCount(),
				"mlp":     c.Inner,
				"length":  c.Tokens,
				"codes":   c.Codes,
				"classes": c.Classes,
				"mask":    c.Codes,
			},
			Parameters: model.Parameters(report.Bound, src.Set),
			Unused:     report.Unused,
		},
	}, nil
}

// unusedGenerator are tensors of published files that generation does not need.
var unusedGenerator = []string{"*.position_ids"}

// matchesSource reports whether a folder has a generator of TiTok.
func matchesSource(src *model.Source) bool {
	return src.HasTensor("model.lm_head.weight") && src.HasTensor("token_type_embeddings.weight") ||
		src.HasTensor("mid_block.attn.qkv.weight")
}

// companions are the image tokenizers of the generators on the hub, which are published without
// them.
var companions = map[string]map[string]string{
	"yucornetto/generator_titok_l32_imagenet": {
		"codec": "yucornetto/tokenizer_titok_l32_imagenet"},
	"yucornetto/generator_titok_b64_imagenet": {
		"codec": "yucornetto/tokenizer_titok_b64_imagenet"},
	"yucornetto/generator_titok_s128_imagenet": {
		"codec": "yucornetto/tokenizer_titok_s128_imagenet"},
}

func init() {
	model.Register(model.Format{
		Name:       "titok",
		Kinds:      []string{"titok"},
		Match:      matchesSource,
		Load:       loadModel,
		Companions: companions,
	})
	model.RegisterCodec(model.CodecFormat{
		Name:  "titok",
		Match: matchesSource,
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			c, _, err := readConfig(src)
			if err != nil {
				return nil, err
			}
			return latents.Open(src, c.Tokens, c.Codes, o)
		},
	})
}
