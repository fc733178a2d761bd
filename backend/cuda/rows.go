//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
)

var (
	gatherKernel   = register("unmask_gather")
	addRowsKernel  = register("unmask_add_rows")
	scatterKernel  = register("unmask_scatter")
	activateKernel = register("unmask_activate")
	modulateKernel = register("unmask_modulate")
	gateAddKernel  = register("unmask_gate_add")
)

const (
	rowThreads = 256             // threads of a block in which each warp computes a row
	rowWarps   = rowThreads / 32 // rows that a block computes at a time
	maxSpread  = 256             // most blocks that share a segment
)

// ceilDiv returns n/divisor, rounded up.
func ceilDiv(n, divisor int) int { return (n + divisor - 1) / divisor }

// Gather computes dst[i] = src[from[i]].
func (b *Backend) Gather(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("Gather", dst, src, from)
	b.copyRows(gatherKernel, dst, src, from)
}

// AddRows computes dst[i] += src[from[i]].
func (b *Backend) AddRows(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("AddRows", dst, src, from)
	b.copyRows(addRowsKernel, dst, src, from)
}

// Scatter computes dst[to[i]] = src[i].
func (b *Backend) Scatter(dst, src *tensor.Dense, to []int32) {
	backend.CheckRows("Scatter", src, dst, to)
	b.copyRows(scatterKernel, dst, src, to)
}

// copyRows enqueues one of the kernels that copy or add a row for each of indices.
func (b *Backend) copyRows(k *kernel, dst, src *tensor.Dense, indices []int32) {
	if len(indices) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(k, grid{x: ceilDiv(len(indices), rowWarps)}, rowThreads, 0).
		tensor(dst).tensor(src).ints(indices).int(len(indices)).int(backend.Width(dst)).end()
	keepAlive(dst, src)
}

// Activate applies f to rows of x in place.
func (b *Backend) Activate(x *tensor.Dense, rows int, f backend.Activation) {
	backend.CheckRowCount("Activate", x, rows)
	n := rows * backend.Width(x)
	if n == 0 || f == backend.Identity {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := grid{x: min(ceilDiv(n, rowThreads), 32*b.Multiprocessors)}
	b.begin(activateKernel, g, rowThreads, 0).
		tensor(x).long(int64(n)).int(int(f)).end()
	runtime.KeepAlive(x)
}

// Modulate computes x = x*(1+scale[seq]) + shift[seq].
func (b *Backend) Modulate(x, scale, shift *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("Modulate", x, scale, segs)
	backend.CheckSegmentRows("Modulate", x, shift, segs)
	if len(segs) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rows, contiguous := contiguousRows(segs)
	b.begin(modulateKernel, segmentGrid(segs), rowThreads, 0).
		tensor(x).tensor(scale).tensor(shift).segments(segs).int(backend.Width(x)).
		result(x, rows, contiguous).end()
	keepAlive(x, scale, shift)
}

// GateAdd computes dst += gate[seq]*x.
func (b *Backend) GateAdd(dst, x, gate *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("GateAdd", dst, gate, segs)
	backend.CheckSegmentRows("GateAdd", x, gate, segs)
	if len(segs) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(gateAddKernel, segmentGrid(segs), rowThreads, 0).
		tensor(x).tensor(gate).segments(segs).int(backend.Width(dst)).tensor(dst).end()
	keepAlive(dst, x, gate)
}

// segmentGrid returns the grid of kernels whose block (i, j) computes the rows from j*rowWarps on
// of segment i.
func segmentGrid(segs []backend.Segment) grid {
	longest := 1
	for _, s := range segs {
		longest = max(longest, s.Rows)
	}
	return grid{x: len(segs), y: min(ceilDiv(longest, rowWarps), maxSpread)}
}
