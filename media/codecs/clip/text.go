// Package clip is the text side of OpenAI's CLIP (Radford et al., 2021, "Learning transferable
// visual models from natural language supervision"), which conditions image models: its tokenizer
// and its causal transformer.
//
// Checkpoints: openai/clip-vit-large-patch14-336 (MaskGen), and text_encoder/ with tokenizer/ in a
// diffusers folder (aMUSEd), with Hugging Face's names.
package clip

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

const eps = 1e-5

// layer is a transformer layer, norms before the branches.
type layer struct {
	Norm1 nn.LayerNorm `weight:"layer_norm1"`
	Query nn.Linear    `weight:"self_attn.q_proj"`
	Key   nn.Linear    `weight:"self_attn.k_proj"`
	Value nn.Linear    `weight:"self_attn.v_proj"`
	Out   nn.Linear    `weight:"self_attn.out_proj"`
	Norm2 nn.LayerNorm `weight:"layer_norm2"`
	Up    nn.Linear    `weight:"mlp.fc1"`
	Down  nn.Linear    `weight:"mlp.fc2"`

	qkv      nn.JoinedLinear
	down     backend.Matrix // [hidden, inner]
	downBias *tensor.Dense
}

// TextEncoder is the transformer on a backend. One call at a time.
type TextEncoder struct {
	Tokens   nn.Embedding  `weight:"text_model.embeddings.token_embedding"`           // [ids, hidden]
	Position weights.Param `weight:"text_model.embeddings.position_embedding.weight"` // [rows, hidden]
	Layers   []layer       `weight:"text_model.encoder.layers"`
	Final    nn.LayerNorm  `weight:"text_model.final_layer_norm"`
	Project  nn.Linear     `weight:"text_projection"` // [pooled, hidden], no bias

	cfg       Config
	b         backend.Backend
	position  *tensor.Dense // [rows, hidden]: Position on the device
	attention attention.Layer
	work      nn.Work
	rows      attention.Rows
	k, v      *tensor.Dense // [texts, heads, rows, headDim]
	states    *tensor.Dense // [texts*rows, hidden]: the last layer's input
	ends      *tensor.Dense // [texts, hidden]: the state at each text's end
	pooled    *tensor.Dense // [texts, pooled]
}

// Config is the transformer's sizes.
type Config struct {
	Hidden int // width of the residual stream
	Depth  int // layers
	Heads  int
	Inner  int // width inside the MLPs
	Rows   int // positions, 77 as published
	IDs    int // ids of the tokenizer
	Pooled int // width of the projected vector

	// PlainGELU says that the activation is GELU itself, not OpenAI's approximation.
	PlainGELU bool

	// End is the id of a text's end; -1: the largest id of the text.
	End int32
}

// oldEnd is the id in eos_token_id of old files, where the largest id is the end (transformers,
// CLIPTextTransformer).
const oldEnd = 2

// settings are the keys of transformers' CLIPConfig and CLIPTextConfig.
var settings = model.Settings{KnownKeys: `text_config vision_config text_config_dict vision_config_dict
	logit_scale_init_value projection_dim vocab_size hidden_size intermediate_size num_hidden_layers
	num_attention_heads max_position_embeddings hidden_act layer_norm_eps`}

// anchor is a tensor that every text encoder has.
const anchor = "text_model.embeddings.token_embedding.weight"

// unused are tensors of published files that the text side does not need.
var unused = []string{"vision_model.*", "visual_projection.*", "logit_scale",
	"text_model.embeddings.position_ids"}

// readConfig reads the sizes from the tensors; heads and activation are in config.json.
func readConfig(src *model.Source) (c Config, err error) {
	type file struct {
		Heads int    `json:"num_attention_heads"`
		Act   string `json:"hidden_act"`
		End   *int32 `json:"eos_token_id"`
	}
	var f struct {
		file
		Text *file `json:"text_config"` // in a file with both sides
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return c, err
	}
	path := ""
	if f.Text != nil {
		path = "text_config"
		f.file = *f.Text
		f.Heads = cmp.Or(f.Heads, 12) // the default of Hugging Face's class, as in ViT-L/14
		f.Act = cmp.Or(f.Act, "quick_gelu")
	}
	if err := src.CheckKeys(settings, model.Settings{
		Path:           path,
		KnownKeys:      settings.KnownKeys,
		RequiredValues: map[string]any{"layer_norm_eps": eps},
	}); err != nil {
		return c, err
	}
	c.End = -1
	if f.End != nil && *f.End != oldEnd {
		c.End = *f.End
	}
	z := &weights.Sizes{Set: src.Set}
	c.IDs = z.Dim(anchor, 2, 0)
	c.Hidden = z.Dim(anchor, 2, 1)
	c.Rows = z.Dim("text_model.embeddings.position_embedding.weight", 2, 0)
	c.Pooled = z.Dim("text_projection.weight", 2, 0)
	c.Inner = z.Dim("text_model.encoder.layers.0.mlp.fc1.weight", 2, 0)
	c.Depth = z.Count("text_model.encoder.layers.", ".layer_norm1.weight")
	c.Heads = f.Heads
	switch {
	case z.Err != nil:
		return c, fmt.Errorf("%w: not CLIP's text encoder", z.Err)
	case c.Heads < 1 || c.Hidden%c.Heads != 0:
		return c, fmt.Errorf("config.json: num_attention_heads is %d, want a divisor of the width %d",
			c.Heads, c.Hidden)
	case f.Act == "gelu":
		c.PlainGELU = true
	case f.Act != "quick_gelu":
		return c, fmt.Errorf("config.json: hidden_act is %q, want quick_gelu or gelu", f.Act)
	}
	return c, nil
}

// New returns the network without weights.
func New(c Config) *TextEncoder {
	t := &TextEncoder{
		cfg:       c,
		Position:  weights.Param{Shape: []int{c.Rows, c.Hidden}},
		Layers:    make([]layer, c.Depth),
		Final:     nn.NewLayerNorm(c.Hidden, eps),
		Project:   nn.NewLinearNoBias(c.Hidden, c.Pooled),
		attention: attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads, Causal: true},
	}
	t.Tokens.Weight.Shape = []int{c.IDs, c.Hidden}
	square := func() nn.Linear { return nn.NewLinear(c.Hidden, c.Hidden) }
	for i := range t.Layers {
		t.Layers[i] = layer{
			Norm1: nn.NewLayerNorm(c.Hidden, eps),
			Query: square(),
			Key:   square(),
			Value: square(),
			Out:   square(),
			Norm2: nn.NewLayerNorm(c.Hidden, eps),
			Up:    nn.NewLinear(c.Hidden, c.Inner),
			Down:  nn.NewLinear(c.Inner, c.Hidden),
		}
	}
	return t
}

// Load reads the text encoder. src must stay open while it is used, because the rows of ids (152 MB
// in CLIP-L) are read from the file as texts need them.
func Load(src *model.Source, o model.Options) (_ *TextEncoder, err error) {
	defer backend.Recover(&err)
	c, err := readConfig(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	t := New(c)
	if err := weights.Bind(t, src.Set, weights.BindOptions{Ignore: unused}); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	if err := t.packWeights(o); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return t, src.Set.ReleaseAll()
}

// quickGELU is the factor in OpenAI's approximation of GELU, x*sigmoid(1.702x) =
// swish(1.702x)/1.702: it is multiplied into the weights before, and divided out of those after.
const quickGELU = 1.702

// packWeights packs the bound weights.
func (t *TextEncoder) packWeights(o model.Options) error {
	t.b = o.Backend
	t.attention.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	t.position = l.Table(&t.Position)
	l.Load(&t.Final, &t.Project)
	var up []float32
	factor := float32(1)
	if !t.cfg.PlainGELU {
		up = slices.Repeat([]float32{quickGELU}, t.cfg.Inner)
		factor = 1 / float32(quickGELU)
	}
	for i := range t.Layers {
		k := &t.Layers[i]
		l.Load(&k.Norm1, &k.Norm2, &k.Out)
		k.Up.LoadGated(l, up)
		k.packWeights(l, t.cfg, factor)
	}
	return l.Err()
}

// packWeights packs queries, keys and values as one matrix, and the last layer's weights times
// factor.
func (k *layer) packWeights(l *nn.Loader, c Config, factor float32) {
	k.qkv.Load(l, &k.Query, &k.Key, &k.Value)
	k.down = l.Backend.Pack(c.Hidden, c.Inner, l.Precision, func(i int, dst []float32) {
		l.Check(k.Down.Weight.ReadFloat32s(dst, i*c.Inner))
		for j := range dst {
			dst[j] *= factor
		}
	})
	k.downBias = l.Vector(l.Floats(&k.Down.Bias))
	l.Release(&k.Down.Weight)
}

// Config returns the transformer's sizes.
func (t *TextEncoder) Config() Config { return t.cfg }

// Encode returns the prompts of ids [texts, Rows]. States are those before the last layer; Final is
// the output of the last layer and norm; Pooled is the projection of Final's row at the text's end,
// the first position of Config.End or, without it, of the largest id.
func (t *TextEncoder) Encode(ctx context.Context, ids [][]int32) (_ []*model.Prompt, err error) {
	defer backend.Recover(&err)
	c := &t.cfg
	b := t.b
	n := len(ids)
	if n == 0 {
		return nil, nil
	}
	joined, ends, err := t.flattenIDs(ids)
	if err != nil {
		return nil, err
	}
	rows := n * c.Rows
	t.work.Prepare(b, rows, c.Hidden, c.Inner)
	t.states = backend.Grow(b, t.states, rows, c.Hidden)
	t.ends = backend.Grow(b, t.ends, n, c.Hidden)
	t.pooled = backend.Grow(b, t.pooled, n, c.Pooled)
	if t.k == nil || t.k.Shape()[0] < n {
		t.k = b.New(n, c.Heads, c.Rows, t.attention.HeadDim)
		t.v = b.New(n, c.Heads, c.Rows, t.attention.HeadDim)
	}
	t.rows.FillSequences(0, n, c.Rows)
	w := &t.work
	if err := t.Tokens.Gather(b, w.X, joined); err != nil {
		return nil, err
	}
	b.AddRows(w.X, t.position, t.rows.Pos)
	for i := range t.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i == len(t.Layers)-1 {
			b.Gather(t.states, w.X, nn.RowRange(0, rows)) // [texts*rows, hidden]
		}
		t.runLayer(&t.Layers[i], rows)
	}
	t.Final.Apply(b, w.X, w.X, rows)                          // [texts*rows, hidden]
	b.Gather(t.ends, w.X, ends)                               // [texts, hidden]
	t.Project.Apply(b, t.pooled, t.ends, n, backend.Identity) // [texts, pooled]
	return t.readPrompts(n), nil
}

// flattenIDs checks ids [texts, Rows] and returns them as one list, with the row of each text's
// end.
func (t *TextEncoder) flattenIDs(ids [][]int32) (joined, ends []int32, err error) {
	for s, text := range ids {
		if len(text) != t.cfg.Rows {
			return nil, nil, fmt.Errorf("text %d has %d ids, want %d", s, len(text), t.cfg.Rows)
		}
		end := 0
		for i, id := range text {
			if id < 0 || int(id) >= t.cfg.IDs {
				return nil, nil, fmt.Errorf("id %d of text %d is %d, want 0 to %d", i, s, id, t.cfg.IDs-1)
			}
			if t.cfg.End < 0 && id > text[end] { // the first of the largest id, as OpenAI's program has it
				end = i
			}
		}
		if t.cfg.End >= 0 {
			end = max(0, slices.Index(text, t.cfg.End))
		}
		joined = append(joined, text...)
		ends = append(ends, int32(s*t.cfg.Rows+end))
	}
	return joined, ends, nil
}

// runLayer computes one layer over the first rows of t.work.X.
func (t *TextEncoder) runLayer(k *layer, rows int) {
	w := &t.work
	b := t.b
	act := backend.SiLU // of an input times quickGELU, see there
	if t.cfg.PlainGELU {
		act = backend.GELUErf
	}
	k.Norm1.Apply(b, w.H, w.X, rows) // [rows, hidden]
	k.qkv.Apply(b, w.QKV, w.H, rows) // [rows, 3*hidden]
	t.attention.Apply(b, w.H, w.Q, t.k, t.v, w.QKV, &t.rows, t.cfg.Rows)
	k.Out.AddTo(b, w.X, w.H, rows) // [rows, hidden]

	k.Norm2.Apply(b, w.H, w.X, rows)       // [rows, hidden]
	k.Up.Apply(b, w.Inner, w.H, rows, act) // [rows, inner]
	b.Linear(w.X, w.Inner, rows, k.down, backend.Epilogue{Bias: k.downBias, Add: true})
}

// readPrompts reads the latest n prompts from the device.
func (t *TextEncoder) readPrompts(n int) []*model.Prompt {
	c := &t.cfg
	prompts := make([]*model.Prompt, n)
	for i := range prompts {
		p := &model.Prompt{
			Rows:   c.Rows,
			Width:  c.Hidden,
			States: make([]float32, c.Rows*c.Hidden),
			Final:  make([]float32, c.Rows*c.Hidden),
			Pooled: make([]float32, c.Pooled),
		}
		t.b.Read(p.States, t.states, i*c.Rows)
		t.b.Read(p.Final, t.work.X, i*c.Rows)
		t.b.Read(p.Pooled, t.pooled, i)
		prompts[i] = p
	}
	return prompts
}
