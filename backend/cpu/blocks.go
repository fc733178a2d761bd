package cpu

import (
	"unmask/backend"
	"unmask/internal/simd/gemm"
)

// PackBlocks packs weights in panels of the blocks' size, or up to a seventeenth more. It asks for
// a few rows at a time, on all threads, and never converts them to float32: a model in memory is
// about as large as its file.
func (b *Backend) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	m := &matrix{out: backend.CheckBlocks(in, parts), in: in, precision: backend.Blocks}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range joinParts(parts) {
		m.parts = append(m.parts, b.packBlocks(in, p))
	}
	if len(m.parts) == 1 {
		return m.parts[0]
	}
	return m
}

// joinParts merges consecutive parts of the same type, so that their input is packed once.
func joinParts(parts []backend.BlockRows) (joined []backend.BlockRows) {
	for _, p := range parts {
		last := len(joined) - 1
		if last < 0 || joined[last].Type != p.Type {
			joined = append(joined, p)
			continue
		}
		rowsBefore := joined[last].Out
		rowBefore := joined[last].Row
		joined[last].Out += p.Out
		joined[last].Row = func(i int, dst []byte) {
			if i < rowsBefore {
				rowBefore(i, dst)
			} else {
				p.Row(i-rowsBefore, dst)
			}
		}
	}
	return joined
}

// packBlocks packs a matrix of one format.
func (b *Backend) packBlocks(in int, p backend.BlockRows) *matrix {
	k := gemm.BlocksFor(b.level, p.Type)
	m := &matrix{
		out:        p.Out,
		in:         in,
		precision:  backend.Blocks,
		kernel:     k.Tile,
		multiplier: blockwise{k},
		lines:      (k.SizeA(1, in) + 3) / 4,
	}
	m.memory = b.slabs.newWeights(m.panelCount() * m.panelWords())
	bytes := p.Type.RowBytes(in)
	b.pool.For((p.Out+packWidth-1)/packWidth, func(worker, i int) {
		first := i * packWidth
		n := min(packWidth, p.Out-first)
		rows := gemm.AsBytes(b.workers[worker].row.get((packWidth*bytes + 3) / 4))[:n*bytes]
		for c := range n {
			p.Row(first+c, rows[c*bytes:][:bytes])
		}
		k.PackColumns(m.panel(first/k.Columns), first%k.Columns, rows, in)
	})
	return m
}

// runLinear computes dst = epilogue(x[:rows] w^T), one part of w after the other.
func (b *Backend) runLinear(dst, x []float32, rows int, w *matrix, e backend.Epilogue) {
	p := &b.product
	p.linearRows = rowSource{x, w.in, w.in}
	p.setTarget(dst, w.out, e)
	if w.parts == nil {
		p.run(&p.linearRows, rows, w)
		return
	}
	bias := p.bias
	times := p.times
	first := 0 // output of the part
	for _, part := range w.parts {
		p.setTarget(dst[first:], w.out, backend.Epilogue{Act: e.Act, Add: e.Add})
		if bias != nil {
			p.bias = bias[first:]
		}
		if times != nil {
			p.times = times[first:]
		}
		p.run(&p.linearRows, rows, part)
		first += part.out
	}
}
