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
	bias *tensor.Dense  // [3*channels]
}

// NewAttention returns the layer for images with `channels` channels.
func NewAttention(channels int) *Attention {
	return &Attention{
		Norm: NewGroupNorm(channels),
		Q:    NewConv(channels, channels, 1),
		K:    NewConv(channels, channels, 1),
		V:    NewConv(channels, channels, 1),
		Out:  NewConv(channels, channels, 1),
	}
}

// Load packs the layer, queries, keys and values as one matrix.
func (a *Attention) Load(l *nn.Loader) {
	l.Load(&a.Norm, &a.Out)
	channels := a.Q.Weight.Shape[0]
	var w, bias []float32
	for _, c := range []*Conv{&a.Q, &a.K, &a.V} {
		w = append(w, l.Floats(&c.Weight)...)
		bias = append(bias, l.Floats(&c.Bias)...)
	}
	a.qkv = l.Backend.Pack(3*channels, channels, l.Precision, func(i int, dst []float32) {
		copy(dst, w[i*channels:])
	})
	a.bias = l.Vector(bias)
}

// attentionBuffers hold one attention.
type attentionBuffers struct {
	qkv  *tensor.Dense // [pixels, 3*channels]
	q, o *tensor.Dense // [pixels, channels]: queries, result
	k, v *tensor.Dense // [1, 1, pixels, channels]
}

// Attend adds the attention of the image to the image.
func (v *Canvas) Attend(a *Attention) {
	b := v.Backend
	pixels := v.Height * v.Width
	channels := a.Q.Weight.Shape[0]
	if v.recordSize(v.X, pixels*channels) {
		return
	}
	w := &v.attention
	if w.k == nil || w.k.Shape()[2] != pixels || w.k.Shape()[3] != channels {
		*w = attentionBuffers{
			qkv: b.New(pixels, 3*channels),
			q:   b.New(pixels, channels),
			o:   b.New(pixels, channels),
			k:   b.New(1, 1, pixels, channels),
			v:   b.New(1, 1, pixels, channels),
		}
	}

	input := v.NormSwish(v.X, &a.Norm)
	input.SiLU = false
	shape := v.convShape(&a.Q)
	shape.Out = 3 * channels
	b.Conv(w.qkv, v.X, shape, a.qkv, input, backend.Epilogue{Bias: a.bias}) // [pixels, 3*channels]

	if l, ok := b.(backend.HeadLimited); ok && channels > l.MaxHeadDim() {
		w.attendByProducts(b, pixels, channels)
	} else {
		heads := backend.Heads{Heads: 1, HeadDim: channels, Keys: pixels}
		segs := []backend.Segment{{Rows: pixels}}
		b.SplitHeads(w.q, w.k, w.v, w.qkv, segs, nn.RowRange(0, pixels), heads, nil)
		b.Attention(w.o, w.q, w.k, w.v, segs, heads) // [pixels, channels]
	}
	v.Convolve(v.X, w.o, &a.Out, backend.ConvInput{}, backend.Epilogue{Add: true})
}

// attendByProducts computes attention as two matrix products, for devices whose attention kernels
// do not support heads of this width: keys and values become matrices, and the softmax runs on the
// host.
func (w *attentionBuffers) attendByProducts(b backend.Backend, pixels, channels int) {
	qkv := make([]float32, pixels*3*channels)
	b.Read(qkv, w.qkv, 0)
	q := make([]float32, pixels*channels)
	for i := range pixels {
		copy(q[i*channels:(i+1)*channels], qkv[i*3*channels:])
	}
	b.Write(w.q, 0, q)
	keys := b.Pack(pixels, channels, backend.F32, func(i int, dst []float32) {
		copy(dst, qkv[i*3*channels+channels:])
	})
	values := b.Pack(channels, pixels, backend.F32, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = qkv[j*3*channels+2*channels+i]
		}
	})

	scores := b.New(pixels, pixels)
	b.Linear(scores, w.q, pixels, keys, backend.Epilogue{})
	p := make([]float32, pixels*pixels)
	b.Read(p, scores, 0)
	nn.Softmax(p, pixels, 1/math.Sqrt(float64(channels)))
	b.Write(scores, 0, p)
	b.Linear(w.o, scores, pixels, values, backend.Epilogue{}) // [pixels, channels]
}
