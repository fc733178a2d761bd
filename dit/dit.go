// Package dit is the diffusion transformer of MDLM (Sahoo et al., "Simple and effective
// masked diffusion language models", 2024) and of its distilled students SDTT (Deschenaux &
// Gulcehre, "Beyond autoregression: fast LLMs via self-distillation through time", 2025).
// Text, bidirectional, rotary positions, adaLN modulation.
//
// This file has the network: loading, passes and the transformer block. config.go reads
// config.json, time.go the noise level's embedding.
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

// unused are tensors of published files that inference does not need; of ema the counters.
var unused = []string{"rotary_emb.inv_freq", "ema.*", "noise.*", "*.noise.*", "teacher.*",
	"mask_index"}

func init() {
	model.Register(model.Format{
		Name:  "sdtt",
		Kinds: []string{"mdlm", "sdtt"},
		Match: func(src *model.Source) bool { return src.HasTensor(anchor) },
		Load:  loadModel,
	})
}

// block is one transformer block: attention and an MLP, each after a norm without bias.
type block struct {
	Norm1 nn.LayerNorm `weight:"norm1"`
	QKV   nn.Linear    `weight:"attn_qkv"` // [3*hidden, hidden]
	Out   nn.Linear    `weight:"attn_out"` // [hidden, hidden]
	Norm2 nn.LayerNorm `weight:"norm2"`
	Up    nn.Linear    `weight:"mlp.0"` // [mlp, hidden]
	Down  nn.Linear    `weight:"mlp.2"` // [hidden, mlp]

	// Mod makes six vectors [hidden] of the noise level: shift, scale and gate of attention, then
	// those of the MLP, in the order of package adaln's constants.
	Mod adaln.Layer `weight:"adaLN_modulation"`
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	Embedding weights.Param `weight:"vocab_embed.embedding"` // [vocab, hidden]
	Sigma     timestep      `weight:"sigma_map.mlp"`
	Blocks    []block       `weight:"blocks"`
	Final     nn.LayerNorm  `weight:"output_layer.norm_final"`
	FinalMod  adaln.Layer   `weight:"output_layer.adaLN_modulation"` // shift, scale
	Head      struct {
		Weight weights.Param `weight:"weight"` // [vocab, hidden]
		Bias   weights.Param `weight:"bias"`   // [vocab]
	} `weight:"output_layer.linear"`

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
		Sigma:     timestep{In: nn.NewLinear(frequencies, c.Cond), Out: nn.NewLinear(c.Cond, c.Cond)},
		Blocks:    make([]block, c.Blocks),
		Final:     nn.NewLayerNormNoBias(c.Hidden, eps),
		FinalMod:  adaln.New(c.Cond, c.Hidden, 2),
		cfg:       c,
	}
	for i := range m.Blocks {
		m.Blocks[i] = block{
			Norm1: nn.NewLayerNormNoBias(c.Hidden, eps),
			QKV:   nn.NewLinearNoBias(c.Hidden, 3*c.Hidden),
			Out:   nn.NewLinearNoBias(c.Hidden, c.Hidden),
			Norm2: nn.NewLayerNormNoBias(c.Hidden, eps),
			Up:    nn.NewLinear(c.Hidden, c.MLP),
			Down:  nn.NewLinear(c.MLP, c.Hidden),
			Mod:   adaln.New(c.Cond, c.Hidden, adaln.Parts),
		}
	}
	m.Head.Weight = weights.Param{Shape: []int{c.Vocab, c.Hidden}}
	m.Head.Bias = weights.Param{Shape: []int{c.Vocab}}
	return m
}

const eps = 1e-5

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
	m.Sigma.packWeights(l)
	m.mods = adaln.Table{Backend: m.b, Cond: m.cfg.Cond}
	modulation := func(mod *adaln.Layer) [][]float32 {
		if !m.cfg.TimeConditioned {
			return mod.Constant(l, nn.SiLU(m.Sigma.embedNoise(0)))
		}
		mod.Load(l)
		m.mods.Layers = append(m.mods.Layers, mod)
		return make([][]float32, adaln.Parts) // nil parts: nothing to fold
	}

	for i := range m.Blocks {
		blk := &m.Blocks[i]
		mod := modulation(&blk.Mod)
		blk.Norm1.LoadModulated(l, mod[adaln.Scale1], mod[adaln.Shift1])
		blk.QKV.Load(l)
		blk.Out.LoadGated(l, mod[adaln.Gate1])
		blk.Norm2.LoadModulated(l, mod[adaln.Scale2], mod[adaln.Shift2])
		blk.Up.Load(l)
		blk.Down.LoadGated(l, mod[adaln.Gate2])
	}
	mod := modulation(&m.FinalMod)
	m.Final.LoadModulated(l, mod[adaln.Scale1], mod[adaln.Shift1])

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
		Head: backend.Head{W: l.Matrix(&m.Head.Weight, m.cfg.Vocab),
			Bias: l.Vector(l.Floats(&m.Head.Bias)),
			// MDLM's parametrization SUBS: a position never becomes the mask token, the last one, so
			// it is no outcome.
			Outcomes: m.cfg.Vocab - 1},
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
		shift := m.FinalMod.Part(adaln.Shift1)
		scale := m.FinalMod.Part(adaln.Scale1)
		m.Final.Apply(m.b, w.X, w.X, p.Len())
		m.b.Modulate(w.X, scale, shift, m.segs) // [rows, hidden]
	}
	return w.X, p, nil
}

// runBlock computes one transformer block over the rows of work.X and returns the rows that are
// left. Without time conditioning norms and projections include the modulation.
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	w := &m.work
	b := m.b
	blk := &m.Blocks[i]

	// x += gate1 * out(attention(scale1 * norm1(x) + shift1))
	blk.Norm1.Apply(b, w.H, w.X, p.Len()) // [rows, hidden]
	m.modulate(&blk.Mod, adaln.Scale1, adaln.Shift1)
	blk.QKV.Apply(b, w.QKV, w.H, p.Len(), backend.Identity) // [rows, 3*hidden]
	p = p.Attend(b, &m.layer, w, i, p.RowsToRead(i == len(m.Blocks)-1))
	if p.Len() == 0 {
		return p
	}
	m.updateSegments(p) // the last block may have dropped rows
	m.addResidual(&blk.Out, w.H, p, &blk.Mod, adaln.Gate1)

	// x += gate2 * mlp(scale2 * norm2(x) + shift2)
	blk.Norm2.Apply(b, w.H, w.X, p.Len()) // [rows, hidden]
	m.modulate(&blk.Mod, adaln.Scale2, adaln.Shift2)
	blk.Up.Apply(b, w.Inner, w.H, p.Len(), backend.GELUTanh) // [rows, mlp]
	m.addResidual(&blk.Down, w.Inner, p, &blk.Mod, adaln.Gate2)
	return p
}

// updateSegments sets segs to the rows of a pass by the slot of their sequence's time.
func (m *Model) updateSegments(p *model.Pass) {
	if m.cfg.TimeConditioned {
		m.segs = adaln.SlotSegments(m.segs, p.Sequences, m.slots)
	}
}

// modulate applies two parts of a modulation to work.H, unless they are folded into the norm.
func (m *Model) modulate(mod *adaln.Layer, scale, shift int) {
	if m.cfg.TimeConditioned {
		m.b.Modulate(m.work.H, mod.Part(scale), mod.Part(shift), m.segs) // [rows, hidden]
	}
}

// addResidual adds a branch's projection of x, times its gate (a part of the modulation), to
// work.X.
func (m *Model) addResidual(l *nn.Linear, x *tensor.Dense, p *model.Pass, mod *adaln.Layer,
	gate int) {
	if !m.cfg.TimeConditioned { // the gate is folded into l
		l.AddTo(m.b, m.work.X, x, p.Len()) // [rows, hidden]
		return
	}
	l.Apply(m.b, m.work.Q, x, p.Len(), backend.Identity) // [rows, hidden]; attention is done with Q
	m.b.GateAdd(m.work.X, m.work.Q, mod.Part(gate), m.segs)
}

// finishRows applies the final norm to n rows of x [n, hidden], unless runPass did.
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	if !m.cfg.TimeConditioned {
		m.Final.Apply(m.b, x, x, n)
	}
	return x
}
