package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// functions are the activations.
var functions = [...]func(o vec.Ops, dst, x []float32){
	backend.GELUTanh: vec.Ops.GELUTanh,
	backend.GELUErf:  vec.Ops.GELUErf,
	backend.SiLU:     vec.Ops.SiLU,
	backend.ReLU:     vec.Ops.ReLU,
}

// Activate applies f to rows of x in place.
func (v *vectors) Activate(x *tensor.Dense, rows int, f backend.Activation) {
	backend.CheckRowCount("Activate", x, rows)
	if f == backend.Identity {
		return
	}
	j := v.takeRows()
	j.x, j.width, j.kernel, j.function = data(x), backend.Width(x), activate, functions[f]
	v.run(j, rows)
}

func activate(j *rowJob, row, _ int) {
	x := j.row(j.x, row)
	j.function(j.ops, x, x)
}

// Modulate computes x = x*(1+scale[seq]) + shift[seq].
func (v *vectors) Modulate(x, scale, shift *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("Modulate", x, scale, segs)
	backend.CheckSegmentRows("Modulate", x, shift, segs)
	j := v.takeRows()
	j.x, j.a, j.b, j.width, j.kernel = data(x), data(scale), data(shift), backend.Width(x), modulate
	v.runSegments(j, segs)
}

func modulate(j *rowJob, row, seq int) {
	j.ops.Modulate(j.row(j.x, row), j.row(j.a, seq), j.row(j.b, seq))
}

// GateAdd computes dst += gate[seq]*x.
func (v *vectors) GateAdd(dst, x, gate *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("GateAdd", dst, gate, segs)
	backend.CheckSegmentRows("GateAdd", x, gate, segs)
	j := v.takeRows()
	j.dst, j.x, j.a, j.width, j.kernel = data(dst), data(x), data(gate), backend.Width(x), gateAdd
	v.runSegments(j, segs)
}

func gateAdd(j *rowJob, row, seq int) {
	j.ops.MulAdd(j.row(j.dst, row), j.row(j.x, row), j.row(j.a, seq))
}

// Gather computes dst[i] = src[from[i]].
func (v *vectors) Gather(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("Gather", dst, src, from)
	j := v.takeRows()
	j.dst, j.x, j.from, j.width, j.kernel = data(dst), data(src), from, backend.Width(src), gather
	v.run(j, len(from))
}

func gather(j *rowJob, row, _ int) { copy(j.row(j.dst, row), j.row(j.x, int(j.from[row]))) }

// AddRows computes dst[i] += src[from[i]].
func (v *vectors) AddRows(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("AddRows", dst, src, from)
	j := v.takeRows()
	j.dst, j.x, j.from, j.width, j.kernel = data(dst), data(src), from, backend.Width(src), addRow
	v.run(j, len(from))
}

func addRow(j *rowJob, row, _ int) { j.ops.Add(j.row(j.dst, row), j.row(j.x, int(j.from[row]))) }

// AddScaled computes dst[i] += scale[i]*src[from[i]].
func (v *vectors) AddScaled(dst, src *tensor.Dense, from []int32, scale []float32) {
	backend.CheckScaled(dst, src, from, scale)
	j := v.takeRows()
	j.dst, j.x, j.a, j.from, j.width, j.kernel = data(dst), data(src), scale, from, backend.Width(src),
		addScaled
	v.run(j, len(from))
}

func addScaled(j *rowJob, row, _ int) {
	j.ops.AddScaled(j.row(j.dst, row), j.row(j.x, int(j.from[row])), j.a[row])
}

// Scatter computes dst[to[i]] = src[i] in order: of equal targets the last is kept.
func (v *vectors) Scatter(dst, src *tensor.Dense, to []int32) {
	backend.CheckRows("Scatter", src, dst, to)
	y, x, width := data(dst), data(src), backend.Width(src)
	for i, r := range to {
		copy(y[int(r)*width:][:width], x[i*width:])
	}
}
