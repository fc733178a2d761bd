package dit

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/nn/adaln"
	"unmask/weights"
)

// eps is that of all norms.
const eps = 1e-5

// Block is one transformer block: attention and an MLP, each after a norm without bias.
type Block struct {
	Norm1    nn.LayerNorm `weight:"norm1"`
	QKV      nn.Linear    `weight:"attn_qkv"` // [3*hidden, hidden]
	Branches `weight:""`
}

// Branches is what a block does with the result of its attention, and its MLP.
type Branches struct {
	Out   nn.Linear    `weight:"attn_out"` // [hidden, hidden]
	Norm2 nn.LayerNorm `weight:"norm2"`
	Up    nn.Linear    `weight:"mlp.0"` // [mlp, hidden]
	Down  nn.Linear    `weight:"mlp.2"` // [hidden, mlp]

	// Mod makes six vectors [hidden] of the condition: shift, scale and gate of attention, then those
	// of the MLP, in the order of package adaln's constants.
	Mod adaln.Layer `weight:"adaLN_modulation"`
}

// NewBlock returns a block without weights; cond is the width of the condition.
func NewBlock(hidden, mlp, cond int) Block {
	return Block{
		Norm1:    nn.NewLayerNormNoBias(hidden, eps),
		QKV:      nn.NewLinearNoBias(hidden, 3*hidden),
		Branches: NewBranches(hidden, mlp, cond),
	}
}

// NewBranches returns the branches without weights.
func NewBranches(hidden, mlp, cond int) Branches {
	return Branches{
		Out:   nn.NewLinearNoBias(hidden, hidden),
		Norm2: nn.NewLayerNormNoBias(hidden, eps),
		Up:    nn.NewLinear(hidden, mlp),
		Down:  nn.NewLinear(mlp, hidden),
		Mod:   adaln.New(cond, hidden, adaln.Parts),
	}
}

// Load packs the block. A constant condition is folded into norms and projections, see
// adaln.Table.LoadLayer.
func (k *Block) Load(l *nn.Loader, mods *adaln.Table, constant []float32) {
	k.Branches.Load(l, mods, constant, &k.Norm1)
	k.QKV.Load(l)
}

// Load packs the branches and norm, which is modulated as that before attention.
func (k *Branches) Load(l *nn.Loader, mods *adaln.Table, constant []float32, norm *nn.LayerNorm) {
	mod := mods.LoadLayer(l, &k.Mod, constant)
	norm.LoadModulated(l, mod[adaln.Scale1], mod[adaln.Shift1])
	k.Out.LoadGated(l, mod[adaln.Gate1])
	k.Norm2.LoadModulated(l, mod[adaln.Scale2], mod[adaln.Shift2])
	k.Up.Load(l)
	k.Down.LoadGated(l, mod[adaln.Gate2])
}

// ApplyQKV writes queries, keys and values of the rows of w.X to w.QKV. segs are the rows by the
// slot of their condition; nil if that is folded.
func (k *Block) ApplyQKV(b backend.Backend, w *nn.Work, rows int, segs []backend.Segment) {
	k.Norm1.Apply(b, w.H, w.X, rows) // [rows, hidden]
	k.Mod.Modulate(b, w.H, adaln.Scale1, adaln.Shift1, segs)
	k.QKV.Apply(b, w.QKV, w.H, rows, backend.Identity) // [rows, 3*hidden]
}

// AddAttention adds the result of attention, in w.H: x += gate1 * out(h).
func (k *Branches) AddAttention(b backend.Backend, w *nn.Work, rows int,
	segs []backend.Segment) {
	k.addResidual(b, w, &k.Out, w.H, rows, adaln.Gate1, segs)
}

// AddMLP adds the MLP: x += gate2 * mlp(scale2 * norm2(x) + shift2).
func (k *Branches) AddMLP(b backend.Backend, w *nn.Work, rows int, segs []backend.Segment) {
	k.Norm2.Apply(b, w.H, w.X, rows) // [rows, hidden]
	k.Mod.Modulate(b, w.H, adaln.Scale2, adaln.Shift2, segs)
	k.Up.Apply(b, w.Inner, w.H, rows, backend.GELUTanh) // [rows, mlp]
	k.addResidual(b, w, &k.Down, w.Inner, rows, adaln.Gate2, segs)
}

// addResidual adds a branch's projection of x, times its gate (a part of the modulation), to w.X.
func (k *Branches) addResidual(b backend.Backend, w *nn.Work, l *nn.Linear, x *tensor.Dense,
	rows, gate int, segs []backend.Segment) {
	if segs == nil { // the gate is folded into l
		l.AddTo(b, w.X, x, rows) // [rows, hidden]
		return
	}
	l.Apply(b, w.Q, x, rows, backend.Identity) // [rows, hidden]; attention is done with Q
	b.GateAdd(w.X, w.Q, k.Mod.Part(gate), segs)
}

// Output is the last norm and the head.
type Output struct {
	Norm   nn.LayerNorm `weight:"norm_final"`
	Mod    adaln.Layer  `weight:"adaLN_modulation"` // shift, scale
	Linear struct {
		Weight weights.Param `weight:"weight"` // [vocab, hidden]
		Bias   weights.Param `weight:"bias"`   // [vocab]
	} `weight:"linear"`
}

// NewOutput returns the output without weights.
func NewOutput(hidden, vocab, cond int) Output {
	o := Output{Norm: nn.NewLayerNormNoBias(hidden, eps), Mod: adaln.New(cond, hidden, 2)}
	o.Linear.Weight = weights.Param{Shape: []int{vocab, hidden}}
	o.Linear.Bias = weights.Param{Shape: []int{vocab}}
	return o
}

// Load packs the norm, as Branches.Load does. Head packs the head.
func (o *Output) Load(l *nn.Loader, mods *adaln.Table, constant []float32) {
	mod := mods.LoadLayer(l, &o.Mod, constant)
	o.Norm.LoadModulated(l, mod[adaln.Scale1], mod[adaln.Shift1])
}

// Head packs the head, of whose rows the first are outcomes.
func (o *Output) Head(l *nn.Loader, outcomes int) backend.Head {
	return backend.Head{
		W:        l.Matrix(&o.Linear.Weight, o.Linear.Weight.Shape[0]),
		Bias:     l.Vector(l.Floats(&o.Linear.Bias)),
		Outcomes: outcomes,
	}
}

// Apply applies the norm to rows of x.
func (o *Output) Apply(b backend.Backend, x *tensor.Dense, rows int, segs []backend.Segment) {
	o.Norm.Apply(b, x, x, rows)
	o.Mod.Modulate(b, x, adaln.Scale1, adaln.Shift1, segs)
}
