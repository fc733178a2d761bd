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
	rowThreads = 256             // of a block in which each warp computes a row
	rowWarps   = rowThreads / 32 // rows of a block at a time
	maxSpread  = 256             // most blocks that share a segment
)

func ceilDiv(n, by int) int { return (n + by - 1) / by }

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

func (b *Backend) copyRows(k *kernel, dst, src *tensor.Dense, at []int32) {
	if len(at) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(k, grid{x: ceilDiv(len(at), rowWarps)}, rowThreads, 0).
		tensor(dst).tensor(src).ints(at).int(len(at)).int(backend.Width(dst)).end()
	keep(dst, src)
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
	b.begin(activateKernel, grid{x: min(ceilDiv(n, rowThreads), 32*b.Multiprocessors)}, rowThreads, 0).
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
	n, all := contiguous(segs)
	b.begin(modulateKernel, spread(segs), rowThreads, 0).
		tensor(x).tensor(scale).tensor(shift).segments(segs).int(backend.Width(x)).result(x, n, all).end()
	keep(x, scale, shift)
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
	b.begin(gateAddKernel, spread(segs), rowThreads, 0).
		tensor(x).tensor(gate).segments(segs).int(backend.Width(dst)).tensor(dst).end()
	keep(dst, x, gate)
}

// spread returns the grid of kernels whose block (i, j) computes the rows from j*rowWarps on of
// segment i.
func spread(segs []backend.Segment) grid {
	longest := 1
	for _, s := range segs {
		longest = max(longest, s.Rows)
	}
	return grid{x: len(segs), y: min(ceilDiv(longest, rowWarps), maxSpread)}
}
