// Package halton is Halton-MaskGIT (Besnier et al., 2025, "Halton scheduler for masked generative
// image transformer"): a transformer over a grid of LlamaGen's codes, by class, modulated by adaLN.
//
// Checkpoints: llvictorll/Halton-MaskGIT, ImageNet_256_{tiny,small,base}.pth and
// ImageNet_384_{small,base,large}.pth, through `unmask convert`. The image tokenizer is
// FoundationVision/LlamaGen's vq_ds16_c2i.pt.
package halton

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
	"unmask/weights"
)

const eps = 1e-5

// block is one transformer block: RMS norms modulated by the class, no biases, SwiGLU.
type block struct {
	// shift, scale and gate of attention, then those of the MLP
	Mod   adaln.Layer `weight:"mlp.1"`
	Norm1 nn.RMSNorm  `weight:"ln1"`
	Query nn.Linear   `weight:"attn.wq"` // [heads*headDim, hidden], 510 of 512 in the small model
	Key   nn.Linear   `weight:"attn.wk"`
	Value nn.Linear   `weight:"attn.wv"`
	Out   nn.Linear   `weight:"attn.wo"`
	Norm2 nn.RMSNorm  `weight:"ln2"`
	Gate  nn.Linear   `weight:"ff.w1"`
	Up    nn.Linear   `weight:"ff.w3"`
	Down  nn.Linear   `weight:"ff.w2"`
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

	// [classes+1, hidden], the last row is for no class
	Classes weights.Param `weight:"cls_emb.weight"`
	// [codes+1, hidden], the last row is the mask
	Tokens   weights.Param `weight:"tok_emb.weight"`
	Position weights.Param `weight:"pos_emb.weight"`    // [positions or more, hidden]
	Register weights.Param `weight:"reg_tokens.weight"` // [1, hidden]
	Blocks   []block       `weight:"transformer.layers"`
	Final    weights.Param `weight:"last_norm.norm_final.weight"` // [hidden]
	FinalB   weights.Param `weight:"last_norm.norm_final.bias"`
	FinalMod adaln.Layer   `weight:"last_norm.mlp.1"` // shift, scale
	HeadBias weights.Param `weight:"head.bias"`       // [codes+1]; its weight is tok_emb's

	cfg      Config
	b        backend.Backend
	layer    attention.Layer
	classes  []float32     // [classes+1, hidden]
	tokens   *tensor.Dense // [codes+1, hidden]
	position *tensor.Dense // [registers+positions, hidden]: here registers come first
	final    backend.Norm
	finalB   *tensor.Dense // [1, hidden]
	table    adaln.Table
	w        workspace
}

// workspace is the memory of a pass.
type workspace struct {
	x, h, t    *tensor.Dense    // [rows, hidden]: stream, branch, its projection
	q, k, v, o attention.Buffer // [rows, heads*headDim]
	gate, up   *tensor.Dense    // [rows, inner]

	// ids are the ids of the pass's rows, with the mask's for registers.
	ids []int32

	// registers are the rows of registers, and registerPos their positions.
	registers, registerPos []int32

	keys  []any // the batch's classes
	slots []int32
	mods  []backend.Segment // rows by slot
}

// New returns the network without weights.
func New(c Config) *Model {
	vector := func() weights.Param { return weights.Param{Shape: []int{c.Hidden}} }
	width := c.Heads * c.HeadDim
	m := &Model{
		Classes:  weights.Param{Shape: []int{c.Classes + 1, c.Hidden}},
		Tokens:   weights.Param{Shape: []int{c.Codes + 1, c.Hidden}},
		Position: weights.Param{Shape: []int{c.Positions, c.Hidden}},
		Blocks:   make([]block, c.Depth),
		Final:    vector(),
		FinalB:   vector(),
		FinalMod: adaln.New(c.Hidden, c.Hidden, 2),
		HeadBias: weights.Param{Shape: []int{c.Codes + 1}},
		cfg:      c,
		layer:    attention.Layer{Heads: c.Heads, HeadDim: c.HeadDim},
	}
	if c.Registers > 0 {
		m.Register = weights.Param{Shape: []int{c.Registers, c.Hidden}}
	}
	for i := range m.Blocks {
		m.Blocks[i] = block{
			Mod:   adaln.New(c.Hidden, c.Hidden, adaln.Parts),
			Norm1: nn.NewRMSNorm(c.Hidden, eps),
			Norm2: nn.NewRMSNorm(c.Hidden, eps),
			Query: nn.NewLinearNoBias(c.Hidden, width),
			Key:   nn.NewLinearNoBias(c.Hidden, width),
			Value: nn.NewLinearNoBias(c.Hidden, width),
			Out:   nn.NewLinearNoBias(width, c.Hidden),
			Gate:  nn.NewLinearNoBias(c.Hidden, c.Inner),
			Up:    nn.NewLinearNoBias(c.Hidden, c.Inner),
			Down:  nn.NewLinearNoBias(c.Inner, c.Hidden),
		}
	}
	return m
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	b := o.Backend
	m.b = b
	m.layer.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: b, Precision: o.Precision}
	m.classes = l.Floats(&m.Classes)
	m.tokens = l.Table(&m.Tokens)
	n := c.Side * c.Side
	m.position = b.New(c.Registers+n, c.Hidden)
	if c.Registers > 0 {
		b.Write(m.position, 0, l.Floats(&m.Register))
	}
	b.Write(m.position, c.Registers, l.Floats(&m.Position)[:n*c.Hidden])
	m.table = adaln.Table{Backend: b, Cond: c.Hidden, Layers: []*adaln.Layer{&m.FinalMod}}
	for i := range m.Blocks {
		k := &m.Blocks[i]
		l.Load(&k.Mod, &k.Norm1, &k.Query, &k.Key, &k.Value, &k.Out, &k.Norm2, &k.Gate, &k.Up, &k.Down)
		m.table.Layers = append(m.table.Layers, &k.Mod)
	}
	m.final = backend.Norm{Scale: l.Vector(l.Floats(&m.Final)), Eps: eps}
	m.finalB = b.New(1, c.Hidden)
	b.Write(m.finalB, 0, l.Floats(&m.FinalB))
	m.FinalMod.Load(l)
	m.Network = model.Network{
		Passes: model.Passes{
			Backend: b,
			Extra:   c.Registers,
			Layers:  slices.Repeat([]kvcache.Layer{{Heads: c.Heads, HeadDim: c.HeadDim}}, c.Depth),
		},
		ModelSpec: model.Spec{
			Shape:    []int{c.Side, c.Side},
			Outcomes: c.Codes,
			Mask:     int32(c.Codes),
			Fixed:    true,
			Classes:  c.Classes,
		},
		Head: backend.Head{
			W:        l.Matrix(&m.Tokens, c.Codes+1),
			Bias:     l.Vector(l.Floats(&m.HeadBias)),
			Outcomes: c.Codes,
		}, // the mask has a column too but is not an outcome
		Width: c.Hidden, RowSize: 9*c.Hidden + 2*c.Inner,
		Begin: m.beginBatch, Pass: m.runPass,
	}
	return l.Err()
}

// beginBatch computes the modulations of a batch's classes.
func (m *Model) beginBatch(b *model.Batch) error {
	w := &m.w
	c := &m.cfg
	w.keys = w.keys[:0]
	for i := range b.Size {
		class := c.Classes
		if k := b.Condition(i); k != nil && k.Class != model.NoClass {
			class = int(k.Class)
		}
		w.keys = append(w.keys, class)
	}
	w.slots = m.table.AssignSlots(w.slots, w.keys, func(class any) []float32 {
		return m.classes[class.(int)*c.Hidden:][:c.Hidden]
	})
	return nil
}

// resize makes room for a pass of `rows` rows.
func (m *Model) resize(rows int) {
	w := &m.w
	c := &m.cfg
	b := m.b
	w.x = backend.Grow(b, w.x, rows, c.Hidden)
	w.h = backend.Grow(b, w.h, rows, c.Hidden)
	w.t = backend.Grow(b, w.t, rows, c.Hidden)
	w.gate = backend.Grow(b, w.gate, rows, c.Inner)
	w.up = backend.Grow(b, w.up, rows, c.Inner)
	for _, f := range []*attention.Buffer{&w.q, &w.k, &w.v, &w.o} {
		f.Grow(b, rows, c.Heads, c.HeadDim)
	}
}

// runPass runs the network over a pass's rows and returns the head's input.
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.w
	b := m.b
	m.resize(p.Len())
	m.embedRows(p)
	p, err := p.RunBlocks(ctx, w.x, len(m.Blocks), m.runBlock)
	if err != nil || p.Len() == 0 {
		return w.x, p, err
	}
	b.RMSNorm(w.x, w.x, p.Len(), m.final)
	b.AddRows(w.x, m.finalB, make([]int32, p.Len()))
	b.Modulate(w.x, m.FinalMod.Part(adaln.Scale1), m.FinalMod.Part(adaln.Shift1), w.mods)
	return w.x, p, nil
}

// embedRows sets work.x [rows, hidden] to the embedded rows of a pass; a register has only its own
// vector, which stands in the table of positions.
func (m *Model) embedRows(p *model.Pass) {
	w := &m.w
	b := m.b
	w.mods = adaln.SlotSegments(w.mods, p.Sequences, w.slots)
	w.ids = w.ids[:0]
	w.registers = w.registers[:0]
	w.registerPos = w.registerPos[:0]
	for i, id := range p.Tokens {
		if id < 0 {
			id = int32(m.cfg.Codes)
			w.registers = append(w.registers, int32(i))
			w.registerPos = append(w.registerPos, p.Pos[i])
		}
		w.ids = append(w.ids, id)
	}
	b.Gather(w.x, m.tokens, w.ids)           // [rows, hidden]
	b.AddRows(w.x, m.position, p.Pos)        // [rows, hidden]
	b.Gather(w.h, m.position, w.registerPos) // [registers, hidden]
	b.Scatter(w.x, w.h, w.registers)
}

// runBlock computes one transformer block over the rows of w.x and returns those that are left: the
// last drops what nobody reads.
func (m *Model) runBlock(i int, p *model.Pass) *model.Pass {
	w := &m.w
	b := m.b
	k := &m.Blocks[i]
	keys, values := p.KV(i) // [sequences, heads, positions, headDim]

	// x += gate1 * out(attention(scale1 * norm1(x) + shift1))
	k.Norm1.Apply(b, w.h, w.x, p.Len()) // [rows, hidden]
	b.Modulate(w.h, k.Mod.Part(adaln.Scale1), k.Mod.Part(adaln.Shift1), w.mods)
	k.Query.Apply(b, w.q.T, w.h, p.Len(), backend.Identity) // [rows, heads*headDim]
	k.Key.Apply(b, w.k.T, w.h, p.Len(), backend.Identity)
	k.Value.Apply(b, w.v.T, w.h, p.Len(), backend.Identity)
	b.RMSNorm(w.q.T, w.q.T, p.Len(), backend.Norm{Eps: eps}) // over all heads together
	b.RMSNorm(w.k.T, w.k.T, p.Len(), backend.Norm{Eps: eps})
	w.k.PutRows(b, keys, &p.Rows)
	w.v.PutRows(b, values, &p.Rows)
	if read := p.ReadRows; i == len(m.Blocks)-1 && read != nil {
		p = p.Pick(read)
		w.keepRows(b, read)
		w.mods = adaln.SlotSegments(w.mods, p.Sequences, w.slots)
	}
	n := p.Len()
	if n == 0 {
		return p
	}
	m.layer.Attend(b, w.o.T, w.q.T, keys, values, &p.Rows, p.Keys)
	p.ObserveAttention(i, w.q.T, &m.layer)
	k.Out.Apply(b, w.t, w.o.T, n, backend.Identity) // [rows, hidden]
	b.GateAdd(w.x, w.t, k.Mod.Part(adaln.Gate1), w.mods)

	// x += gate2 * mlp(scale2 * norm2(x) + shift2)
	k.Norm2.Apply(b, w.h, w.x, n) // [rows, hidden]
	b.Modulate(w.h, k.Mod.Part(adaln.Scale2), k.Mod.Part(adaln.Shift2), w.mods)
	k.Up.Apply(b, w.up, w.h, n, backend.Identity)            // [rows, inner]
	k.Gate.ApplyGated(b, w.gate, w.h, w.up, n, backend.SiLU) // [rows, inner]
	k.Down.Apply(b, w.t, w.gate, n, backend.Identity)        // [rows, hidden]
	b.GateAdd(w.x, w.t, k.Mod.Part(adaln.Gate2), w.mods)
	return p
}

// keepRows moves some rows of x and q to the front, in order.
func (w *workspace) keepRows(b backend.Backend, rows []int32) {
	b.Gather(w.h, w.x, rows)
	w.x, w.h = w.h, w.x
	b.Gather(w.o.T, w.q.T, rows)
	w.q, w.o = w.o, w.q
}
