// Package llama is the transformer of masked diffusion language models that descend from Llama: RMS
// norms, rotary positions, grouped-query attention, gated MLPs and no causal mask. In LLaDA (Nie et
// al. 2025), Dream (Ye et al. 2025), DiffuCoder, iLLaDA and dLLM's small Qwens rows attend to all
// positions; in SDAR, Fast-dLLM v2 and LLaDA2 to their own block of positions and those before it;
// in Nemotron-Labs-Diffusion and WeDLM final tokens see only those before them.
//
// This file has the network: loading, passes and the transformer block. Checkpoints and their
// config.json are in families.go, tensor names in names.go, the published runs in recipe.go,
// LLaDA2's experts in experts.go. causal.go reads the configurations of the causal ones and feed.go
// has their passes, rope.go the rotary embedding and its scalings, lora.go the adapter for drafts.
package llama

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/tokenizers"
	"unmask/weights"
)

func init() {
	model.Register(model.Format{
		Name:  "llama",
		Kinds: kindNames(),
		Match: func(src *model.Source) bool {
			return src.HasTensor("transformer.wte.weight") && src.HasTensor("ff_proj.weight") ||
				src.HasTensor("model.embed_tokens.weight") && src.HasTensor("self_attn.q_proj.weight") ||
				src.HasTensor("model.word_embeddings.weight") || src.HasTensor("diffusion_head.weight")
		},
		Load: loadModel,
	})
}

// unusedTensors are tensors of published files that inference does not need.
var unusedTensors = []string{"*.rotary_emb.inv_freq", "*.rotary_emb.*", "*.k_scale", "*.v_scale",
	"model.transformer.ff_out.weight"} // of a LLaDA whose head is its embedding

// block is one transformer block. Parameters without a shape do not exist in the model's family.
// The names are those of Qwen2, Qwen3 and Llama; names.go has the others.
type block struct {
	Norm1   nn.RMSNorm  `weight:"input_layernorm"`
	Q       nn.Linear   `weight:"self_attn.q_proj"` // [heads*headDim, hidden]; in LLaDA2 all three
	K       nn.Linear   `weight:"self_attn.k_proj"`
	V       nn.Linear   `weight:"self_attn.v_proj"`
	QNorm   nn.RMSNorm  `weight:"self_attn.q_norm"`
	KNorm   nn.RMSNorm  `weight:"self_attn.k_norm"`
	Out     nn.Linear   `weight:"self_attn.o_proj"`
	Conv    *shortConv  `weight:"conv"` // in place of attention, nil in layers with it
	Norm2   nn.RMSNorm  `weight:"post_attention_layernorm"`
	MLP     nn.GatedMLP `weight:"mlp"` // in blocks without experts
	Experts *experts    `weight:"mlp"` // nil if the block has an MLP

	// Draft is added to Out in passes that draft, and nil if the model has no adapter.
	Draft *adapter

	qkv nn.JoinedLinear // [(heads+2*kvHeads)*headDim, hidden]
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	Embedding *nn.Embedding `weight:"embed_tokens"`
	Blocks    []block       `weight:"layers"`
	Final     nn.RMSNorm    `weight:"norm"`

	// Head is [embedding rows, hidden]. It has no shape if the embedding is the head.
	Head weights.Param `weight:"lm_head.weight"`

	cfg   Config
	b     backend.Backend
	layer attention.Layer
	work  *workspace

	// feeds are the networks for Feed, by model.Feeding, and nil if the model has none. They share
	// this one's weights.
	feeds []*Model

	// drafts says that blocks use their Draft.
	drafts bool

	// textless are ids that are never drawn, because they have no text.
	textless []int32

	// embed writes the input of a pass's rows to x [rows, hidden]. If it is nil, the input is the
	// embedding of the rows' tokens.
	embed func(x *tensor.Dense, p *model.Pass)
}

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{
		Embedding: new(nn.Embedding),
		Blocks:    make([]block, c.Layers),
		work:      new(workspace),
		Final:     nn.NewRMSNorm(c.Hidden, c.Eps),
		cfg:       c,
	}
	m.Embedding.Weight.Shape = []int{c.EmbeddingRows, c.Hidden}
	if !c.Tied {
		m.Head.Shape = []int{c.EmbeddingRows, c.Hidden}
	}
	for i := range m.Blocks {
		m.Blocks[i] = newBlock(c, i)
	}
	return m
}

// newBlock returns block i without weights.
func newBlock(c Config, i int) block {
	q := c.Heads * c.HeadDim    // width of the queries
	kv := c.KVHeads * c.HeadDim // width of the keys, and of the values
	b := block{
		Norm1: nn.NewRMSNorm(c.Hidden, c.Eps),
		Norm2: nn.NewRMSNorm(c.Hidden, c.Eps),
	}
	if c.hasConv(i) {
		b.Conv = newShortConv(c.Hidden)
		b.MLP = nn.NewGatedMLP(c.Hidden, c.MLP)
		return b
	}
	b.Out = nn.NewLinearNoBias(q, c.Hidden)
	linear := nn.NewLinearNoBias
	if c.QKVBias {
		linear = nn.NewLinear
	}
	if c.JoinedQKV {
		b.Q = linear(c.Hidden, q+2*kv)
	} else {
		b.Q = linear(c.Hidden, q)
		b.K = linear(c.Hidden, kv)
		b.V = linear(c.Hidden, kv)
	}
	if c.QKNorm {
		b.QNorm = nn.NewRMSNorm(c.HeadDim, c.Eps)
		b.KNorm = nn.NewRMSNorm(c.HeadDim, c.Eps)
	}

	if c.MoE != nil && !c.MoE.Dense[i] {
		b.Experts = newExperts(c)
	} else {
		b.MLP = nn.NewGatedMLP(c.Hidden, c.MLP)
	}
	return b
}

// loadModel loads a checkpoint. A model without a tokenizer loads too, and its tokens are shown as
// numbers: one can still measure it.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	m := New(c)
	set, err := splitExperts(src.Set, &c)
	if err == nil && c.Conv != nil {
		set, err = splitConvInputs(set)
	}
	if err == nil && c.Conv != nil {
		set, err = renameLFM2(set)
	}
	if err != nil {
		return nil, err
	}
	names := c.kind.tensorNames
	if names == nil {
		names = qwenNames
	}
	if err := m.bindDraft(src); err != nil {
		return nil, err
	}
	waitTokenizer := src.StartTokenizer("")
	if c.kind.textOnly {
		t, _, err := waitTokenizer()
		if err == nil {
			m.textless = textlessIDs(t, c.Vocab)
		}
	}
	report, err := o.Bind(m, set, weights.BindOptions{Names: names, Ignore: unusedTensors},
		m.packWeights)
	if err != nil {
		return nil, err
	}
	loaded := &model.Loaded{
		Denoiser: m.publicDenoiser(),
		Kind:     model.KindText,
		Recipe:   c.Recipe,
		Revision: c.Revision,
		Presets:  c.namedPresets(),

		AnswerLength: c.kind.answerLength,
		Info: model.Info{
			Sizes:      c.describeSizes(),
			Parameters: model.Parameters(report.Bound, set),
			Unused:     report.Unused,
			Notes:      c.Notes,
		},
	}
	if c.kind.template != "" {
		src.Template = c.kind.template
	}
	if c.Conv != nil && o.Precision == backend.Int8 {
		loaded.Info.Notes = append(loaded.Info.Notes, "int8 is not measured with this network; in "+
			"another program 8-bit weights changed one token in six")
	}
	if strings.HasPrefix(src.Facts().Type, "a2d-qwen") {
		// dLLM's programs set this unless a caller does (dllm/utils/models.py)
		loaded.Variables = map[string]any{"enable_thinking": false}
	}
	t, name, err := waitTokenizer()
	if err != nil {
		note := "there is no tokenizer.json beside config.json"
		if src.Files == nil {
			note = "the weights were made in memory"
		} else if !errors.Is(err, fs.ErrNotExist) {
			note = err.Error()
		}
		loaded.Tokenizer = tokenizers.Numbers(c.Vocab)
		loaded.Info.Notes = append(loaded.Info.Notes, note+": tokens are shown as numbers")
		return loaded, nil
	}
	loaded.PadToken = m.padToken(t)
	if loaded.PadToken != nil {
		t = tokenizers.WithMask(t, *loaded.PadToken, "")
	}
	loaded.Tokenizer = t
	loaded.Info.Tokenizer = name
	return loaded, nil
}

// padToken returns the special token that fills up a text: config.json's or, if it names none, the
// tokenizer's. nil if there is none, or if it ends texts or is never drawn.
func (m *Model) padToken(t tokenizers.Tokenizer) *int32 {
	c := &m.cfg
	pad, ok := tokenizers.Role(t, "pad_token")
	if len(c.Pad) > 0 {
		pad = c.Pad[0]
		ok = pad >= 0 // some files have -1 for none
	}
	if !ok || int(pad) >= c.Vocab || !tokenizers.IsSpecial(t, pad) || pad == c.Mask ||
		slices.Contains(c.EndTokens, pad) || slices.Contains(m.textless, pad) {
		return nil
	}
	return &pad
}

// textlessIDs returns the ids below rows that have no text in the tokenizer.
func textlessIDs(t tokenizers.Tokenizer, rows int) (ids []int32) {
	for id := range int32(rows) {
		if _, ok := t.Token(id); !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// describeSizes returns the sizes by which users know a model, by their names in reports.
func (c *Config) describeSizes() map[string]int {
	sizes := map[string]int{
		"hidden":     c.Hidden,
		"blocks":     c.Layers,
		"heads":      c.Heads,
		"key heads":  c.KVHeads,
		"head":       c.HeadDim,
		"mlp":        c.MLP,
		"vocabulary": c.Vocab,
		"length":     c.Length,
		"mask":       int(c.Mask),
	}
	if c.Block > 0 {
		sizes["block"] = c.Block
	}
	if c.MoE != nil {
		sizes["experts"] = c.MoE.Count
	}
	return sizes
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	l := m.loadTrunk(o)
	head := &m.Head
	if c.Tied {
		head = &m.Embedding.Weight
	}
	raw := backend.Head{W: l.Matrix(head, c.EmbeddingRows), Outcomes: c.Vocab}
	m.setUpPasses(raw, m.forbidMask(raw), o.Precision)
	m.buildFeeds()
	return l.Err()
}

// loadTrunk packs all but the head. It goes tensor by tensor and releases each one's pages of the
// mapped file, because a large model does not fit into memory twice.
func (m *Model) loadTrunk(o model.Options) *nn.Loader {
	c := &m.cfg
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	for i := range m.Blocks {
		blk := &m.Blocks[i]
		l.Load(&blk.Norm1, &blk.QNorm, &blk.KNorm, &blk.Out, &blk.Norm2)
		switch {
		case blk.Conv != nil:
			blk.Conv.packWeights(l)
		case c.JoinedQKV:
			blk.qkv.Load(l, &blk.Q)
		default:
			blk.qkv.Load(l, &blk.Q, &blk.K, &blk.V)
		}
		if blk.Draft != nil {
			blk.Draft.packWeights(l)
		}
		if blk.Experts != nil {
			blk.Experts.packWeights(l)
		} else {
			blk.MLP.Load(l)
		}
	}
	m.Final.Load(l)
	return l
}

// forbidMask returns the head with a bias that forbids the mask. The mask's id may lie anywhere
// among the outcomes, so its column cannot be left out as in other networks.
func (m *Model) forbidMask(head backend.Head) backend.Head {
	forbidden := make([]float32, m.cfg.EmbeddingRows)
	forbidden[m.cfg.Mask] = float32(math.Inf(-1))
	for _, id := range m.textless {
		forbidden[id] = float32(math.Inf(-1))
	}
	head.Bias = m.b.New(m.cfg.EmbeddingRows)
	m.b.Write(head.Bias, 0, forbidden)
	return head
}

// setUpPasses sets up what passes need besides the weights. head forbids the mask, raw does not.
func (m *Model) setUpPasses(raw, head backend.Head, precision backend.Precision) {
	c := &m.cfg
	ordered := c.Causal == model.MasksLast
	causal := c.Block > 0 || ordered
	m.layer = attention.Layer{
		Heads:   c.Heads,
		HeadDim: c.HeadDim,
		KV:      c.KVHeads,
		Causal:  causal,
		Block:   c.Block,
		BF16:    precision != backend.F32,
	}
	m.Network = model.Network{
		Passes: model.Passes{
			Backend:   m.b,
			Causal:    causal,
			Block:     c.Block,
			MasksLast: ordered,
			Mask:      c.Mask,
			Layers:    c.cacheLayers(),
		},
		// The mask is among the outcomes but forbidden.
		ModelSpec: model.Spec{
			Shape:      []int{c.Length},
			Outcomes:   c.Vocab,
			Mask:       c.Mask,
			Ragged:     true,
			Block:      c.Block,
			Blocks:     c.Blocks,
			Causal:     c.Causal,
			Growth:     c.Growth,
			Shifted:    c.Shift,
			Sparse:     !ordered && c.Conv == nil, // neighbours in a convolution would be missing
			EndTokens:  c.EndTokens,
			NeverDrawn: append([]int32{c.Mask}, m.textless...),
			BeforeText: c.Before,
			AfterText:  c.After,
			Tail:       c.Tail,
		},
		Head: head, RawHead: &raw, Width: c.Hidden, RowSize: c.rowSize(),
		Begin: m.beginBatch, Pass: m.runPass, Finish: m.finishRows,
	}
}

// WithBlock implements model.Blockwise: it returns a network with the same weights whose rows see
// their own block of `block` positions and those before it, or all positions if block is 0.
func (m *Model) WithBlock(block int) (model.Denoiser, error) {
	if block < 0 || block&(block-1) != 0 {
		return nil, fmt.Errorf("block is %d, want 0 or a power of two", block)
	}
	if block == m.cfg.Block {
		return m, nil
	}
	c := m.cfg
	c.Block = block
	other := m.withConfig(c)
	other.feeds = m.feeds
	return other, nil
}

// withConfig returns a network with the same weights, lock and working memory, and another
// configuration.
func (m *Model) withConfig(c Config) *Model {
	copied := &Model{
		Embedding: m.Embedding,
		Blocks:    m.Blocks,
		Final:     m.Final,
		Head:      m.Head,
		cfg:       c,
		b:         m.b,
		work:      m.work,
	}
	precision := backend.F32
	if m.layer.BF16 {
		precision = backend.BF16
	}
	copied.setUpPasses(*m.RawHead, m.Network.Head, precision)
	copied.SharesWith = &m.Network
	return copied
}

// beginBatch makes the table of rotations long enough for a batch. The table grows with the
// batches, from 1024 positions, because one for all positions of a long context takes tens of
// megabytes that few runs need.
func (m *Model) beginBatch(b *model.Batch) error {
	if r := m.work.rotary; r == nil || backend.Rows(r.Cos) < b.Length {
		m.work.rotary = m.cfg.newRotary(m.b, min(max(b.Length, 1024), m.cfg.Length))
	}
	m.layer.Rotary = m.work.rotary
	return nil
}

// finishRows applies the final norm to n rows of x [n, hidden].
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	m.Final.Apply(m.b, x, x, n)
	return x
}

// runPass runs the blocks over the rows of p and returns their hidden states [rows, hidden]. The
// last block drops the rows that nobody reads. p.RunBlocks and p.ObserveAttention hand values to an
// observer, if there is one (model.Batch.Observer).
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := m.work
	w.resize(m.b, &m.cfg, p.Len())
	m.computeQueryScales(p)

	if m.embed != nil {
		m.embed(w.x, p) // [rows, hidden]
	} else if err := m.Embedding.Gather(m.b, w.x, p.Tokens); err != nil { // [rows, hidden]
		return nil, nil, err
	}
	p, err := p.RunBlocks(ctx, w.x, len(m.Blocks), m.runBlock)
	return w.x, p, err
}

// runBlock computes one transformer block over the rows of work.x and returns the rows that are
// left.
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	w := m.work
	b := m.b
	blk := &m.Blocks[i]
	keys, values := p.KV(i) // [sequences, kvHeads, positions, headDim]

	// x += out(attention(norm1(x)))
	blk.Norm1.Apply(b, w.h, w.x, p.Len()) // [rows, hidden]
	if blk.Conv != nil {
		p = m.runConv(i, p)
		m.addMLP(blk, p)
		return p
	}
	blk.qkv.Apply(b, w.qkv, w.h, p.Len()) // [rows, (heads+2*kvHeads)*headDim]
	if m.cfg.QKNorm {
		b.NormHeads(w.qkv, p.Len(), m.layer.Shape(p.Keys), blk.QNorm.Norm(), blk.KNorm.Norm())
	}
	m.splitHeads(p, keys, values)

	// From here on the last block needs only the rows that somebody reads: the others' keys and
	// values are stored.
	if read := p.ReadRows; i == len(m.Blocks)-1 && read != nil {
		p = p.Pick(read)
		if p.Len() == 0 {
			return p
		}
		w.keepRows(b, read)
	}
	m.layer.Attend(b, w.attended, w.q, keys, values, &p.Rows, p.Keys) // [rows, heads*headDim]
	p.ObserveAttention(i, w.q, &m.layer)
	blk.Out.AddTo(b, w.x, w.attended, p.Len()) // [rows, hidden]
	if m.drafts && blk.Draft != nil {
		blk.Draft.addOutput(b, w.x, &w.lowRank, w.attended, p.Len())
	}

	m.addMLP(blk, p)
	return p
}

// addMLP computes x += mlp(norm2(x)) for the rows of p.
func (m *Model) addMLP(blk *block, p *model.Pass) {
	w := m.work
	b := m.b
	if p.Len() == 0 {
		return
	}
	blk.Norm2.Apply(b, w.h, w.x, p.Len()) // [rows, hidden]
	if blk.Experts != nil {
		blk.Experts.addOutputs(b, &w.experts, w.x, w.h, p.Len())
		return
	}
	blk.MLP.Inner(b, w.inner, w.h, p.Len(), backend.SiLU) // [rows, mlp]
	blk.MLP.Down.AddTo(b, w.x, w.inner, p.Len())          // [rows, hidden]
}

// runConv computes x += conv(norm1(x)), of which the norm is in work.h, and returns the rows that
// are left.
func (m *Model) runConv(i int, p *model.Pass) *model.Pass {
	w := m.work
	conv := m.Blocks[i].Conv
	inputs, _ := p.KV(i) // [sequences, 1, positions, hidden]
	conv.keepInput(m.b, &w.conv, inputs, w.h, p)
	if read := p.ReadRows; i == len(m.Blocks)-1 && read != nil {
		p = p.Pick(read)
		if p.Len() == 0 {
			return p
		}
		w.keepBranchRows(m.b, read)
	}
	conv.addOutput(m.b, &w.conv, w.x, inputs, w.h, p)
	return p
}

// hasConv reports whether layer i is a short convolution.
func (c *Config) hasConv(i int) bool { return c.Conv != nil && c.Conv[i] }

// cacheLayers returns the shapes of what layers keep.
func (c *Config) cacheLayers() []kvcache.Layer {
	layers := slices.Repeat([]kvcache.Layer{{Heads: c.KVHeads, HeadDim: c.HeadDim}}, c.Layers)
	for i := range layers {
		if c.hasConv(i) {
			layers[i] = convCache(c.Hidden)
		}
	}
	return layers
}
