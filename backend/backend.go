// Package backend is the interface of a device that computes masked diffusion models.
//
// A Backend is a gorgonia tensor.Engine, so every activation, key and value is a *tensor.Dense in
// its memory, and gorgonia programs run on its kernels. In addition it has about twenty kernels
// with an explicit destination: there is no tensor algebra and no hidden allocation.
//
// Activations are float32 and row-major, [rows, width]. Tensors are allocated once, for the largest
// number of rows; each call says how many of their rows it uses. So a batch of full passes, of
// partial passes, or of both is one call.
//
// Misuse (a shape that does not fit) panics and names the kernel and the shapes.
package backend

import "gorgonia.org/tensor"

// Precision is the arithmetic of the products with weights. Sums are always float32 (int32 for
// Int8), and norms, softmax and the residual stream stay float32.
type Precision uint8

// The precisions a matrix can be packed in.
const (
	F32  Precision = iota // float32 weights and activations
	BF16                  // both rounded to bfloat16, to nearest even
	Int8                  // weights with a scale per channel, activations with a scale per row

	// Blocks are weights in a block format, and activations with a scale per 256 values: see
	// BlockPacker.
	Blocks
)

// Activation is applied after the bias.
type Activation uint8

// The activations of the published networks.
const (
	Identity Activation = iota
	GELUTanh            // 0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3))): SDTT, GPT-2
	GELUErf             // 0.5x(1+erf(x/sqrt 2)): MAGE
	SiLU                // x*sigmoid(x), also called swish
	ReLU
)

// Matrix is a weight matrix [Out, In] packed by a backend. It never changes.
type Matrix interface {
	Out() int
	In() int
	Precision() Precision

	// Bytes returns the device memory that the matrix takes.
	Bytes() int
}

// RowFunc writes row i of an [out, in] matrix to dst, len(dst) = in. Pack calls it from several
// goroutines, once for each row.
type RowFunc func(i int, dst []float32)

// Epilogue describes the operations of Linear and Conv on a product before it is stored:
//
//	y = act(product + bias) * times; dst = y, or dst += y with Add.
type Epilogue struct {
	// Bias is [out], nil for none.
	Bias *tensor.Dense

	Act Activation

	// Add accumulates into dst: the residual connection.
	Add bool

	// Times [*, out] is multiplied in row by row: the other half of a gated MLP (Shazeer 2020, "GLU
	// variants improve transformer"). Nil means 1. It may be dst, unless Add is set. Only Linear
	// supports it.
	Times *tensor.Dense
}

// Norm holds a norm's affine part and epsilon. Nil Scale means 1, nil Shift means 0. An RMS norm
// has no Shift.
type Norm struct {
	Scale, Shift *tensor.Dense // [width]
	Eps          float32
}

// Segment assigns rows of an activation to a sequence of the batch: rows Row..Row+Rows-1 belong to
// sequence Seq. With causal or local attention the first of them is at position Pos.
type Segment struct {
	Seq, Row, Rows, Pos int
}

// Heads is the shape of an attention layer.
type Heads struct {
	// Heads is the number of query heads, HeadDim the numbers of a head.
	Heads   int
	HeadDim int

	// KV is the number of key and value heads, each for Heads/KV query heads; 0 means Heads.
	KV int

	// Keys limits what rows attend to: keys and values 0..Keys-1.
	Keys int

	// Causal makes a row attend only to keys up to its own position (GPT-2).
	Causal bool

	// Block, with Causal, makes a row attend to keys up to the end of its own block of Block
	// positions, a power of two; 0 means 1.
	Block int

	// Window, without Causal, makes rows attend only to keys at most Window positions away; 0 means
	// to all. Only a LocalAttention computes it.
	Window int

	// BF16 allows the factors of both products to be rounded, to 8 bits or more each. Softmax and
	// sums stay float32.
	BF16 bool
}

// KVHeads returns the number of key and value heads.
func (h Heads) KVHeads() int {
	if h.KV == 0 {
		return h.Heads
	}
	return h.KV
}

// FirstKey returns the first key that the row at a position attends to.
func (h Heads) FirstKey(pos int) int {
	if h.Window == 0 {
		return 0
	}
	return max(0, pos-h.Window)
}

// EndKey returns the end of the keys that the row at a position attends to.
func (h Heads) EndKey(pos int) int {
	switch {
	case h.Window > 0:
		return min(h.Keys, pos+h.Window+1)
	case !h.Causal:
		return h.Keys
	}
	lastOfBlock := pos | (max(h.Block, 1) - 1) // Block is a power of two
	return min(h.Keys, lastOfBlock+1)
}

// Rotary holds the cosines and sines of a rotary embedding, [positions, half] each, float32 as the
// published models compute them (half-split, GPT-NeoX): number i of a head is rotated with number
// i+half. Numbers from 2*half on stay unchanged.
type Rotary struct {
	Cos, Sin *tensor.Dense
}

// Head is an output head: logits = Scale*(x W^T + bias). The first Outcomes columns are outcomes;
// reductions ignore the others (the mask token). A bias of -Inf forbids an outcome.
type Head struct {
	W        Matrix
	Bias     *tensor.Dense // [out], nil for none
	Outcomes int
	Scale    float32 // inverse temperature; 0 means 1
}

// HeadStats are reductions over p = softmax(logits) of each row. Nil slices are not computed; the
// others receive one value per row.
type HeadStats struct {
	// Beta is the exponent of LogMoment, log sum_x p(x)^Beta.
	Beta      float64
	LogMoment []float64

	// Entropy is in nats.
	Entropy []float64

	// P1 and P2 are the two largest probabilities, Arg the index of the largest, the lowest among
	// equals.
	P1, P2 []float64
	Arg    []int32

	// LogSum is log sum_x exp(logit). It is finite unless there is no distribution: a logit is NaN
	// or +Inf, or all are -Inf.
	LogSum []float64
}

// HeadDraw are samples by inverse CDF, with one uniform number per row. The token of row i is drawn
// from p^Power, normalised, with Uniform[i] in (0,1) and the outcomes in index order.
type HeadDraw struct {
	Power   float64
	Uniform []float64
	Token   []int32

	// LogP is log p(token), of p itself at any Power; nil is not computed.
	LogP []float64
}

// LocalAttention is a Backend whose Attention supports Heads.Window.
type LocalAttention interface {
	Backend
	AttendsLocally()
}

// Backend is one device.
type Backend interface {
	tensor.Engine

	// Name returns the device and its kernels, such as "cpu avx2 x2".
	Name() string

	// New returns a zeroed float32 tensor in the device's memory.
	New(shape ...int) *tensor.Dense
	// Write copies src to dst from row `row` on; Read copies src from row `row` on to dst.
	Write(dst *tensor.Dense, row int, src []float32)
	Read(dst []float32, src *tensor.Dense, row int)

	// Pack packs a weight matrix once, when a model is loaded.
	Pack(out, in int, precision Precision, row RowFunc) Matrix

	// Linear computes dst[:rows] = epilogue(x[:rows] W^T). x [*, in], dst [*, out].
	Linear(dst, x *tensor.Dense, rows int, w Matrix, e Epilogue)

	// LayerNorm computes dst = (x-mean)/sqrt(var+eps)*scale+shift by rows. dst may be x.
	LayerNorm(dst, x *tensor.Dense, rows int, n Norm)
	// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale by rows (Zhang and Sennrich 2019, "Root mean
	// square layer normalization"). dst may be x. n.Shift must be nil.
	RMSNorm(dst, x *tensor.Dense, rows int, n Norm)
	// NormHeads is RMSNorm of each query head, with q, and each key head, with k, in rows of qkv
	// [*, (heads+2*kv)*headDim], in place. Scales are [headDim].
	NormHeads(qkv *tensor.Dense, rows int, h Heads, q, k Norm)
	// Activate applies f to rows of x in place.
	Activate(x *tensor.Dense, rows int, f Activation)
	// Modulate computes x = x*(1+scale[seq]) + shift[seq]; scale and shift [batch, width].
	Modulate(x, scale, shift *tensor.Dense, segs []Segment)
	// GateAdd computes dst += gate[seq]*x; gate [batch, width].
	GateAdd(dst, x, gate *tensor.Dense, segs []Segment)

	// Gather computes dst[i] = src[from[i]]; AddRows dst[i] += src[from[i]];
	// AddScaled dst[i] += scale[i]*src[from[i]]; Scatter dst[to[i]] = src[i].
	Gather(dst, src *tensor.Dense, from []int32)
	AddRows(dst, src *tensor.Dense, from []int32)
	AddScaled(dst, src *tensor.Dense, from []int32, scale []float32)
	Scatter(dst, src *tensor.Dense, to []int32)

	// SplitHeads splits rows of qkv [*, (heads+2*kv)*headDim]: queries go to q [*, heads*headDim],
	// keys and values to position pos[row] of their sequence in k and v [batch, kv, length,
	// headDim]. Queries and keys are rotated unless r is nil.
	SplitHeads(q, k, v, qkv *tensor.Dense, segs []Segment, pos []int32, h Heads, r *Rotary)
	// Attention computes dst = softmax(q k^T/sqrt(headDim)) v for the rows of segs.
	// q and dst [*, heads*headDim], k and v [batch, kv, length, headDim]: query head h attends to
	// key head h*kv/heads.
	Attention(dst, q, k, v *tensor.Dense, segs []Segment, h Heads)

	// HeadStats, HeadSample and HeadVisit run the output head over x[:rows] and do not store its
	// logits. HeadVisit passes all columns of one row at a time to visit, from several goroutines;
	// the slice is valid only during the call.
	HeadStats(x *tensor.Dense, rows int, h Head, s *HeadStats)
	HeadSample(x *tensor.Dense, rows int, h Head, d *HeadDraw)
	HeadVisit(x *tensor.Dense, rows int, h Head, visit func(row int, logits []float32))

	// Conv is a two-dimensional convolution in NHWC. GroupNorm computes the affine map that equals
	// a group norm for these inputs; Conv applies it, and swish, while it reads x.
	Conv(dst, x *tensor.Dense, s ConvShape, w Matrix, in ConvInput, e Epilogue)
	GroupNorm(scale, shift, x *tensor.Dense, batch, pixels, channels, groups int, n Norm)
	// Pool takes the mean or the maximum of windows, NHWC.
	Pool(dst, x *tensor.Dense, s ConvShape, kind PoolKind)
}

// ConvShape describes a convolution or pooling from x [Batch, Height, Width, In] to dst [Batch,
// OutHeight(), OutWidth(), Out]. Weights are packed [Out, KH*KW*In], the input channel fastest.
type ConvShape struct {
	// Batch images of Height by Width pixels of In channels become images of Out channels.
	Batch, Height, Width, In, Out int

	// KH and KW are the height and width of a window.
	KH, KW int

	// Stride is the distance between windows; 0 means 1.
	Stride int

	// PadH and PadW are the zero rows and columns on either side.
	PadH, PadW int

	// Upsample doubles height and width before the convolution, each pixel becoming four equal ones.
	Upsample bool

	// DstStride are the channels of a pixel in dst, DstOffset the first one written; 0 means Out
	// and 0. So several convolutions can write side by side.
	DstStride, DstOffset int
}

// ConvInput is applied by Conv to its input while it reads: x*Scale[b,c]+Shift[b,c], then swish if
// SiLU is set. Nil Scale and Shift leave x unchanged.
type ConvInput struct {
	Scale, Shift *tensor.Dense // [batch, In]
	SiLU         bool
}

// PoolKind says how Pool reduces a window.
type PoolKind uint8

// Mean averages only the window's pixels inside the image; Max ignores padding.
const (
	Mean PoolKind = iota
	Max
)

// OutHeight returns the height of the result; Upsample doubles the input first (nearest).
func (s ConvShape) OutHeight() int {
	return (s.UpsampleFactor()*s.Height+2*s.PadH-s.KH)/max(s.Stride, 1) + 1
}

// OutWidth returns the width of the result.
func (s ConvShape) OutWidth() int {
	return (s.UpsampleFactor()*s.Width+2*s.PadW-s.KW)/max(s.Stride, 1) + 1
}

// UpsampleFactor returns what the input is enlarged by first, 1 or 2.
func (s ConvShape) UpsampleFactor() int {
	if s.Upsample {
		return 2
	}
	return 1
}

// ParsePrecision reads f32, bf16 or int8.
func ParsePrecision(s string) (Precision, bool) {
	for p, name := range precisions {
		if s == name && Precision(p) != Blocks {
			return Precision(p), true
		}
	}
	return F32, false
}

// precisions are the names of the precisions.
var precisions = [...]string{F32: "f32", BF16: "bf16", Int8: "int8", Blocks: "blocks"}

// String returns the name that ParsePrecision reads, or blocks.
func (p Precision) String() string { return precisions[p] }
