package titok

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// uvit is the generator of S-128: a U-ViT (Bao et al. 2023, "All are worth words: a ViT backbone
// for diffusion models"). Each later block also takes the output of its mirrored earlier block
// (TiTok, modeling/maskgit.py, class UViTMaskGit).
type uvit struct {
	Words    weights.Param `weight:"embeddings.weight"` // [ids, hidden]
	Position weights.Param `weight:"pos_embed"`         // [1, 1+tokens, hidden]
	In       []uvitBlock   `weight:"in_blocks"`
	Mid      uvitBlock     `weight:"mid_block"`
	Out      []uvitBlock   `weight:"out_blocks"`
	Norm     nn.LayerNorm  `weight:"norm"`
	Head     nn.Linear     `weight:"lm_head"`

	b        backend.Backend
	words    *tensor.Dense   // [ids, hidden]
	position *tensor.Dense   // [1+tokens, hidden]
	skips    []*tensor.Dense // outputs of In, [rows, hidden] each
}

const eps = 1e-5

// uvitBlock is a transformer block with norms before the branches.
type uvitBlock struct {
	Norm1 nn.LayerNorm `weight:"norm1"`
	QKV   nn.Linear    `weight:"attn.qkv"`
	Proj  nn.Linear    `weight:"attn.proj"`
	Norm2 nn.LayerNorm `weight:"norm2"`
	FC1   nn.Linear    `weight:"mlp.fc1"`
	FC2   nn.Linear    `weight:"mlp.fc2"`
	Skip  nn.Linear    `weight:"skip_linear"` // in Out only: [hidden, 2*hidden]

	stream, skip backend.Matrix // the two halves of Skip, [hidden, hidden] each
	bias         *tensor.Dense  // [hidden]
}

// newUvitBlock returns a block without weights, with a skip connection if it is one of Out.
func newUvitBlock(c Config, skip bool) uvitBlock {
	k := uvitBlock{
		Norm1: nn.NewLayerNorm(c.Hidden, eps),
		QKV:   nn.NewLinearNoBias(c.Hidden, 3*c.Hidden),
		Proj:  nn.NewLinear(c.Hidden, c.Hidden),
		Norm2: nn.NewLayerNorm(c.Hidden, eps),
		FC1:   nn.NewLinear(c.Hidden, c.Inner),
		FC2:   nn.NewLinear(c.Inner, c.Hidden),
	}
	if skip {
		k.Skip = nn.NewLinear(2*c.Hidden, c.Hidden)
	}
	return k
}

// newUvit returns the network without weights.
func newUvit(c Config) *uvit {
	n := &uvit{
		Words:    weights.Param{Shape: []int{c.idCount(), c.Hidden}},
		Position: weights.Param{Shape: []int{1, c.Tokens + 1, c.Hidden}},
		Mid:      newUvitBlock(c, false),
		Norm:     nn.NewLayerNorm(c.Hidden, eps),
		Head:     nn.NewLinear(c.Hidden, c.Codes),
	}
	for range c.Depth / 2 {
		n.In = append(n.In, newUvitBlock(c, false))
		n.Out = append(n.Out, newUvitBlock(c, true))
	}
	return n
}

// packWeights packs the bound weights and returns the head.
func (n *uvit) packWeights(l *nn.Loader) *nn.Linear {
	n.b = l.Backend
	n.words = l.Table(&n.Words)
	n.position = l.Table(&n.Position)
	l.Load(&n.Norm, &n.Mid)
	for i := range n.In {
		l.Load(&n.In[i], &n.Out[i])
	}
	n.skips = make([]*tensor.Dense, len(n.In))
	return &n.Head
}

// Load packs the layers. Skip reads the stream and the skip as one vector; packed as two matrices,
// it needs no tensor that holds both.
func (k *uvitBlock) Load(l *nn.Loader) {
	l.Load(&k.Norm1, &k.QKV, &k.Proj, &k.Norm2, &k.FC1, &k.FC2)
	if k.Skip.Weight.Shape == nil {
		return
	}
	width := k.Skip.Weight.Shape[0]
	half := func(first int) backend.Matrix {
		return l.Backend.Pack(width, width, l.Precision, func(i int, dst []float32) {
			l.Check(k.Skip.Weight.ReadFloat32s(dst, i*2*width+first))
		})
	}
	k.stream = half(0)
	k.skip = half(width)
	k.bias = l.Vector(l.Floats(&k.Skip.Bias))
	l.Release(&k.Skip.Weight)
}

// resize makes room for the outputs of the first half's blocks.
func (n *uvit) resize(b backend.Backend, rows int) {
	for i := range n.skips {
		n.skips[i] = backend.Grow(b, n.skips[i], rows, n.Words.Shape[1])
	}
}

// runBlocks computes the states of a pass's rows, w.X [rows, hidden], from their tokens. As in a
// U-Net, each block of the second half reads the output of its mirror in the first half, so those
// are kept until then.
func (n *uvit) runBlocks(ctx context.Context, m *Model, p *model.Pass,
	ids []int32) (*model.Pass, error) {
	b := m.b
	w := &m.work
	rows := p.Len()
	b.Gather(w.X, n.words, ids)       // [rows, hidden]
	b.AddRows(w.X, n.position, p.Pos) // [rows, hidden]

	layer := 0
	runBlock := func(k *uvitBlock) error {
		p.ObserveHidden(layer, w.X)
		k.Norm1.Apply(b, w.H, w.X, p.Len())                   // [rows, hidden]
		k.QKV.Apply(b, w.QKV, w.H, p.Len(), backend.Identity) // [rows, 3*hidden]
		p = m.runAttention(p, layer)                          // w.H [rows, hidden]
		layer++
		k.Proj.AddTo(b, w.X, w.H, p.Len()) // [rows, hidden]

		k.Norm2.Apply(b, w.H, w.X, p.Len())                    // [rows, hidden]
		k.FC1.Apply(b, w.Inner, w.H, p.Len(), backend.GELUErf) // [rows, inner]
		k.FC2.AddTo(b, w.X, w.Inner, p.Len())                  // [rows, hidden]
		return ctx.Err()
	}

	allRows := nn.RowRange(0, rows)
	for i := range n.In {
		if err := runBlock(&n.In[i]); err != nil {
			return nil, err
		}
		b.Scatter(n.skips[i], w.X, allRows) // [rows, hidden]
	}
	if err := runBlock(&n.Mid); err != nil {
		return nil, err
	}
	for i := range n.Out {
		// x = stream(x) + skip(output of the mirrored block) + bias
		k := &n.Out[i]
		mirrored := n.skips[len(n.skips)-1-i]
		b.Linear(w.H, w.X, rows, k.stream, backend.Epilogue{Bias: k.bias}) // [rows, hidden]
		b.Linear(w.H, mirrored, rows, k.skip, backend.Epilogue{Add: true}) // [rows, hidden]
		w.X, w.H = w.H, w.X
		if err := runBlock(k); err != nil {
			return nil, err
		}
	}
	p.ObserveHidden(layer, w.X)
	return p, nil
}

func (n *uvit) finishRows(x *tensor.Dense, rows int) *tensor.Dense {
	n.Norm.Apply(n.b, x, x, rows)
	return x
}
