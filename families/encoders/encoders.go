// Package encoders is the transformer encoders that were trained to fill masks: BERT (Devlin et
// al. 2019), RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020), ESM-2 (Lin et al. 2023) and DPLM
// (Wang et al. 2024) for proteins, and ModernBERT (Warner et al. 2024). Such a network is a masked
// diffusion model without the schedule, so every sampler runs on it.
//
// This file has the network: loading, passes and the transformer block. config.json and the
// families are in config.go, the tensors' names in names.go, embeddings in embed.go, the tokenizer
// and the special tokens in tokens.go.
package encoders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

func init() {
	model.Register(model.Format{
		Name:  "encoder",
		Kinds: kinds(),
		Match: func(src *model.Source) bool {
			_, ok := familyOf(src)
			return ok
		},
		Load: load,
	})
}

// block is one transformer block. Its norms are before attention and MLP (ESM-2, ModernBERT) or
// after the residual sums (the others). Parameters without a shape do not exist in the family.
type block struct {
	Norm1 nn.LayerNorm  `weight:"norm1"`
	Norm2 nn.LayerNorm  `weight:"norm2"`
	Q     nn.Linear     `weight:"q"` // in ModernBERT Q holds all three
	K     nn.Linear     `weight:"k"`
	V     nn.Linear     `weight:"v"`
	Out   nn.Linear     `weight:"out"`
	Up    nn.Linear     `weight:"up"`
	Down  nn.Linear     `weight:"down"`
	Gated weights.Param `weight:"gated"` // [2*mlp, hidden]: ModernBERT's gate and up projection

	qkv nn.JoinedLinear
	mlp nn.GatedMLP
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	Words     weights.Param `weight:"words"`     // [rows, embedding]
	Positions weights.Param `weight:"positions"` // [positions, embedding]
	Types     weights.Param `weight:"types"`     // [types, embedding]
	EmbedNorm nn.LayerNorm  `weight:"embedNorm"`
	Widen     nn.Linear     `weight:"widen"` // ALBERT: from the embedding's width to the network's
	Blocks    []block       `weight:"blocks"`
	Final     nn.LayerNorm  `weight:"final"`
	Dense     nn.Linear     `weight:"dense"` // the head: dense, activation, norm, decoder
	HeadNorm  nn.LayerNorm  `weight:"headNorm"`
	Decoder   weights.Param `weight:"decoder"`     // [rows, embedding]; no shape if it is Words
	Bias      weights.Param `weight:"decoderBias"` // [rows]

	cfg       Config
	b         backend.Backend
	embedding embedding
	layers    []attention.Layer // of each block in the order of computation
	work      nn.Work
	narrow    *tensor.Dense // [rows, embedding]
	head      *tensor.Dense // [rows of one call to the head, embedding]
	laya      *layaHead     // nil where there is none
}

// uncached is a Model without partial passes, for ESM-2 and DPLM with token dropout: each of their
// embeddings is scaled by the share of masks in its sequence, so once a position opens, the kept
// keys and values of all other positions are those of another input.
type uncached struct{ fullPasses }

type fullPasses interface {
	model.Locker
	model.Sized
}

// headless is a Model without the head for tokens: its marginals are its last hidden states alone.
type headless struct{ fullPasses }

// Forward implements model.Denoiser.
func (h headless) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	marginals, err := h.fullPasses.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	return states{marginals.(model.HiddenStates)}, nil
}

// states are marginals without logits.
type states struct{ model.HiddenStates }

var errHeadless = errors.New("the weights have no head for tokens, only the network below it")

func (states) Stats([]int32, *model.Stats) error                  { return errHeadless }
func (states) Sample([]int32, *model.Draw) error                  { return errHeadless }
func (states) Visit([]int32, func(i int, logits []float32)) error { return errHeadless }

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{Words: matrix(c.Rows, c.Embed), Blocks: make([]block, c.Groups*c.Inner), cfg: c}
	if c.Positions > 0 {
		m.Positions = matrix(c.Positions, c.Embed)
	}
	if c.Types > 0 {
		m.Types = matrix(c.Types, c.Embed)
	}
	if c.EmbedNorm {
		m.EmbedNorm = c.norm(c.Embed)
	}
	if c.Widened {
		m.Widen = nn.NewLinear(c.Embed, c.Hidden)
	}
	if c.Pre {
		m.Final = c.norm(c.Hidden)
	}
	for i := range m.Blocks {
		m.Blocks[i] = newBlock(c, i)
	}
	if c.Headless {
		return m
	}
	m.Dense, m.HeadNorm = nn.NewLinear(c.Hidden, c.Embed), c.norm(c.Embed)
	if !c.HeadBiased {
		m.Dense = nn.NewLinearNoBias(c.Hidden, c.Embed)
	}
	if !c.Tied {
		m.Decoder = matrix(c.Rows, c.Embed)
	}
	if c.DecoderBiased {
		m.Bias = weights.Param{Shape: []int{c.Rows}}
	}
	return m
}

func matrix(rows, width int) weights.Param { return weights.Param{Shape: []int{rows, width}} }

func newBlock(c Config, i int) block {
	b := block{Norm1: c.norm(c.Hidden), Norm2: c.norm(c.Hidden)}
	if c.Gated {
		if i == 0 { // the norm of the embeddings takes its place
			b.Norm1 = nn.LayerNorm{}
		}
		b.Q, b.Out = nn.NewLinearNoBias(c.Hidden, 3*c.Hidden), nn.NewLinearNoBias(c.Hidden, c.Hidden)
		b.Gated, b.Down = matrix(2*c.MLP, c.Hidden), nn.NewLinearNoBias(c.MLP, c.Hidden)
		return b
	}
	square := func() nn.Linear { return nn.NewLinear(c.Hidden, c.Hidden) }
	b.Q, b.K, b.V, b.Out = square(), square(), square(), square()
	b.Up, b.Down = nn.NewLinear(c.Hidden, c.MLP), nn.NewLinear(c.MLP, c.Hidden)
	return b
}

func load(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, set, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	if _, ok := o.Backend.(backend.LocalAttention); c.Window > 0 && !ok {
		return nil, fmt.Errorf("device is %s, want cpu: local attention is not computed there",
			o.Backend.Name())
	}
	m, laya := New(c), (*Laya)(nil)
	ignore := c.family.unused
	if isLaya(src) {
		if laya, err = newLaya(src, m, set); err != nil {
			return nil, err
		}
		ignore = append(slices.Clone(ignore), layaTensors...)
	}
	names := maps.Clone(c.family.names)
	own := strings.TrimSuffix(names["decoder"], "weight") + "bias" // is the one used
	if _, ok := set.Get(own); ok && !slices.Contains(ignore, own) {
		names["decoderBias"] = own
	}
	report, err := o.Bind(m.root(), set, weights.BindOptions{Names: names, Ignore: ignore}, m.load)
	if err != nil {
		return nil, err
	}
	named, err := plainNames(src.Set, c.family.names["words"])
	if err != nil {
		return nil, err
	}
	recipe := c.recipe(src) // and its notes
	loaded := &model.Loaded{Kind: model.KindText, Tokenizer: c.tokens.t, Recipe: recipe,
		Info: model.Info{Architecture: c.family.name, Sizes: c.sizes(), Unused: report.Unused,
			Parameters: model.Parameters(report.Bound, named), Tokenizer: c.tokens.from, Notes: c.Notes}}
	loaded.Denoiser = m
	if c.Chat {
		src.Template = chatTemplate
	}
	switch {
	case laya != nil:
		loaded.Denoiser, loaded.Kind, loaded.Info.Architecture = laya, model.KindVectors, "laya"
		loaded.Info.Parameters, loaded.Info.Unused = model.Parameters(src.Set.Names(), src.Set), nil
	case c.Headless:
		loaded.Denoiser, loaded.Kind = headless{m}, model.KindVectors
	case c.Dropout:
		loaded.Denoiser = uncached{m}
	}
	return loaded, nil
}

// load packs the bound weights.
func (m *Model) load(o model.Options) error {
	c := &m.cfg
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.embedding.load(m, l)
	for i := range m.Blocks {
		blk := &m.Blocks[i]
		l.Load(&blk.Norm1, &blk.Norm2, &blk.Out)
		if c.Gated {
			blk.qkv.Load(l, &blk.Q)
			blk.mlp.Down = blk.Down
			blk.mlp.LoadJoined(l, &blk.Gated)
			continue
		}
		blk.qkv.Load(l, &blk.Q, &blk.K, &blk.V)
		l.Load(&blk.Up, &blk.Down)
	}
	m.Final.Load(l)
	caches := slices.Repeat([]kvcache.Layer{{Heads: c.Heads, HeadDim: c.Hidden / c.Heads}}, c.Layers)
	if m.laya != nil {
		m.laya.load(l)
		caches = append(caches, m.laya.caches()...)
	}
	head, raw := m.loadHead(l)
	global, local := c.rotary(m.b, c.Theta), (*backend.Rotary)(nil)
	if c.Window > 0 {
		local = c.rotary(m.b, c.LocalTheta)
	}
	for i := range c.Layers {
		layer := attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads, Rotary: global,
			BF16: o.Precision != backend.F32}
		if c.Local != nil && c.Local[i] {
			layer.Window, layer.Rotary = c.Window, local
		}
		m.layers = append(m.layers, layer)
	}
	m.Network = model.Network{
		Passes: model.Passes{Backend: m.b, Local: c.Window > 0,
			Layers: caches},
		ModelSpec: model.Spec{Shape: []int{c.Length}, Outcomes: c.Rows, Mask: c.Mask, Ragged: true,
			BeforeText: c.tokens.before, AfterText: c.tokens.after, EndTokens: c.tokens.ends},
		Head: head, RawHead: &raw, Width: c.Hidden, RowSize: 8*c.Hidden + c.MLP,
		Begin: m.begin, Pass: m.pass, Finish: m.finish, FinishStates: m.last,
	}
	return l.Err()
}

// loadHead packs the head for tokens, without and with special tokens.
func (m *Model) loadHead(l *nn.Loader) (head, raw backend.Head) {
	c := &m.cfg
	if c.Headless {
		return head, raw
	}
	l.Load(&m.Dense, &m.HeadNorm)
	decoder := &m.Decoder
	if c.Tied {
		decoder = &m.Words
	}
	bias := l.Floats(&m.Bias)
	raw = backend.Head{W: l.Matrix(decoder, c.Rows), Bias: l.Vector(bias), Outcomes: c.Rows}
	head = raw
	head.Bias = l.Vector(c.forbid(bias))
	return head, raw
}

// forbid returns a copy of the head's bias that forbids special tokens; bias [rows] may be nil.
func (c *Config) forbid(bias []float32) []float32 {
	allowed := make([]float32, c.Rows)
	copy(allowed, bias)
	for _, id := range c.tokens.forbidden {
		allowed[id] = float32(math.Inf(-1))
	}
	return allowed
}

// at returns the block of layer i, counted from 0; in ALBERT the layers of a group share theirs.
func (m *Model) at(i int) *block {
	c := &m.cfg
	layers := c.Layers / c.Inner // as config.json counts them, each of Inner blocks
	group := i / c.Inner * c.Groups / layers
	return &m.Blocks[group*c.Inner+i%c.Inner]
}

// begin computes the factors by which a batch's embeddings are scaled.
func (m *Model) begin(b *model.Batch) error {
	if m.cfg.Dropout {
		m.embedding.excess(b, m.cfg.Mask)
	}
	return nil
}

// pass runs the blocks over the rows of p. The last layer drops the rows that nobody reads.
// p.Through and p.Attended hand values to an observer, if there is one (model.Batch.Observer).
func (m *Model) pass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	w.Prepare(m.b, p.Len(), m.cfg.Hidden, m.cfg.MLP)
	m.embed(p)
	p, err := p.RunBlocks(ctx, w.X, len(m.layers), m.block)
	if err != nil || p.Len() == 0 {
		return w.X, p, err
	}
	if m.laya != nil {
		m.Final.Apply(m.b, w.X, w.X, p.Len())
		p = m.laya.pass(m.b, w, p, len(m.layers))
	}
	return w.X, p, nil
}

// last returns n hidden states after the last norm.
func (m *Model) last(x *tensor.Dense, n int) *tensor.Dense {
	if m.cfg.Pre && m.laya == nil {
		m.Final.Apply(m.b, x, x, n)
	}
	return x
}

// finish returns the decoder's input [n, embedding] for n hidden states.
func (m *Model) finish(x *tensor.Dense, n int) *tensor.Dense {
	m.head = backend.Grow(m.b, m.head, n, m.cfg.Embed)
	x = m.last(x, n)
	m.Dense.Apply(m.b, m.head, x, n, m.cfg.HeadAct)
	m.HeadNorm.Apply(m.b, m.head, m.head, n)
	return m.head
}

// block computes one transformer block over the rows of w.X and returns the rows that are left.
func (m *Model) block(i int, p *model.Pass) *model.Pass {
	w, b, blk, pre := &m.work, m.b, m.at(i), m.cfg.Pre
	in := w.X
	if pre && blk.Norm1.Weight.Shape != nil {
		blk.Norm1.Apply(b, w.H, w.X, p.Len())
		in = w.H
	}
	blk.qkv.Apply(b, w.QKV, in, p.Len())
	keep := p.RowsToRead(i == len(m.layers)-1 && m.laya == nil)
	if p = p.Attend(b, &m.layers[i], w, i, keep); p.Len() == 0 {
		return p
	}
	blk.Out.AddTo(b, w.X, w.H, p.Len())

	in = w.X
	if pre {
		blk.Norm2.Apply(b, w.H, w.X, p.Len())
		in = w.H
	} else {
		blk.Norm1.Apply(b, w.X, w.X, p.Len())
	}
	if m.cfg.Gated {
		blk.mlp.Inner(b, w.Inner, in, p.Len(), m.cfg.Act)
		blk.mlp.Down.AddTo(b, w.X, w.Inner, p.Len())
	} else {
		blk.Up.Apply(b, w.Inner, in, p.Len(), m.cfg.Act)
		blk.Down.AddTo(b, w.X, w.Inner, p.Len())
	}
	if !pre {
		blk.Norm2.Apply(b, w.X, w.X, p.Len())
	}
	return p
}
