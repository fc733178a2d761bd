// Package encoders is the transformer encoders that were trained to fill masks: BERT (Devlin et
// al. 2019), RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020), ESM-2 (Lin et al. 2023), DPLM
// (Wang et al. 2024) and ESM-C (2024) for proteins, GenMol (Lee et al. 2025) for molecules, and
// ModernBERT (Warner et al. 2024). Such a network is a masked diffusion model without the schedule,
// so every sampler runs on it.
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
		Kinds: kindNames(),
		Match: func(src *model.Source) bool {
			_, ok := familyOf(src)
			return ok
		},
		Load:       loadModel,
		Companions: genmolCompanions,
	})
}

// block is one transformer block. Its norms are before attention and MLP (ESM-2, ESM-C,
// ModernBERT) or after the residual sums (the others). Parameters without a shape do not exist in
// the family.
type block struct {
	Norm1 nn.LayerNorm  `weight:"norm1"`
	Norm2 nn.LayerNorm  `weight:"norm2"`
	Q     nn.Linear     `weight:"q"` // [hidden, hidden]; if Joined all three, [3*hidden, hidden]
	K     nn.Linear     `weight:"k"`
	V     nn.Linear     `weight:"v"`
	QNorm nn.LayerNorm  `weight:"qNorm"` // [hidden]: over all heads together
	KNorm nn.LayerNorm  `weight:"kNorm"`
	Out   nn.Linear     `weight:"out"`
	Gate  nn.Linear     `weight:"gate"`
	Up    nn.Linear     `weight:"up"`
	Down  nn.Linear     `weight:"down"`
	Gated weights.Param `weight:"gated"` // [2*mlp, hidden]: gate and up projection if Joined

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

	// layers are the attention of each layer in the order of computation. ALBERT has more layers than
	// Blocks, because several share one.
	layers []attention.Layer

	work   nn.Work
	thirds thirds
	narrow *tensor.Dense // [rows, embedding]: embeddings before Widen
	head   *tensor.Dense // [rows of one call to the head, embedding]

	// laya is the head for typed questions, and nil where there is none.
	laya *LayaHead

	// von is von's, and nil where there is none.
	von *vonHead
}

// uncachedModel is a Model without partial passes, for ESM-2 and DPLM with token dropout: each of
// their embeddings is scaled by the share of masks in its sequence, so once a position opens, the
// kept keys and values of all other positions are those of another input.
type uncachedModel struct{ fullPasses }

// fullPasses has the methods that models without partial passes keep.
type fullPasses interface {
	model.Locker
	model.Sized
}

// headlessModel is a Model without the head for tokens: its marginals are its last hidden states
// alone.
type headlessModel struct{ fullPasses }

// Forward implements model.Denoiser.
func (h headlessModel) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	marginals, err := h.fullPasses.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	return stateMarginals{marginals.(model.HiddenStates)}, nil
}

// stateMarginals are marginals without logits.
type stateMarginals struct{ model.HiddenStates }

var errHeadless = errors.New("the weights have no head for tokens, only the network below it")

func (stateMarginals) Stats([]int32, *model.Stats) error                  { return errHeadless }
func (stateMarginals) Sample([]int32, *model.Draw) error                  { return errHeadless }
func (stateMarginals) Visit([]int32, func(i int, logits []float32)) error { return errHeadless }

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{
		Words:  matrixParam(c.VocabRows, c.Embed),
		Blocks: make([]block, c.Groups*c.GroupBlocks),
		cfg:    c,
	}
	if c.Positions > 0 {
		m.Positions = matrixParam(c.Positions, c.Embed)
	}
	if c.Types > 0 {
		m.Types = matrixParam(c.Types, c.Embed)
	}
	if c.EmbedNorm {
		m.EmbedNorm = c.newNorm(c.Embed)
	}
	if c.Widened {
		m.Widen = nn.NewLinear(c.Embed, c.Hidden)
	}
	if c.PreNorm {
		m.Final = c.newNorm(c.Hidden)
	}
	if c.FinalUnbiased {
		m.Final = nn.NewLayerNormNoBias(c.Hidden, c.Eps)
	}
	for i := range m.Blocks {
		m.Blocks[i] = newBlock(c, i)
	}
	if c.Headless {
		return m
	}
	m.Dense = nn.NewLinear(c.Hidden, c.Embed)
	m.HeadNorm = c.newNorm(c.Embed)
	if !c.HeadBiased {
		m.Dense = nn.NewLinearNoBias(c.Hidden, c.Embed)
	}
	if !c.Tied {
		m.Decoder = matrixParam(c.VocabRows, c.Embed)
	}
	if c.DecoderBiased {
		m.Bias = weights.Param{Shape: []int{c.VocabRows}}
	}
	return m
}

// matrixParam returns a parameter [rows, width].
func matrixParam(rows, width int) weights.Param { return weights.Param{Shape: []int{rows, width}} }

// newBlock returns block i without weights.
func newBlock(c Config, i int) block {
	linear := nn.NewLinear
	if c.Unbiased {
		linear = nn.NewLinearNoBias
	}
	b := block{
		Norm1: c.newNorm(c.Hidden),
		Norm2: c.newNorm(c.Hidden),
		Out:   linear(c.Hidden, c.Hidden),
		Down:  linear(c.MLP, c.Hidden),
	}
	if i == 0 && c.PreNorm && c.EmbedNorm { // its input has been through the norm of the embeddings
		b.Norm1 = nn.LayerNorm{}
	}
	if c.QKNorm {
		b.QNorm = nn.NewLayerNormNoBias(c.Hidden, c.Eps)
		b.KNorm = nn.NewLayerNormNoBias(c.Hidden, c.Eps)
	}
	if c.Joined {
		b.Q = linear(c.Hidden, 3*c.Hidden)
		b.Gated = matrixParam(2*c.MLP, c.Hidden)
		return b
	}
	b.Q = linear(c.Hidden, c.Hidden)
	b.K = linear(c.Hidden, c.Hidden)
	b.V = linear(c.Hidden, c.Hidden)
	b.Up = linear(c.Hidden, c.MLP)
	if c.Gated {
		b.Gate = linear(c.Hidden, c.MLP)
	}
	return b
}

// loadModel loads a checkpoint as the kind of model that its head makes it: one that fills masks,
// one that embeds texts, or one that answers typed questions.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	src, err := renameVon(src)
	if err != nil {
		return nil, err
	}
	c, set, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	if _, ok := o.Backend.(backend.LocalAttention); c.Window > 0 && !ok {
		return nil, fmt.Errorf("device is %s, want cpu: local attention is not computed there",
			o.Backend.Name())
	}
	m := New(c)
	var laya *Laya
	var von *Von
	ignore := c.family.unused
	if isVon(src) {
		if von, err = newVon(src, m, set); err != nil {
			return nil, err
		}
		ignore = append(slices.Clone(ignore), vonTensors)
	}
	if isLaya(src) {
		if laya, err = newLaya(src, m, set); err != nil {
			return nil, err
		}
		ignore = append(slices.Clone(ignore), layaTensors...)
	}

	// Some files have the head's bias twice, under the head's name and under the decoder's. The
	// decoder's is the one that the authors' class reads.
	names := maps.Clone(c.family.names)
	decoderBias := strings.TrimSuffix(names["decoder"], "weight") + "bias"
	if _, ok := set.Get(decoderBias); ok && !slices.Contains(ignore, decoderBias) {
		names["decoderBias"] = decoderBias
	}
	report, err := o.Bind(m.bindRoot(), set, weights.BindOptions{Names: names, Ignore: ignore},
		m.packWeights)
	if err != nil {
		return nil, err
	}
	named, err := plainNames(src.Set, c.family.names["words"])
	if err != nil {
		return nil, err
	}
	recipe := c.publishedRecipe(src) // adds to c.Notes, so it comes first
	loaded := &model.Loaded{
		Denoiser:  m,
		Kind:      model.KindText,
		Tokenizer: c.tokens.tokenizer,
		PadToken:  c.tokens.pad,
		Recipe:    recipe,
		Info: model.Info{
			Architecture: c.family.name,
			Sizes:        c.describeSizes(),
			Parameters:   model.Parameters(report.Bound, named),
			Unused:       report.Unused,
			Tokenizer:    c.tokens.source,
			Notes:        c.Notes,
		},
	}
	hasOwnBias := names["decoderBias"] != c.family.names["decoderBias"]
	if c.Chat || hasOwnBias || c.newerKeys {
		loaded.Revision = "0.2"
	}
	if c.family.name == genmol {
		loaded.Presets = c.genmolPresets()
		loaded.AnswerLength = genmolFill
	}
	if c.Chat {
		src.Template = chatTemplate
	}
	switch {
	case laya != nil:
		loaded.Denoiser = laya
		loaded.Kind = model.KindVectors
		loaded.Info.Architecture = "laya"
		loaded.Info.Parameters = model.Parameters(src.Set.Names(), src.Set)
		loaded.Info.Unused = nil
	case von != nil:
		loaded.Denoiser = von
		loaded.Kind = model.KindVectors
		loaded.Info.Architecture = "von"
		loaded.Info.Parameters = model.Parameters(src.Set.Names(), src.Set)
		loaded.Info.Unused = nil
		loaded.Info.Notes = append(loaded.Info.Notes, von.describe())
	case c.Headless:
		loaded.Denoiser = headlessModel{m}
		loaded.Kind = model.KindVectors
	case c.TokenDropout:
		loaded.Denoiser = uncachedModel{m}
	}
	return loaded, nil
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.embedding.packTables(m, l)
	for i := range m.Blocks {
		m.Blocks[i].packWeights(c, l)
	}
	m.Final.Load(l)
	caches := slices.Repeat([]kvcache.Layer{{Heads: c.Heads, HeadDim: c.Hidden / c.Heads}}, c.Layers)
	if m.von != nil {
		m.von.packWeights(l)
	}
	if m.laya != nil {
		m.laya.packWeights(l)
		caches = append(caches, m.laya.cacheShapes()...)
	}
	head, raw := m.loadHead(l)
	global := c.newRotary(m.b, c.Theta)
	var local *backend.Rotary
	if c.Window > 0 {
		local = c.newRotary(m.b, c.LocalTheta)
	}
	for i := range c.Layers {
		layer := attention.Layer{
			Heads:   c.Heads,
			HeadDim: c.Hidden / c.Heads,
			Rotary:  global,
			BF16:    o.Precision != backend.F32,
		}
		if c.Local != nil && c.Local[i] {
			layer.Window = c.Window
			layer.Rotary = local
		}
		m.layers = append(m.layers, layer)
	}
	m.Network = model.Network{
		Passes: model.Passes{
			Backend: m.b,
			Local:   c.Window > 0,
			Layers:  caches,
		},
		ModelSpec: model.Spec{
			Shape:      []int{c.Length},
			Outcomes:   c.VocabRows,
			Mask:       c.Mask,
			Ragged:     true,
			AllRows:    c.family.name == "esmc",
			TextLength: c.textLength(),
			BeforeText: c.tokens.before,
			AfterText:  c.tokens.after,
			EndTokens:  c.tokens.ends,
			NeverDrawn: c.tokens.forbidden,
			Fillers:    c.fillers(),
		},
		Head:         head,
		RawHead:      &raw,
		Width:        c.Hidden,
		RowSize:      8*c.Hidden + c.MLP,
		Begin:        m.beginBatch,
		Pass:         m.runPass,
		Finish:       m.finishRows,
		FinishStates: m.normLast,
	}
	return l.Err()
}

// packWeights packs the block's weights. The scale of its branches is folded into their last
// layers.
func (blk *block) packWeights(c *Config, l *nn.Loader) {
	l.Load(&blk.Norm1, &blk.Norm2, &blk.QNorm, &blk.KNorm)
	var scale []float32
	if c.BranchScale != 0 && c.BranchScale != 1 {
		scale = slices.Repeat([]float32{float32(c.BranchScale)}, c.Hidden)
	}
	blk.Out.LoadGated(l, scale)
	blk.Down.LoadGated(l, scale)
	if c.Joined {
		blk.qkv.Load(l, &blk.Q)
		blk.mlp.LoadJoined(l, &blk.Gated)
		return
	}
	blk.qkv.Load(l, &blk.Q, &blk.K, &blk.V)
	l.Load(&blk.Up)
	if c.Gated {
		l.Load(&blk.Gate)
		blk.mlp.Gate = blk.Gate
		blk.mlp.Up = blk.Up
	}
}

// loadHead packs the head for tokens: raw as it is, and head with a bias that forbids special
// tokens.
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
	raw = backend.Head{W: l.Matrix(decoder, c.VocabRows), Bias: l.Vector(bias), Outcomes: c.VocabRows}
	head = raw
	head.Bias = l.Vector(c.forbidTokens(bias))
	return head, raw
}

// forbidTokens returns a copy of the head's bias that forbids special tokens; bias [rows] may be
// nil.
func (c *Config) forbidTokens(bias []float32) []float32 {
	allowed := make([]float32, c.VocabRows)
	copy(allowed, bias)
	for _, id := range c.tokens.forbidden {
		allowed[id] = float32(math.Inf(-1))
	}
	return allowed
}

// blockAt returns the block of layer i, counted from 0; in ALBERT the layers of a group share
// theirs.
func (m *Model) blockAt(i int) *block {
	c := &m.cfg
	fileLayers := c.Layers / c.GroupBlocks // as config.json counts them, each of GroupBlocks blocks
	group := i / c.GroupBlocks * c.Groups / fileLayers
	return &m.Blocks[group*c.GroupBlocks+i%c.GroupBlocks]
}

// beginBatch computes the factors by which a batch's embeddings are scaled. Chains of a complex are
// refused: positions would have to see those of their own chain only.
func (m *Model) beginBatch(b *model.Batch) error {
	if m.cfg.family.name == "esmc" && slices.Contains(b.Tokens, chainBreakID) {
		return fmt.Errorf("token %d of ESM-C is %s, want a protein of one chain", chainBreakID, chainBreak)
	}
	if m.cfg.TokenDropout {
		m.embedding.computeExcess(b, m.cfg.Mask)
	}
	return nil
}

// runPass runs the blocks over the rows of p and returns their hidden states [rows, hidden]. The
// last layer drops the rows that nobody reads. p.RunBlocks and p.Attend hand values to an observer,
// if there is one (model.Batch.Observer).
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	w.Prepare(m.b, p.Len(), m.cfg.Hidden, m.cfg.MLP)
	m.embedRows(p) // w.X [rows, hidden]
	p, err := p.RunBlocks(ctx, w.X, len(m.layers), m.runBlock)
	if err != nil || p.Len() == 0 {
		return w.X, p, err
	}
	if m.laya != nil {
		m.Final.Apply(m.b, w.X, w.X, p.Len()) // [rows, hidden]
		p = m.laya.runPass(m.b, w, p, len(m.layers))
	}
	return w.X, p, nil
}

// normLast applies the last norm to n hidden states x [n, hidden], unless runPass did.
func (m *Model) normLast(x *tensor.Dense, n int) *tensor.Dense {
	if m.cfg.PreNorm && m.laya == nil {
		m.Final.Apply(m.b, x, x, n)
	}
	return x
}

// finishRows returns the decoder's input [n, embedding] for n hidden states x [n, hidden].
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	m.head = backend.Grow(m.b, m.head, n, m.cfg.Embed)
	x = m.normLast(x, n)
	m.Dense.Apply(m.b, m.head, x, n, m.cfg.HeadActivation) // [n, embedding]
	m.HeadNorm.Apply(m.b, m.head, m.head, n)               // [n, embedding]
	return m.head
}

// runBlock computes one transformer block over the rows of work.X and returns the rows that are
// left. With norms before the branches it is
//
//	x += out(attention(norm1(x)));  x += mlp(norm2(x))
//
// and with norms after them
//
//	x = norm1(x + out(attention(x)));  x = norm2(x + mlp(x))
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	keep := p.RowsToRead(i == len(m.layers)-1 && m.laya == nil)
	m.computeBlock(i, p.Len(), func() int {
		p = p.Attend(m.b, &m.layers[i], &m.work, i, keep)
		return p.Len()
	})
	return p
}

// computeBlock computes a block over so many rows of work.X. attend computes attention, from
// work.QKV to work.H, and returns how many rows are left.
func (m *Model) computeBlock(i, rows int, attend func() (left int)) {
	w := &m.work
	b := m.b
	blk := m.blockAt(i)
	preNorm := m.cfg.PreNorm

	input := w.X
	if preNorm && blk.Norm1.Weight.Shape != nil { // ModernBERT's first block has no norm
		blk.Norm1.Apply(b, w.H, w.X, rows) // [rows, hidden]
		input = w.H
	}
	blk.qkv.Apply(b, w.QKV, input, rows) // [rows, 3*hidden]
	if m.cfg.QKNorm {
		m.thirds.norm(b, w, 0, &blk.QNorm, rows)
		m.thirds.norm(b, w, 1, &blk.KNorm, rows)
	}
	n := attend() // w.H [n, hidden]
	if n == 0 {
		return
	}
	blk.Out.AddTo(b, w.X, w.H, n) // [rows, hidden]

	input = w.X
	if preNorm {
		blk.Norm2.Apply(b, w.H, w.X, n) // [rows, hidden]
		input = w.H
	} else {
		blk.Norm1.Apply(b, w.X, w.X, n) // [n, hidden]
	}
	if m.cfg.Gated {
		blk.mlp.Inner(b, w.Inner, input, n, m.cfg.Activation) // [rows, mlp]
	} else {
		blk.Up.Apply(b, w.Inner, input, n, m.cfg.Activation) // [rows, mlp]
	}
	blk.Down.AddTo(b, w.X, w.Inner, n) // [rows, hidden]
	if !preNorm {
		blk.Norm2.Apply(b, w.X, w.X, n) // [rows, hidden]
	}
}
