package titok

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// bert is the generator of L-32 and B-64: Hugging Face's BERT, norms after the branches, without a
// pooler (TiTok, modeling/maskgit.py, class ViTMaskGit).
type bert struct {
	Words    weights.Param `weight:"embeddings.word_embeddings.weight"`       // [ids, hidden]
	Position weights.Param `weight:"embeddings.position_embeddings.weight"`   // [1+tokens, hidden]
	Type     weights.Param `weight:"embeddings.token_type_embeddings.weight"` // [2, hidden]
	Norm     nn.LayerNorm  `weight:"embeddings.LayerNorm"`
	Layers   []bertLayer   `weight:"encoder.layer"`
	Head     nn.Linear     `weight:"lm_head"`

	words    *tensor.Dense // [ids, hidden]
	position *tensor.Dense // [1+tokens, hidden], with the first token type added
}

// bertLayer is a transformer layer with norms after the branches.
type bertLayer struct {
	Query    nn.Linear    `weight:"attention.self.query"`
	Key      nn.Linear    `weight:"attention.self.key"`
	Value    nn.Linear    `weight:"attention.self.value"`
	Out      nn.Linear    `weight:"attention.output.dense"`
	OutNorm  nn.LayerNorm `weight:"attention.output.LayerNorm"`
	Up       nn.Linear    `weight:"intermediate.dense"`
	Down     nn.Linear    `weight:"output.dense"`
	DownNorm nn.LayerNorm `weight:"output.LayerNorm"`

	qkv nn.JoinedLinear
}

// bertEps is the norms' epsilon.
const bertEps = 1e-12

// newBert returns the network without weights.
func newBert(c Config) *bert {
	n := &bert{
		Words:    weights.Param{Shape: []int{c.idCount(), c.Hidden}},
		Position: weights.Param{Shape: []int{c.Tokens + 1, c.Hidden}},
		Type:     weights.Param{Shape: []int{2, c.Hidden}},
		Norm:     nn.NewLayerNorm(c.Hidden, bertEps),
		Layers:   make([]bertLayer, c.Depth),
		Head:     nn.NewLinear(c.Hidden, c.Codes),
	}
	for i := range n.Layers {
		square := func() nn.Linear { return nn.NewLinear(c.Hidden, c.Hidden) }
		n.Layers[i] = bertLayer{
			Query:    square(),
			Key:      square(),
			Value:    square(),
			Out:      square(),
			OutNorm:  nn.NewLayerNorm(c.Hidden, bertEps),
			Up:       nn.NewLinear(c.Hidden, c.Inner),
			Down:     nn.NewLinear(c.Inner, c.Hidden),
			DownNorm: nn.NewLayerNorm(c.Hidden, bertEps),
		}
	}
	return n
}

// packWeights packs the bound weights and returns the head. Every token has type 0, so its
// embedding is added to those of the positions once.
func (n *bert) packWeights(l *nn.Loader) *nn.Linear {
	n.words = l.Table(&n.Words)
	position := l.Floats(&n.Position)
	kind := l.Floats(&n.Type)
	for i := range n.Position.Shape[0] {
		nn.AddTo(position[i*n.Position.Shape[1]:], kind[:n.Position.Shape[1]])
	}
	n.position = l.Backend.New(n.Position.Shape...)
	l.Backend.Write(n.position, 0, position)
	n.Norm.Load(l)
	for i := range n.Layers {
		k := &n.Layers[i]
		k.qkv.Load(l, &k.Query, &k.Key, &k.Value)
		l.Load(&k.Out, &k.OutNorm, &k.Up, &k.Down, &k.DownNorm)
	}
	return &n.Head
}

func (n *bert) resize(backend.Backend, int) {}

// runBlocks leaves the states of ids in work.X, [rows, hidden].
func (n *bert) runBlocks(ctx context.Context, m *Model, p *model.Pass,
	ids []int32) (*model.Pass, error) {
	b := m.b
	w := &m.work
	b.Gather(w.X, n.words, ids)        // [rows, hidden]
	b.AddRows(w.X, n.position, p.Pos)  // [rows, hidden]
	n.Norm.Apply(b, w.X, w.X, p.Len()) // [rows, hidden]
	return p.RunBlocks(ctx, w.X, len(n.Layers), func(i int, p *model.Pass) *model.Pass {
		// x = norm(x + out(attention(x)))
		l := &n.Layers[i]
		l.qkv.Apply(b, w.QKV, w.X, p.Len())   // [rows, 3*hidden]
		p = m.runAttention(p, i)              // w.H [rows, hidden]
		l.Out.AddTo(b, w.X, w.H, p.Len())     // [rows, hidden]
		l.OutNorm.Apply(b, w.X, w.X, p.Len()) // [rows, hidden]

		// x = norm(x + mlp(x))
		l.Up.Apply(b, w.Inner, w.X, p.Len(), backend.GELUErf) // [rows, inner]
		l.Down.AddTo(b, w.X, w.Inner, p.Len())                // [rows, hidden]
		l.DownNorm.Apply(b, w.X, w.X, p.Len())                // [rows, hidden]
		return p
	})
}

func (n *bert) finishRows(x *tensor.Dense, _ int) *tensor.Dense { return x }
