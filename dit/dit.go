// Package dit is the diffusion transformer of MDLM (Sahoo et al., "Simple and effective
// masked diffusion language models", 2024) and of its distilled students SDTT (Deschenaux &
// Gulcehre, "Beyond autoregression: fast LLMs via self-distillation through time", 2025).
// Text, bidirectional, rotary positions, adaLN modulation.
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

// anchor is the tensor that shows a checkpoint's prefix.
const anchor = "vocab_embed.embedding"

// unused are tensors of published files that inference does not need.
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

type block struct {
	Norm1 nn.LayerNorm `weight:"norm1"`
	QKV   nn.Linear    `weight:"attn_qkv"`
	Out   nn.Linear    `weight:"attn_out"`
	Norm2 nn.LayerNorm `weight:"norm2"`
	Up    nn.Linear    `weight:"mlp.0"`
	Down  nn.Linear    `weight:"mlp.2"`
	// six vectors [hidden] by index: 0, 1, 2 are shift, scale and gate of attention; 3, 4, 5 those of
	// the MLP
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
	table *tensor.Dense // [vocab, hidden]
	layer attention.Layer
	work  nn.Work

	// with time conditioning:
	mods  adaln.Table
	times []any // of the batch
	slots []int32
	segs  []backend.Segment // rows of the pass, by slot
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

func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	set, err := src.Set.Rebase(anchor)
	if err != nil {
		return nil, err
	}
	c, tokenizer, notes, err := readConfig(src, set)
	if err != nil {
		return nil, err
	}
	wait := src.StartTokenizer(tokenizer)
	m := New(c)
	report, err := o.Bind(m, set, weights.BindOptions{Ignore: unused}, m.packWeights)
	if err != nil {
		return nil, err
	}
	t, from, err := wait()
	if err != nil {
		return nil, err
	}
	var begin []int32 // as MDLM's data have it: documents are packed, each after this token
	if id, ok := tokenizers.Role(t, "bos_token"); ok && c.Begin == nil {
		begin = []int32{id}
	}
	for _, id := range []*int32{c.Begin, c.Pad} {
		if id != nil && t != nil {
			t = tokenizers.WithMask(t, *id, "")
		}
	}
	loaded := &model.Loaded{Denoiser: m, Kind: model.KindText, Tokenizer: t, BeginTokens: begin}
	loaded.Info = model.Info{
		Sizes: map[string]int{"hidden": c.Hidden, "heads": c.Heads, "blocks": c.Blocks, "cond": c.Cond,
			"mlp": c.MLP, "length": c.Length, "vocabulary": c.Vocab, "mask": c.Vocab - 1},
		Parameters: model.Parameters(report.Bound, src.Set),
		Tokenizer:  from, Unused: report.Unused, Notes: notes,
	}
	return loaded, nil
}

// packWeights packs the bound weights. Without time conditioning every modulation is constant:
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
		return make([][]float32, 6) // nothing to fold
	}
	for i := range m.Blocks {
		blk := &m.Blocks[i]
		mod := modulation(&blk.Mod)
		blk.Norm1.LoadModulated(l, mod[1], mod[0])
		blk.QKV.Load(l)
		blk.Out.LoadGated(l, mod[2])
		blk.Norm2.LoadModulated(l, mod[4], mod[3])
		blk.Up.Load(l)
		blk.Down.LoadGated(l, mod[5])
	}
	mod := modulation(&m.FinalMod)
	m.Final.LoadModulated(l, mod[1], mod[0])
	dim := m.cfg.Hidden / m.cfg.Heads
	m.layer = attention.Layer{Heads: m.cfg.Heads, HeadDim: dim, BF16: o.Precision != backend.F32,
		Rotary: nn.NewRotary(m.b, nn.Frequencies(10000, dim/2), 1, m.cfg.Length)}
	var before []int32
	if m.cfg.Begin != nil {
		before = []int32{*m.cfg.Begin}
	}
	m.Network = model.Network{
		Passes: model.Passes{Backend: o.Backend,
			Layers: slices.Repeat(
				[]kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}}, m.cfg.Blocks)},
		ModelSpec: model.Spec{Shape: []int{m.cfg.Length}, Outcomes: m.cfg.Vocab - 1,
			Mask: int32(m.cfg.Vocab - 1), Ragged: true, Sparse: true,
			BeforeText: before},
		Head: backend.Head{W: l.Matrix(&m.Head.Weight, m.cfg.Vocab),
			Bias:     l.Vector(l.Floats(&m.Head.Bias)),
			Outcomes: m.cfg.Vocab - 1}, // SUBS: the mask token, the last one, is not an outcome
		Width: m.cfg.Hidden,
		// nn.Work, and keys and values of a layer
		RowSize: 8*m.cfg.Hidden + m.cfg.MLP,
		Begin:   m.beginBatch, Pass: m.runPass, Finish: m.finishRows,
	}
	return l.Err()
}

// runPass runs the blocks over the rows of p. The last block drops the rows that nobody reads.
// p.Through and p.Attended hand values to an observer, if there is one (model.Batch.Observer).
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	w.Prepare(m.b, p.Len(), m.cfg.Hidden, m.cfg.MLP)
	m.b.Gather(w.X, m.table, p.Tokens)
	m.updateSegments(p)
	p, err := p.RunBlocks(ctx, w.X, len(m.Blocks), m.runBlock)
	if err != nil || p.Len() == 0 {
		return w.X, p, err
	}
	if m.cfg.TimeConditioned { // the head does not know the sequence
		m.Final.Apply(m.b, w.X, w.X, p.Len())
		m.b.Modulate(w.X, m.FinalMod.Part(adaln.Scale1), m.FinalMod.Part(adaln.Shift1), m.segs)
	}
	return w.X, p, nil
}

// runBlock computes one transformer block over the rows of w.X and returns the rows that are left.
// Without time conditioning norms and projections include the modulation.
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	w := &m.work
	b := m.b
	blk := &m.Blocks[i]
	blk.Norm1.Apply(b, w.H, w.X, p.Len())
	if m.cfg.TimeConditioned {
		b.Modulate(w.H, blk.Mod.Part(adaln.Scale1), blk.Mod.Part(adaln.Shift1), m.segs)
	}
	blk.QKV.Apply(b, w.QKV, w.H, p.Len(), backend.Identity)
	if p = p.Attend(b, &m.layer, w, i, p.RowsToRead(i == len(m.Blocks)-1)); p.Len() == 0 {
		return p
	}
	m.updateSegments(p)
	m.addResidual(&blk.Out, w.H, p, &blk.Mod, adaln.Gate1)

	blk.Norm2.Apply(b, w.H, w.X, p.Len())
	if m.cfg.TimeConditioned {
		b.Modulate(w.H, blk.Mod.Part(adaln.Scale2), blk.Mod.Part(adaln.Shift2), m.segs)
	}
	blk.Up.Apply(b, w.Inner, w.H, p.Len(), backend.GELUTanh)
	m.addResidual(&blk.Down, w.Inner, p, &blk.Mod, adaln.Gate2)
	return p
}

// updateSegments finds the modulations of a pass's rows.
func (m *Model) updateSegments(p *model.Pass) {
	if m.cfg.TimeConditioned {
		m.segs = adaln.SlotSegments(m.segs, p.Sequences, m.slots)
	}
}

// addResidual adds a branch's projection, times its gate (a part of the modulation), to w.X.
func (m *Model) addResidual(l *nn.Linear, x *tensor.Dense, p *model.Pass, mod *adaln.Layer,
	gate int) {
	if !m.cfg.TimeConditioned {
		l.AddTo(m.b, m.work.X, x, p.Len())
		return
	}
	l.Apply(m.b, m.work.Q, x, p.Len(), backend.Identity)
	m.b.GateAdd(m.work.X, m.work.Q, mod.Part(gate), m.segs)
}

// finishRows applies the final norm, unless the passes did.
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	if !m.cfg.TimeConditioned {
		m.Final.Apply(m.b, x, x, n)
	}
	return x
}
