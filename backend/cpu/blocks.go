package cpu

import (
	"unmask/backend"
	"unmask/internal/simd/gemm"
)

// PackBlocks packs weights in panels of the blocks' size, or up to a seventeenth more. It asks for
// a few rows at a time, on all threads, and never converts them to float32.
func (b *Backend) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	m := &matrix{out: backend.CheckBlocks(in, parts), in: in, as: backend.Blocks}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range joined(parts) {
		m.parts = append(m.parts, b.packBlocks(in, p))
	}
	if len(m.parts) == 1 {
		return m.parts[0]
	}
	return m
}

// joined merges consecutive parts of the same type, so that their input is packed once.
func joined(parts []backend.BlockRows) (all []backend.BlockRows) {
	for _, p := range parts {
		if n := len(all) - 1; n >= 0 && all[n].Type == p.Type {
			first, row := all[n].Out, all[n].Row
			all[n].Out += p.Out
			all[n].Row = func(i int, dst []byte) {
				if i < first {
					row(i, dst)
				} else {
					p.Row(i-first, dst)
				}
			}
			continue
		}
		all = append(all, p)
	}
	return all
}

func (b *Backend) packBlocks(in int, p backend.BlockRows) *matrix {
	k := gemm.BlocksFor(b.level, p.Type)
	m := &matrix{out: p.Out, in: in, as: backend.Blocks, k: k.Tile, by: blockwise{k},
		lines: (k.SizeA(1, in) + 3) / 4}
	m.memory = b.slabs.storage(m.panels() * m.sizePanel())
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

// linearOf multiplies with every part of w.
func (b *Backend) linearOf(dst, x []float32, rows int, w *matrix, e backend.Epilogue) {
	p := &b.product
	p.x = rowSource{x, w.in, w.in}
	p.target(dst, w.out, e)
	if w.parts == nil {
		p.run(&p.x, rows, w)
		return
	}
	bias, times := p.bias, p.times
	first := 0
	for _, part := range w.parts {
		p.target(dst[first:], w.out, backend.Epilogue{Act: e.Act, Add: e.Add})
		if bias != nil {
			p.bias = bias[first:]
		}
		if times != nil {
			p.times = times[first:]
		}
		p.run(&p.x, rows, part)
		first += part.out
	}
}
