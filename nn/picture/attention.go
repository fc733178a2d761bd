package picture

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
)

// Attention is one head over all pixels, after a group norm without swish.
type Attention struct {
	Norm GroupNorm `weight:"norm"`
	Q    Conv      `weight:"q"`
	K    Conv      `weight:"k"`
	V    Conv      `weight:"v"`
	Out  Conv      `weight:"proj_out"`

	qkv  backend.Matrix // [3*channels, channels]
	bias *tensor.Dense
}

// NewAttention returns the layer for images with `channels` channels.
func NewAttention(channels int) *Attention {
	conv := func() Conv { return NewConv(channels, channels, 1) }
	return &Attention{Norm: NewGroupNorm(channels), Q: conv(), K: conv(), V: conv(), Out: conv()}
}

// Load packs the layer, queries, keys and values as one matrix.
func (a *Attention) Load(l *nn.Loader) {
	l.Load(&a.Norm, &a.Out)
	n := a.Q.Weight.Shape[0]
	var w, bias []float32
	for _, c := range []*Conv{&a.Q, &a.K, &a.V} {
		w = append(w, l.Floats(&c.Weight)...)
		bias = append(bias, l.Floats(&c.Bias)...)
	}
	a.qkv = l.Backend.Pack(3*n, n, l.Precision, func(i int, dst []float32) { copy(dst, w[i*n:]) })
	a.bias = l.Vector(bias)
}

// attentionBuffers hold one attention: [pixels, 3*channels], [pixels, channels] and [1, 1, pixels,
// channels].
type attentionBuffers struct{ qkv, q, o, k, v *tensor.Dense }

// Attend adds the attention of the image to the image.
func (v *Canvas) Attend(a *Attention) {
	b := v.Backend
	n := v.Height * v.Width
	c := a.Q.Weight.Shape[0]
	if v.recordSize(v.X, n*c) {
		return
	}
	w := &v.attention
	if w.k == nil || w.k.Shape()[2] != n || w.k.Shape()[3] != c {
		*w = attentionBuffers{b.New(n, 3*c), b.New(n, c), b.New(n, c), b.New(1, 1, n, c),
			b.New(1, 1, n, c)}
	}
	in := v.NormSwish(v.X, &a.Norm)
	in.SiLU = false
	s := v.convShape(&a.Q)
	s.Out = 3 * c
	b.Conv(w.qkv, v.X, s, a.qkv, in, backend.Epilogue{Bias: a.bias})
	if l, ok := b.(backend.HeadLimited); ok && c > l.MaxHeadDim() {
		w.attendByProducts(b, n, c)
		v.Convolve(v.X, w.o, &a.Out, backend.ConvInput{}, backend.Epilogue{Add: true})
		return
	}
	h := backend.Heads{Heads: 1, HeadDim: c, Keys: n}
	segs := []backend.Segment{{Rows: n}}
	b.SplitHeads(w.q, w.k, w.v, w.qkv, segs, nn.RowRange(0, n), h, nil)
	b.Attention(w.o, w.q, w.k, w.v, segs, h)
	v.Convolve(v.X, w.o, &a.Out, backend.ConvInput{}, backend.Epilogue{Add: true})
}

// attendByProducts computes attention as two matrix products, for devices whose attention kernels
// do not support heads of width c: keys and values become matrices, and the softmax runs on the
// host.
func (w *attentionBuffers) attendByProducts(b backend.Backend, n, c int) {
	host := make([]float32, n*3*c)
	b.Read(host, w.qkv, 0)
	q := make([]float32, n*c)
	for i := range n {
		copy(q[i*c:(i+1)*c], host[i*3*c:])
	}
	b.Write(w.q, 0, q)
	keys := b.Pack(n, c, backend.F32, func(i int, dst []float32) { copy(dst, host[i*3*c+c:]) })
	values := b.Pack(c, n, backend.F32, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = host[j*3*c+2*c+i]
		}
	})
	scores := b.New(n, n)
	b.Linear(scores, w.q, n, keys, backend.Epilogue{})
	p := make([]float32, n*n)
	b.Read(p, scores, 0)
	nn.Softmax(p, n, 1/math.Sqrt(float64(c)))
	b.Write(scores, 0, p)
	b.Linear(w.o, scores, n, values, backend.Epilogue{})
}
