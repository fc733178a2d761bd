// Package adaln computes the shifts, scales and gates of adaptive norms from a condition (Peebles
// and Xie 2023, "Scalable diffusion models with transformers"). They are computed once for each
// condition and kept on the device, so that steps compute none.
package adaln

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// The parts of a block's modulation, three for its attention and three for its MLP. Some authors
// call them beta, gamma and alpha.
const (
	Shift1 = iota
	Scale1
	Gate1
	Shift2
	Scale2
	Gate2
	Parts
)

// Layer is a linear layer from the conditioning vector to `parts` vectors of the same width.
type Layer struct {
	Weight weights.Param `weight:"weight"` // [parts*width, cond]
	Bias   weights.Param `weight:"bias"`   // [parts*width], or absent

	parts    int
	products []backend.Matrix // by part, [width, cond] each
	biases   []*tensor.Dense  // by part, [width] each; nil for none
	tables   []*tensor.Dense  // by part, [slots, width] each
}

// New returns a layer with a bias.
func New(cond, width, parts int) Layer {
	l := NewNoBias(cond, width, parts)
	l.Bias = weights.Param{Shape: []int{parts * width}}
	return l
}

// NewNoBias returns a layer without a bias.
func NewNoBias(cond, width, parts int) Layer {
	return Layer{Weight: weights.Param{Shape: []int{parts * width, cond}}, parts: parts}
}

// Load packs the layer. It never uses integer products, because a gate's error affects every row.
func (m *Layer) Load(l *nn.Loader) {
	width := m.Weight.Shape[0] / m.parts
	cond := m.Weight.Shape[1]
	precision := min(l.Precision, backend.BF16)
	bias := l.Floats(&m.Bias)
	for p := range m.parts {
		product := l.Backend.Pack(width, cond, precision, func(i int, dst []float32) {
			l.Check(m.Weight.ReadFloat32s(dst, (p*width+i)*cond))
		})
		m.products = append(m.products, product)
		var b *tensor.Dense
		if bias != nil {
			b = l.Vector(bias[p*width : (p+1)*width])
		}
		m.biases = append(m.biases, b)
	}
	m.tables = make([]*tensor.Dense, m.parts)
	l.Release(&m.Weight)
}

// Constant returns the parts [width] for one conditioning vector, after its activation, instead of
// packing the layer.
func (m *Layer) Constant(l *nn.Loader, y []float32) [][]float32 {
	all := l.HostLinear(&nn.Linear{Weight: m.Weight, Bias: m.Bias}).Apply(y)
	return slices.Collect(slices.Chunk(all, m.partWidth()))
}

// Part returns part i for all conditions in use, [slots, width]: one row for each slot.
func (m *Layer) Part(i int) *tensor.Dense { return m.tables[i] }

// Modulate applies two parts to x. segs are the rows by slot; nil means that the parts are constant
// and folded into the norm before.
func (m *Layer) Modulate(b backend.Backend, x *tensor.Dense, scale, shift int,
	segs []backend.Segment) {
	if segs != nil {
		b.Modulate(x, m.Part(scale), m.Part(shift), segs)
	}
}

// partWidth returns the width of a part.
func (m *Layer) partWidth() int { return m.Weight.Shape[0] / m.parts }

// Table keeps the modulations of a network's layers for recent conditions, each in a slot. A step
// of a run has the conditions of the one before it, so most steps compute none.
type Table struct {
	Backend backend.Backend
	Cond    int      // width of the conditioning vector
	Layers  []*Layer // layers with the same conditioning vector

	// Plain means that vectors are used as they are, without the activation.
	Plain bool

	// slots has the slot of each condition by its key.
	slots map[any]int32

	size     int   // slots of the tables
	nextSlot int32 // the first that is free

	conditions *tensor.Dense         // [size, cond]: vectors of the conditions that are new
	scratch    map[int]*tensor.Dense // by width, [size, width]
}

// minSlots is the least number of conditions kept: those of a few batches.
const minSlots = 64

// LoadLayer loads a layer. With a constant vector [Cond], after its activation, it returns the
// parts, which the caller folds into norms and projections; without one it packs the layer as one
// of the table's and returns nil parts.
func (t *Table) LoadLayer(l *nn.Loader, layer *Layer, constant []float32) [][]float32 {
	if constant != nil {
		return layer.Constant(l, constant)
	}
	layer.Load(l)
	t.Layers = append(t.Layers, layer)
	return make([][]float32, layer.parts)
}

// AssignSlots writes the slots of conditions to dst. Conditions with equal keys are the same.
// vector returns the conditioning vector [Cond] of a key's condition, before its activation
// (swish, or none with Plain); it is called for new conditions only.
func (t *Table) AssignSlots(dst []int32, keys []any, vector func(key any) []float32) []int32 {
	if len(keys) > t.size {
		t.resizeTables(len(keys))
	}
	unknown := map[any]bool{}
	for _, key := range keys {
		if _, ok := t.slots[key]; !ok {
			unknown[key] = true
		}
	}
	if int(t.nextSlot)+len(unknown) > t.size {
		// All slots are given up at once: the batch's own conditions are computed again, and no list
		// of use has to be kept.
		clear(t.slots)
		t.nextSlot = 0
	}

	var newSlots []int32
	dst = dst[:0]
	for _, key := range keys {
		slot, ok := t.slots[key]
		if !ok {
			slot = t.nextSlot
			t.Backend.Write(t.conditions, len(newSlots), vector(key))
			t.slots[key] = slot
			newSlots = append(newSlots, slot)
			t.nextSlot++
		}
		dst = append(dst, slot)
	}
	if len(newSlots) > 0 {
		t.fillSlots(newSlots)
	}
	return dst
}

// resizeTables makes room for n conditions, and forgets those that were there.
func (t *Table) resizeTables(n int) {
	t.size = max(minSlots, n)
	t.slots = map[any]int32{}
	t.nextSlot = 0
	t.scratch = map[int]*tensor.Dense{}
	t.conditions = t.Backend.New(t.size, t.Cond)
	for _, l := range t.Layers {
		width := l.partWidth()
		for i := range l.tables {
			l.tables[i] = t.Backend.New(t.size, width)
		}
		if t.scratch[width] == nil {
			t.scratch[width] = t.Backend.New(t.size, width)
		}
	}
}

// fillSlots computes the slots' modulations from the first rows of conditions.
func (t *Table) fillSlots(slots []int32) {
	b := t.Backend
	n := len(slots)
	if !t.Plain {
		b.Activate(t.conditions, n, backend.SiLU) // [n, cond]
	}
	for _, l := range t.Layers {
		scratch := t.scratch[l.partWidth()]
		for i := range l.parts {
			b.Linear(scratch, t.conditions, n, l.products[i], backend.Epilogue{Bias: l.biases[i]})
			b.Scatter(l.tables[i], scratch, slots) // [slots, width]
		}
	}
}

// SlotSegments writes segs to dst with each sequence replaced by its slot, as backend.Modulate
// takes them.
func SlotSegments(dst, segs []backend.Segment, slots []int32) []backend.Segment {
	dst = dst[:0]
	for _, s := range segs {
		s.Seq = int(slots[s.Seq])
		dst = append(dst, s)
	}
	return dst
}
