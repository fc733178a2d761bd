package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// activations are the kernels of the activations, none for Identity.
var activations = [...]func(o vec.Ops, dst, x []float32){
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
	v.runRows(rows, rowCall{
		x:        data(x),
		width:    backend.Width(x),
		function: activations[f],
		kernel: func(j *rowJob, row, _ int) {
			j.function(j.ops, j.row(j.x, row), j.row(j.x, row))
		},
	})
}

// Modulate computes x = x*(1+scale[seq]) + shift[seq].
func (v *vectors) Modulate(x, scale, shift *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("Modulate", x, scale, segs)
	backend.CheckSegmentRows("Modulate", x, shift, segs)
	v.runSegments(segs, rowCall{
		x:     data(x),
		a:     data(scale),
		b:     data(shift),
		width: backend.Width(x),
		kernel: func(j *rowJob, row, seq int) {
			j.ops.Modulate(j.row(j.x, row), j.row(j.a, seq), j.row(j.b, seq))
		},
	})
}

// GateAdd computes dst += gate[seq]*x.
func (v *vectors) GateAdd(dst, x, gate *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("GateAdd", dst, gate, segs)
	backend.CheckSegmentRows("GateAdd", x, gate, segs)
	v.runSegments(segs, rowCall{
		dst:   data(dst),
		x:     data(x),
		a:     data(gate),
		width: backend.Width(x),
		kernel: func(j *rowJob, row, seq int) {
			j.ops.MulAdd(j.row(j.dst, row), j.row(j.x, row), j.row(j.a, seq))
		},
	})
}

// Gather computes dst[i] = src[from[i]].
func (v *vectors) Gather(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("Gather", dst, src, from)
	v.runRows(len(from), rowCall{
		dst:   data(dst),
		x:     data(src),
		from:  from,
		width: backend.Width(src),
		kernel: func(j *rowJob, row, _ int) {
			copy(j.row(j.dst, row), j.row(j.x, int(j.from[row])))
		},
	})
}

// AddRows computes dst[i] += src[from[i]].
func (v *vectors) AddRows(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("AddRows", dst, src, from)
	v.runRows(len(from), rowCall{
		dst:   data(dst),
		x:     data(src),
		from:  from,
		width: backend.Width(src),
		kernel: func(j *rowJob, row, _ int) {
			j.ops.Add(j.row(j.dst, row), j.row(j.x, int(j.from[row])))
		},
	})
}

// AddScaled computes dst[i] += scale[i]*src[from[i]].
func (v *vectors) AddScaled(dst, src *tensor.Dense, from []int32, scale []float32) {
	backend.CheckScaled(dst, src, from, scale)
	v.runRows(len(from), rowCall{
		dst:   data(dst),
		x:     data(src),
		a:     scale,
		from:  from,
		width: backend.Width(src),
		kernel: func(j *rowJob, row, _ int) {
			j.ops.AddScaled(j.row(j.dst, row), j.row(j.x, int(j.from[row])), j.a[row])
		},
	})
}

// Snake computes dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
func (v *vectors) Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	backend.CheckSnake(dst, x, from, alpha)
	if len(from) == 0 {
		return
	}
	channels := alpha.DataSize() / 2
	v.runRows(len(from), rowCall{
		kernel: snakeRow,
		dst:    data(dst),
		x:      data(x),
		a:      data(alpha)[:channels],
		b:      data(alpha)[channels:],
		from:   from,
		width:  channels,
	})
}

// snakeRow computes a row of Snake: x + sin(a x)^2 * b.
func snakeRow(j *rowJob, row, _ int) {
	dst := j.row(j.dst, row)
	if j.from[row] < 0 {
		clear(dst)
		return
	}
	x := j.row(j.x, int(j.from[row]))
	copy(dst, x)
	j.ops.Multiply(dst, j.a)
	j.ops.SinSquared(dst, dst)
	j.ops.Multiply(dst, j.b)
	j.ops.Add(dst, x)
}
