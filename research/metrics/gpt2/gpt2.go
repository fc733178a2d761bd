// Package gpt2 is GPT-2 (Radford et al., "Language models are unsupervised multitask learners",
// 2019), used as a judge of generated text: it scores sequences and does not generate.
//
// Checkpoints: openai-community/gpt2, gpt2-medium, gpt2-large (the usual judge), gpt2-xl.
package gpt2

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// anchor is the tensor that shows a checkpoint's prefix, "transformer." or none.
const anchor = "wte.weight"

// unusedTensors are tensors in published files that inference does not need: causal masks, and the
// head if it is stored although it is tied to the embedding.
var unusedTensors = []string{"h.*.attn.bias", "h.*.attn.masked_bias", "lm_head.weight"}

type block struct {
	Norm1 nn.LayerNorm `weight:"ln_1"`
	QKV   conv1D       `weight:"attn.c_attn"`
	Out   conv1D       `weight:"attn.c_proj"`
	Norm2 nn.LayerNorm `weight:"ln_2"`
	Up    conv1D       `weight:"mlp.c_fc"`
	Down  conv1D       `weight:"mlp.c_proj"`
}

// Model is the network on a backend. It owns its working memory: one call at a time.
type Model struct {
	Token    weights.Param `weight:"wte.weight"` // [vocab, hidden]
	Position weights.Param `weight:"wpe.weight"` // [context, hidden]
	Blocks   []block       `weight:"h"`
	Final    nn.LayerNorm  `weight:"ln_f"`

	config Config
	info   model.Info
	device backend.Backend

	// tokens and position are the tables of Token and Position on the device.
	tokens   *tensor.Dense
	position *tensor.Dense

	layer  attention.Layer
	head   backend.Head
	passes model.Passes
	work   workspace
}

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{
		Token:    weights.Param{Shape: []int{c.Vocab, c.Hidden}},
		Position: weights.Param{Shape: []int{c.Context, c.Hidden}},
		Blocks:   make([]block, c.Blocks),
		Final:    nn.NewLayerNorm(c.Hidden, c.Eps),
		config:   c,
		layer:    attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads, Causal: true},
	}
	for i := range m.Blocks {
		m.Blocks[i] = block{
			Norm1: nn.NewLayerNorm(c.Hidden, c.Eps),
			QKV:   newConv1D(c.Hidden, 3*c.Hidden),
			Out:   newConv1D(c.Hidden, c.Hidden),
			Norm2: nn.NewLayerNorm(c.Hidden, c.Eps),
			Up:    newConv1D(c.Hidden, c.MLP),
			Down:  newConv1D(c.MLP, c.Hidden),
		}
	}
	return m
}

// Load loads the network. The precision is that of the blocks; the head stays float32, because a
// negative log-likelihood uses the target's logit from the embedding itself.
func Load(src *model.Source, o model.Options) (*Model, error) {
	m, err := loadModel(src, o)
	if err != nil {
		return nil, fmt.Errorf("%s: gpt2: %w", src.Name, err)
	}
	return m, src.Set.ReleaseAll()
}

// loadModel loads a GPT-2, alone or as the trunk of a language model (GPT2LMHeadModel).
func loadModel(src *model.Source, o model.Options) (_ *Model, err error) {
	defer backend.Recover(&err)
	set, err := src.Set.Rebase(anchor, "", "transformer.")
	if err != nil {
		return nil, err
	}
	c, notes, err := readConfig(src, set)
	if err != nil {
		return nil, err
	}
	m := New(c)
	report, err := o.Bind(m, set, weights.BindOptions{Ignore: unusedTensors}, m.loadWeights)
	if err != nil {
		return nil, err
	}
	m.info = model.Info{
		Architecture: "gpt2",
		Sizes: map[string]int{
			"hidden":     c.Hidden,
			"heads":      c.Heads,
			"blocks":     c.Blocks,
			"mlp":        c.MLP,
			"length":     c.Context,
			"vocabulary": c.Vocab,
		},
		Parameters: model.Parameters(report.Bound, src.Set),
		Tokenizer:  tokenizerName(c),
		Unused:     report.Unused,
		Notes:      notes,
	}
	return m, nil
}

// loadWeights packs the bound weights. The head, which is the table of tokens again, stays in
// float32: perplexities are compared in hundredths.
func (m *Model) loadWeights(o model.Options) error {
	m.device = o.Backend
	m.layer.BF16 = o.Precision != backend.F32
	m.passes = model.Passes{
		Backend: o.Backend,
		Causal:  true,
		Layers: slices.Repeat([]kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}},
			m.config.Blocks),
	}
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.tokens = l.Table(&m.Token)
	m.position = l.Table(&m.Position)
	for i := range m.Blocks {
		blk := &m.Blocks[i]
		l.Load(&blk.Norm1, &blk.QKV, &blk.Out, &blk.Norm2, &blk.Up, &blk.Down)
	}
	m.Final.Load(l)
	l.Precision = backend.F32
	m.head = backend.Head{W: l.Matrix(&m.Token, m.config.Vocab), Outcomes: m.config.Vocab}
	return l.Err()
}

// tokenizerName returns GPT-2's tokenizer if the vocabulary is GPT-2's, and otherwise the one
// beside the weights.
func tokenizerName(c Config) string {
	if c.Vocab == Presets["gpt2"].Vocab {
		return "gpt2"
	}
	return "tokenizer.json"
}

// Info describes the loaded network.
func (m *Model) Info() model.Info { return m.info }

// SpecialTokens returns tokens that are no part of a text: the first of every text, and what fills
// it up.
func (m *Model) SpecialTokens() []int32 { return m.config.SpecialTokens }

// Context returns the number of positions, the longest sequence that can be scored.
func (m *Model) Context() int { return m.config.Context }

// runPass runs the blocks over the rows of p and leaves the final norm's output in m.work.X.
func (m *Model) runPass(ctx context.Context, p *model.Pass) error {
	w := &m.work
	w.Prepare(m.device, p.Len(), m.config.Hidden, m.config.MLP)
	m.device.Gather(w.X, m.tokens, p.Tokens)
	m.device.AddRows(w.X, m.position, p.Pos)
	for i := range m.Blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.runBlock(i, p)
	}
	m.Final.Apply(m.device, w.X, w.X, p.Len())
	return nil
}

// runBlock computes one transformer block over the rows of m.work.X.
func (m *Model) runBlock(i int, p *model.Pass) {
	w := &m.work
	b := m.device
	blk := &m.Blocks[i]
	n := p.Len()
	k, v := p.KV(i)

	blk.Norm1.Apply(b, w.H, w.X, n)
	blk.QKV.apply(b, w.QKV, w.H, n, backend.Identity)
	m.layer.Apply(b, w.H, w.Q, k, v, w.QKV, &p.Rows, p.Keys)
	blk.Out.addTo(b, w.X, w.H, n)

	blk.Norm2.Apply(b, w.H, w.X, n)
	blk.Up.apply(b, w.Inner, w.H, n, m.config.Act)
	blk.Down.addTo(b, w.X, w.Inner, n)
}

// conv1D is a linear layer that GPT-2 stores transposed: y = x W + b.
type conv1D struct {
	Weight weights.Param `weight:"weight"` // [in, out]
	Bias   weights.Param `weight:"bias"`   // [out]

	w backend.Matrix
	b *tensor.Dense
}

// newConv1D returns a layer without weights.
func newConv1D(in, out int) conv1D {
	return conv1D{Weight: weights.Param{Shape: []int{in, out}}, Bias: weights.Param{Shape: []int{out}}}
}

// Load packs the layer.
func (n *conv1D) Load(l *nn.Loader) {
	in := n.Weight.Shape[0]
	out := n.Weight.Shape[1]
	values := l.Floats(&n.Weight)
	n.w = l.Backend.Pack(out, in, l.Precision, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = values[j*out+i]
		}
	})
	n.b = l.Vector(l.Floats(&n.Bias))
}

// apply computes dst[:rows] = f(x[:rows] W + b).
func (n *conv1D) apply(b backend.Backend, dst, x *tensor.Dense, rows int, f backend.Activation) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Act: f})
}

// addTo computes dst[:rows] += x[:rows] W + b.
func (n *conv1D) addTo(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Add: true})
}
