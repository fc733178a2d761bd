// Package nn has the layers that the published networks share. A layer is a struct whose tags hold
// the checkpoint's names; its constructor sets the shapes, weights.Bind finds the tensors, and Load
// packs them on a backend once.
package nn

import (
	"cmp"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/weights"
)

// Loader packs bound parameters on a backend. It keeps the first error (such as a NaN weight, or a
// file that changed), so that a network can load all its layers and check once.
type Loader struct {
	Backend   backend.Backend
	Precision backend.Precision // of the matrix products

	mu  sync.Mutex // of err: backends pack rows on several goroutines
	err error
}

// Err returns the first error of all loads.
func (l *Loader) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Check records an error, unless there is one already. A nil error is ignored, so that results of
// reads can be passed on as they are.
func (l *Loader) Check(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
}

// Load packs layers on the backend.
func (l *Loader) Load(layers ...interface{ Load(l *Loader) }) {
	for _, n := range layers {
		n.Load(l)
	}
}

// Floats returns the parameter's values, or nil if the network does not have it.
func (l *Loader) Floats(p *weights.Param) []float32 {
	if p.Shape == nil {
		return nil
	}
	values := make([]float32, p.Numel())
	l.Check(p.Float32s(values))
	return values
}

// Vector copies values to the device as a tensor [len(values)]; nil stays nil.
func (l *Loader) Vector(values []float32) *tensor.Dense {
	if values == nil {
		return nil
	}
	t := l.Backend.New(len(values))
	l.Backend.Write(t, 0, values)
	return t
}

// tableRows is the number of rows of a table that are read at a time.
const tableRows = 1024

// Table copies a parameter to the device as [rows, width]. Embeddings are the largest tensors of a
// small model, so the next rows are read while the last are copied.
func (l *Loader) Table(p *weights.Param) *tensor.Dense {
	width := p.Shape[len(p.Shape)-1]
	rows := p.Numel() / width
	t := l.Backend.New(rows, width)
	free := make(chan []float32, 2)
	full := make(chan []float32, 2)
	for range 2 {
		free <- make([]float32, min(rows, tableRows)*width)
	}
	go func() {
		defer close(full)
		for r := 0; r < rows; r += tableRows {
			piece := (<-free)[:min(tableRows, rows-r)*width]
			l.Check(p.ReadFloat32s(piece, r*width))
			full <- piece
		}
	}()
	written := 0 // rows
	for piece := range full {
		l.Backend.Write(t, written, piece)
		written += len(piece) / width
		free <- piece[:cap(piece)]
	}
	l.Release(p)
	return t
}

// Matrix packs the first `rows` rows of a parameter [out, in...] as a matrix [rows, in]; dimensions
// after the first count as one.
func (l *Loader) Matrix(p *weights.Param, rows int) backend.Matrix {
	return l.packMatrices([]*weights.Param{p}, []int{rows})
}

// Release releases the memory pages of a large packed parameter, so that a model is not in memory
// twice while it loads.
func (l *Loader) Release(p *weights.Param) {
	if p.Tensor != nil {
		l.Check(p.Release())
	}
}

// Linear is y = x W^T + b for rows x [in] and y [out].
type Linear struct {
	Weight weights.Param `weight:"weight"` // [out, in]
	Bias   weights.Param `weight:"bias"`   // [out], or absent

	w backend.Matrix
	b *tensor.Dense
}

// NewLinear returns a layer with a bias.
func NewLinear(in, out int) Linear {
	return Linear{Weight: weights.Param{Shape: []int{out, in}}, Bias: weights.Param{Shape: []int{out}}}
}

// NewLinearNoBias returns a layer without a bias.
func NewLinearNoBias(in, out int) Linear {
	return Linear{Weight: weights.Param{Shape: []int{out, in}}}
}

// ConvAsLinear returns a 1x1 convolution [out, in, 1, 1] as a Linear; bias may be absent.
func ConvAsLinear(weight, bias weights.Param) Linear {
	weight.Shape = weight.Shape[:2]
	return Linear{Weight: weight, Bias: bias}
}

// Load packs the layer. A layer without a shape, which the network does not have, stays empty.
func (n *Linear) Load(l *Loader) {
	if n.Weight.Shape != nil {
		n.LoadGated(l, nil)
	}
}

// LoadGated packs the layer with each output multiplied by gate [out]: a constant gate costs
// nothing if it is folded into the weights. Nil means 1.
func (n *Linear) LoadGated(l *Loader, gate []float32) {
	out := n.Weight.Shape[0]
	in := n.Weight.Shape[1]
	if gate == nil {
		n.w = l.Matrices(&n.Weight)
	} else {
		n.w = l.Backend.Pack(out, in, l.Precision, func(i int, dst []float32) {
			l.Check(n.Weight.ReadFloat32s(dst, i*in))
			for j := range dst {
				dst[j] *= gate[i]
			}
		})
		l.Release(&n.Weight)
	}
	bias := l.Floats(&n.Bias)
	if gate != nil {
		for i := range bias {
			bias[i] *= gate[i]
		}
	}
	n.b = l.Vector(bias)
}

// Apply computes dst[:rows] = f(x[:rows] W^T + b).
func (n *Linear) Apply(b backend.Backend, dst, x *tensor.Dense, rows int, f backend.Activation) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Act: f})
}

// AddTo computes dst[:rows] += x[:rows] W^T + b, the end of a residual branch.
func (n *Linear) AddTo(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Add: true})
}

// LayerNorm is (x-mean)/sqrt(var+eps)*weight + bias.
type LayerNorm struct {
	Weight weights.Param `weight:"weight"` // [width]
	Bias   weights.Param `weight:"bias"`   // [width], or absent
	Eps    float32

	norm backend.Norm
}

// NewLayerNorm returns a norm with weight and bias.
func NewLayerNorm(width int, eps float32) LayerNorm {
	return LayerNorm{
		Weight: weights.Param{Shape: []int{width}},
		Bias:   weights.Param{Shape: []int{width}},
		Eps:    eps,
	}
}

// NewLayerNormNoBias returns a norm with a weight only.
func NewLayerNormNoBias(width int, eps float32) LayerNorm {
	return LayerNorm{Weight: weights.Param{Shape: []int{width}}, Eps: eps}
}

// Load copies the norm to the device.
func (n *LayerNorm) Load(l *Loader) { n.LoadModulated(l, nil, nil) }

// LoadModulated loads norm(x)*(1+scale)+shift with a constant modulation [width]. Folded into the
// norm, it costs nothing. Nil means 0.
func (n *LayerNorm) LoadModulated(l *Loader, scale, shift []float32) {
	weight := l.Floats(&n.Weight)
	bias := l.Floats(&n.Bias)
	if bias == nil && shift != nil {
		bias = make([]float32, len(weight))
	}
	for i := range weight {
		if scale != nil {
			weight[i] *= 1 + scale[i]
		}
		if bias != nil && scale != nil {
			bias[i] *= 1 + scale[i]
		}
		if shift != nil {
			bias[i] += shift[i]
		}
	}
	n.norm = backend.Norm{Scale: l.Vector(weight), Shift: l.Vector(bias), Eps: n.Eps}
}

// Apply computes dst[:rows] = norm(x[:rows]); dst may be x.
func (n *LayerNorm) Apply(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.LayerNorm(dst, x, rows, n.norm)
}
