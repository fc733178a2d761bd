package latents

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// vitBlock is a pre-norm block of the tokenizer's transformers, with the names of OpenAI's CLIP.
type vitBlock struct {
	Norm1   nn.LayerNorm  `weight:"ln_1"`
	In      weights.Param `weight:"attn.in_proj_weight"` // [3*width, width]
	InBias  weights.Param `weight:"attn.in_proj_bias"`
	OutProj nn.Linear     `weight:"attn.out_proj"`
	Norm2   nn.LayerNorm  `weight:"ln_2"`
	Up      nn.Linear     `weight:"mlp.c_fc"`
	Down    nn.Linear     `weight:"mlp.c_proj"`

	qkv nn.Linear
}

const eps = 1e-5

// vit is one transformer of the tokenizer: norm, blocks, norm.
type vit struct {
	Pre    nn.LayerNorm `weight:"ln_pre"`
	Blocks []vitBlock   `weight:"transformer"`
	Post   nn.LayerNorm `weight:"ln_post"`

	layer        attention.Layer
	width, inner int
	work         nn.Work
	rows         attention.Rows
	k, v         *tensor.Dense // [1, heads, rows, headDim]
}

// newVit returns the transformer without weights.
func newVit(width, inner, depth, heads int) vit {
	t := vit{
		Pre:    nn.NewLayerNorm(width, eps),
		Post:   nn.NewLayerNorm(width, eps),
		Blocks: make([]vitBlock, depth),
		layer:  attention.Layer{Heads: heads, HeadDim: width / heads},
		width:  width,
		inner:  inner,
	}
	for i := range t.Blocks {
		t.Blocks[i] = vitBlock{
			Norm1:   nn.NewLayerNorm(width, eps),
			Norm2:   nn.NewLayerNorm(width, eps),
			In:      weights.Param{Shape: []int{3 * width, width}},
			InBias:  weights.Param{Shape: []int{3 * width}},
			OutProj: nn.NewLinear(width, width),
			Up:      nn.NewLinear(width, inner),
			Down:    nn.NewLinear(inner, width),
		}
	}
	return t
}

// packWeights packs the weights and makes room; the transformer always runs over n rows.
func (t *vit) packWeights(l *nn.Loader, n int) {
	t.layer.BF16 = l.Precision != backend.F32
	l.Load(&t.Pre, &t.Post)
	for i := range t.Blocks {
		b := &t.Blocks[i]
		b.qkv = nn.Linear{Weight: b.In, Bias: b.InBias}
		l.Load(&b.Norm1, &b.qkv, &b.OutProj, &b.Norm2, &b.Up, &b.Down)
	}
	t.rows.FillSequences(0, 1, n)
	t.work.Prepare(l.Backend, n, t.width, t.inner)
	t.k = l.Backend.New(1, t.layer.Heads, n, t.layer.HeadDim)
	t.v = l.Backend.New(1, t.layer.Heads, n, t.layer.HeadDim)
}

// runBlocks applies the first norm and the blocks to the stream work.X, [n, width].
func (t *vit) runBlocks(b backend.Backend) {
	w := &t.work
	n := t.rows.Len()
	t.Pre.Apply(b, w.X, w.X, n)
	for i := range t.Blocks {
		k := &t.Blocks[i]

		// x += out(attention(norm(x)))
		k.Norm1.Apply(b, w.H, w.X, n)
		k.qkv.Apply(b, w.QKV, w.H, n, backend.Identity)
		t.layer.Apply(b, w.H, w.Q, t.k, t.v, w.QKV, &t.rows, n)
		k.OutProj.AddTo(b, w.X, w.H, n)

		// x += down(gelu(up(norm(x))))
		k.Norm2.Apply(b, w.H, w.X, n)
		k.Up.Apply(b, w.Inner, w.H, n, backend.GELUErf)
		k.Down.AddTo(b, w.X, w.Inner, n)
	}
}
