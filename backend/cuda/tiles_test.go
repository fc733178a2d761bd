//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"strings"
	"testing"

	"unmask/backend"
	"unmask/internal/fakecuda"
)

// BenchmarkTiles times every tile at the shapes of SDTT small and its output head, with few rows
// and many. linear.go and head.go estimate these costs. "chosen" is 1 for the tile that is chosen.
// Without a GPU it runs one shape.
func BenchmarkTiles(b *testing.B) {
	shapes, counts, outcomes := [][2]int{{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}},
		[]int{16, 64, 256, 1024, 4096, 16384}, 50258
	depth := 768 // the head's
	if !fakecuda.UsesGPU() {
		shapes, counts, outcomes = [][2]int{{64, 256}}, []int{16}, 200
		depth = 64
	}
	dev := openAs(b, fakecuda.DriverPath(b), 0)
	for _, as := range precisions {
		for _, s := range shapes {
			m := packed(dev, normal(1, s[0]*s[1]), s[1], s[0], as).(*matrix)
			for _, rows := range counts {
				x, y := put(dev, normal(2, rows*s[0]), rows, s[0]), dev.New(rows, s[1])
				o := operandOf(dev, dev.addressOf(x), rows, m)
				for i := range linearTiles[as] {
					t := &linearTiles[as][i]
					if !dev.runsTile(t, m) {
						continue
					}
					chosen := t == dev.fastestTile(linearTiles[as], rows, m)
					timeTile(b, fmt.Sprintf("%v/%dx%d/rows%d/%s", as, s[0], s[1], rows, size(t)), dev, chosen,
						rows*s[0]*s[1], func() {
							dev.beginTile(t, o, rows, m, m.out, 0, backend.Identity, false, 1).tensor(y).pointer(0).end()
						})
				}
			}
		}
		m := packed(dev, normal(3, outcomes*depth), outcomes, depth, as).(*matrix)
		h := head{weights: m, spec: backend.Head{W: m, Outcomes: outcomes}, scale: 1,
			tiles: (outcomes + headTile - 1) / headTile}
		for _, rows := range counts {
			if rows > headRows {
				break
			}
			x := put(dev, normal(4, rows*m.in), rows, m.in)
			o := operandOf(dev, dev.addressOf(x), rows, m)
			all := headTiles[as]
			for i := range all {
				t := &all[i]
				if !dev.runsTile(t, m) {
					continue
				}
				chosen := t == dev.fastestTile(all, rows, m)
				timeTile(b, fmt.Sprintf("%v/head/rows%d/%s", as, rows, size(t)), dev, chosen,
					rows*m.in*outcomes, func() {
						headTiles[as] = all[i : i+1]
						dev.reduceTiles(&h, o, rows, neededParts{power: 1, moment: true, cell: true})
						headTiles[as] = all
					})
			}
		}
	}
}

// operandOf returns rows of x in m's precision, in separate memory.
func operandOf(b *Backend, x devicePtr, rows int, m *matrix) operand {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.products.narrow, b.products.scale = scratchMemory{}, scratchMemory{}
	return b.roundRows(x, rows, m)
}

// size is the part of a tile's name that tells it from others of its precision.
func size(t *tile) string { return t.kernel.name[strings.LastIndex(t.kernel.name, "_")+1:] }

func timeTile(b *testing.B, name string, dev *Backend, chosen bool, products int, begin func()) {
	b.Run(name, func(b *testing.B) {
		dev.mu.Lock()
		defer dev.mu.Unlock()
		begin()
		dev.sync()
		b.ResetTimer()
		for range b.N {
			begin()
		}
		dev.sync()
		b.ReportMetric(2*float64(products)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
		b.ReportMetric(float64(flagOf(chosen)), "chosen")
	})
}
