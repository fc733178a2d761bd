package backendtest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/internal/quant"
)

// testAllocations checks that no kernel of a step allocates on Go's heap once it has run, for
// devices that promise this.
func testAllocations(t *testing.T, open func() backend.Backend) {
	s := &suite{T: t, dev: open(), ref: plain.New(), rand: rand.New(rand.NewPCG(1, 2))}
	const rows, width, batch, length = 12, 64, 3, 20
	b := s.dev
	h := backend.Heads{Heads: 2, HeadDim: 32, Keys: length}
	x, y, q := s.random(rows, width).dev, s.random(rows, width).dev, s.random(rows, width).dev
	qkv := s.random(rows, 3*width).dev
	k, v := s.random(batch, 2, length, 32).dev, s.random(batch, 2, length, 32).dev
	per, vector := s.random(batch, width).dev, s.random(width).dev
	n := backend.Norm{Scale: vector, Shift: vector, Eps: 1e-5}
	angles := &backend.Rotary{Cos: s.random(length, 16).dev, Sin: s.random(length, 16).dev}
	at := []int32{3, 2, 1, 0, 4, 5, 6, 7, 8, 9, 10, 11}
	shape := backend.ConvShape{Batch: 1, Height: 4, Width: 3, In: width, Out: width, KH: 1, KW: 1}
	stats := newStats(rows, 1.5)
	draw := &backend.HeadDraw{Power: 1, Uniform: make([]float64, rows), Token: make([]int32, rows),
		LogP: make([]float64, rows)}
	scales := make([]float32, rows)
	visit := func(int, []float32) {}
	calls := map[string]func(){
		"LayerNorm":  func() { b.LayerNorm(y, x, rows, n) },
		"RMSNorm":    func() { b.RMSNorm(y, x, rows, backend.Norm{Scale: vector}) },
		"NormHeads":  func() { b.NormHeads(qkv, rows, h, backend.Norm{}, backend.Norm{}) },
		"Activate":   func() { b.Activate(y, rows, backend.GELUErf) },
		"Modulate":   func() { b.Modulate(y, per, per, ragged) },
		"GateAdd":    func() { b.GateAdd(y, x, per, ragged) },
		"Gather":     func() { b.Gather(y, x, at) },
		"AddRows":    func() { b.AddRows(y, x, at) },
		"AddScaled":  func() { b.AddScaled(y, x, at, scales) },
		"Scatter":    func() { b.Scatter(y, x, at) },
		"SplitHeads": func() { b.SplitHeads(q, k, v, qkv, ragged, at, h, angles) },
		"Attention":  func() { b.Attention(y, q, k, v, ragged, h) },
		"GroupNorm":  func() { b.GroupNorm(per, per, x, 1, rows, width, 4, n) },
		"Pool":       func() { b.Pool(y, x, shape, backend.Mean) },
	}
	for _, as := range precisions {
		w := s.weights(width, width, as).dev
		head := backend.Head{W: w, Bias: vector, Outcomes: width - 1}
		calls["Linear "+as.String()] = func() {
			b.Linear(y, x, rows, w, backend.Epilogue{Bias: vector, Act: backend.GELUTanh})
		}
		calls["Gated "+as.String()] = func() {
			b.Linear(y, x, rows, w, backend.Epilogue{Act: backend.SiLU, Times: y})
		}
		calls["HeadStats "+as.String()] = func() { b.HeadStats(x, rows, head, stats) }
		calls["HeadSample "+as.String()] = func() { b.HeadSample(x, rows, head, draw) }
		calls["HeadVisit "+as.String()] = func() { b.HeadVisit(x, rows, head, visit) }
	}
	if p, ok := b.(backend.BlockPacker); ok {
		w := p.PackBlocks(256, s.blockRows(width, 256, quant.Q4_K), s.blockRows(width, 256, quant.Q6_K))
		x, y := s.random(rows, 256).dev, s.random(rows, 2*width).dev
		calls["Linear blocks"] = func() { b.Linear(y, x, rows, w, backend.Epilogue{}) }
	}
	w := s.weights(width, width, backend.F32).dev
	calls["Conv"] = func() {
		b.Conv(y, x, shape, w, backend.ConvInput{SiLU: true}, backend.Epilogue{Bias: vector})
	}
	for kernel, call := range calls {
		for range 3 { // a device may prepare for calls that it has seen before
			call()
		}
		require.Zero(t, testing.AllocsPerRun(5, call), "allocations of %s", kernel)
	}
}
