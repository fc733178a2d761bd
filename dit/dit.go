// Package dit is the diffusion transformer of MDLM (Sahoo et al., "Simple and effective
// masked diffusion language models", 2024) and of its distilled students SDTT (Deschenaux &
// Gulcehre, "Beyond autoregression: fast LLMs via self-distillation through time", 2025).
// Text, bidirectional, rotary positions, adaLN modulation.
//
// This file has the network: loading and passes. block.go has its parts, which PGM's network
// shares, config.go reads config.json, time.go has the noise level's embedding.
//
// Checkpoints: jdeschena/sdtt, one revision a student; kuleshov-group/mdlm-owt.
package dit

import (
	"context"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/adaln"
	"unmask/tokenizers"
	"unmask/weights"
)

// anchor is the tensor that shows a checkpoint's prefix: training programs wrap the network, and
// their files name it backbone.vocab_embed.embedding or the like.
const anchor = "vocab_embed.embedding"

// pgmAnchor is a tensor of PGM's networks, which have the other anchor too (families/pgm).
const pgmAnchor = "decoder.group_swap.base_embedding"

// unused are tensors of published files that inference does not need; of ema the counters.
var unused = []string{"rotary_emb.inv_freq", "ema.*", "noise.*", "*.noise.*", "teacher.*",
	"mask_index"}

func init() {
	model.Register(model.Format{
		Name:  "sdtt",
		Kinds: []string{"mdlm", "sdtt"},
		Match: func(src *model.Source) bool {
			return src.HasTensor(anchor) && !src.HasTensor(pgmAnchor)
		},
		Load: loadModel,
	})
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	Embedding weights.Param `weight:"vocab_embed.embedding"` // [vocab, hidden]
	Sigma     Timestep      `weight:"sigma_map.mlp"`
	Blocks    []Block       `weight:"blocks"`
	Output    Output        `weight:"output_layer"`

	cfg   Config
	b     backend.Backend
	table *tensor.Dense // [vocab, hidden]: Embedding on the device
	layer attention.Layer
	work  nn.Work

	// The following are used with time conditioning only.

	// mods has the modulations of recent noise levels, a slot for each.
	mods adaln.Table

	// times are the times of the batch's sequences, the keys of mods.
	times []any

	// slots has the slot of each of the batch's sequences.
	slots []int32

	// segs are the rows of the current pass by slot, as backend.Modulate takes them.
	segs []backend.Segment
}

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{
		Embedding: weights.Param{Shape: []int{c.Vocab, c.Hidden}},
		Sigma:     NewTimestep(c.Cond),
		Blocks:    make([]Block, c.Blocks),
		Output:    NewOutput(c.Hidden, c.Vocab, c.Cond),
		cfg:       c,
	}
	for i := range m.Blocks {
		m.Blocks[i] = NewBlock(c.Hidden, c.MLP, c.Cond)
	}
	return m
}

// loadModel loads a checkpoint. The tokenizer is parsed beside the weights, because both take about
// as long.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	set, err := src.Set.Rebase(anchor)
	if err != nil {
		return nil, err
	}
	c, tokenizer, notes, err := readConfig(src, set)
	if err != nil {
		return nil, err
	}
	waitTokenizer := src.StartTokenizer(tokenizer)
	m := New(c)
	report, err := o.Bind(m, set, weights.BindOptions{Ignore: unused}, m.packWeights)
	if err != nil {
		return nil, err
	}
	t, tokenizerName, err := waitTokenizer()
	if err != nil {
		return nil, err
	}

	// MDLM was trained on packed documents, each after this token, so a text begins with it.
	var begin []int32
	if id, ok := tokenizers.Role(t, "bos_token"); ok && c.Begin == nil {
		begin = []int32{id}
	}

	pad := c.Pad
	if id, ok := tokenizers.Role(t, "pad_token"); ok && pad == nil && int(id) < c.Vocab-1 {
		pad = &id
	}
	for _, id := range []*int32{c.Begin, pad} {
		if id != nil && t != nil {
			t = tokenizers.WithMask(t, *id, "")
		}
	}
	loaded := &model.Loaded{
		Denoiser:    m,
		Kind:        model.KindText,
		Tokenizer:   t,
		BeginTokens: begin,
		PadToken:    pad,
	}
	loaded.Info = model.Info{
		Sizes: map[string]int{
			"hidden":     c.Hidden,
			"heads":      c.Heads,
			"blocks":     c.Blocks,
			"cond":       c.Cond,
			"mlp":        c.MLP,
			"length":     c.Length,
			"vocabulary": c.Vocab,
			"mask":       c.Vocab - 1,
		},
		Parameters: model.Parameters(report.Bound, src.Set),
		Tokenizer:  tokenizerName,
		Unused:     report.Unused,
		Notes:      notes,
	}
	return loaded, nil
}

// packWeights packs the bound weights.
//
// Without time conditioning every modulation is constant:
// scales and shifts are folded into the norms, gates into the output projections.
func (m *Model) packWeights(o model.Options) error {
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}

	m.table = l.Table(&m.Embedding)
	m.Sigma.Load(l)
	m.mods = adaln.Table{Backend: m.b, Cond: m.cfg.Cond}
	var constant []float32
	if !m.cfg.TimeConditioned {
		constant = nn.SiLU(m.Sigma.Embed(0))
	}
	for i := range m.Blocks {
		m.Blocks[i].Load(l, &m.mods, constant)
	}
	m.Output.Load(l, &m.mods, constant)

	dim := m.cfg.Hidden / m.cfg.Heads
	m.layer = attention.Layer{
		Heads:   m.cfg.Heads,
		HeadDim: dim,
		BF16:    o.Precision != backend.F32,
		Rotary:  nn.NewRotary(m.b, nn.Frequencies(10000, dim/2), 1, m.cfg.Length),
	}
	var before []int32
	if m.cfg.Begin != nil {
		before = []int32{*m.cfg.Begin}
	}
	m.Network = model.Network{
		Passes: model.Passes{Backend: o.Backend,
			Layers: slices.Repeat(
				[]kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}}, m.cfg.Blocks)},
		ModelSpec: model.Spec{
			Shape:      []int{m.cfg.Length},
			Outcomes:   m.cfg.Vocab - 1,
			Mask:       int32(m.cfg.Vocab - 1),
			Ragged:     true,
			Sparse:     true,
			BeforeText: before,
		},
		// MDLM's parametrization SUBS: a position never becomes the mask token, the last one, so it is
		// no outcome.
		Head:  m.Output.Head(l, m.cfg.Vocab-1),
		Width: m.cfg.Hidden,
		// nn.Work has 6*hidden + mlp floats, and a layer's keys and values 2*hidden.
		RowSize: 8*m.cfg.Hidden + m.cfg.MLP,
		Begin:   m.beginBatch,
		Pass:    m.runPass,
		Finish:  m.finishRows,
	}
	return l.Err()
}

// runPass runs the blocks over the rows of p and returns their hidden states [rows, hidden]. The
// last block drops the rows that nobody reads. p.RunBlocks and p.Attend hand values to an observer,
// if there is one (model.Batch.Observer).
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	w.Prepare(m.b, p.Len(), m.cfg.Hidden, m.cfg.MLP)
	m.updateSegments(p)

	m.b.Gather(w.X, m.table, p.Tokens) // [rows, hidden]
	p, err := p.RunBlocks(ctx, w.X, len(m.Blocks), m.runBlock)
	if err != nil || p.Len() == 0 {
		return w.X, p, err
	}

	// The final modulation is applied here and not in finishRows, because the head sees rows without
	// the sequences that they belong to, and so without their times.
	if m.cfg.TimeConditioned {
		m.Output.Apply(m.b, w.X, p.Len(), m.segs) // [rows, hidden]
	}
	return w.X, p, nil
}

// runBlock computes one transformer block over the rows of work.X and returns the rows that are
// left. Without time conditioning norms and projections include the modulation.
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	w := &m.work
	b := m.b
	blk := &m.Blocks[i]

	blk.ApplyQKV(b, w, p.Len(), m.segs) // [rows, 3*hidden]
	p = p.Attend(b, &m.layer, w, i, p.RowsToRead(i == len(m.Blocks)-1))
	if p.Len() == 0 {
		return p
	}
	m.updateSegments(p) // the last block may have dropped rows
	blk.AddAttention(b, w, p.Len(), m.segs)
	blk.AddMLP(b, w, p.Len(), m.segs)
	return p
}

// updateSegments sets segs to the rows of a pass by the slot of their sequence's time.
func (m *Model) updateSegments(p *model.Pass) {
	if m.cfg.TimeConditioned {
		m.segs = adaln.SlotSegments(m.segs, p.Sequences, m.slots)
	}
}

// finishRows applies the final norm to n rows of x [n, hidden], unless runPass did.
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	if !m.cfg.TimeConditioned {
		m.Output.Apply(m.b, x, n, nil)
	}
	return x
}
