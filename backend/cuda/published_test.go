//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/internal/fakecuda"
)

// hopperMultiprocessors is the number of multiprocessors of an H100 or H200.
const hopperMultiprocessors = 132

// publishedShapes returns numbers of rows, and shapes [in, out] of products of SDTT small; the last
// is its output head. An emulated GPU gets smaller shapes: as odd, and with several tiles in each
// direction.
func publishedShapes() (rows []int, shapes [][2]int) {
	if fakecuda.UsesGPU() {
		return []int{1, 7, 129, 1024, 16384}, [][2]int{{768, 2304}, {3072, 768}, {768, 50258}}
	}
	return []int{1, 7, 131}, [][2]int{{40, 290}, {70, 513}}
}

// TestPublishedTiles: at published sizes all tiles give the same bits, a row has the same bits
// alone and among others, and a sample of numbers equals the reference device's.
func TestPublishedTiles(t *testing.T) {
	all := linearTiles
	t.Cleanup(func() { linearTiles = all })
	counts, shapes := publishedShapes()
	most := slices.Max(counts)
	for _, s := range shapes {
		in, out := s[0], s[1]
		if out > 10000 { // too many logits to write out: see TestPublishedHeads
			continue
		}
		x, w := normal(1, most*in), normal(2, out*in)
		for _, as := range precisions {
			b, _ := openAny(t)
			m := packed(b, w, out, in, as)
			dx := put(b, x, most, in)
			var first []float32 // of the largest number of rows
			for _, rows := range slices.Backward(counts) {
				for i := range all[as] {
					if !b.runsTile(&all[as][i], m.(*matrix)) {
						continue
					}
					linearTiles[as] = all[as][i : i+1]
					y := b.New(rows, out)
					b.Linear(y, dx, rows, m, backend.Epilogue{})
					got := read(b, y)
					if first == nil {
						first = got
					}
					require.True(t, slices.Equal(first[:rows*out], got), "%v %d -> %d, %d rows, tile %d", as, in,
						out, rows, i)
				}
			}
			linearTiles[as] = all[as]
			ref, r := plain.New(), rand.New(rand.NewPCG(5, 6))
			for range 64 {
				row, column := r.IntN(most), r.IntN(out)
				want := ref.New(1, 1)
				one := packed(ref, w[column*in:(column+1)*in], 1, in, as)
				ref.Linear(want, put(ref, x[row*in:(row+1)*in], 1, in), 1, one, backend.Epilogue{})
				require.InDelta(t, want.Float32s()[0], first[row*out+column], 2e-5*math.Sqrt(float64(in)),
					"%v %d -> %d, row %d, column %d", as, in, out, row, column)
			}
		}
	}
}

// TestPublishedHeads is TestPublishedTiles for the output head's reductions and draws.
func TestPublishedHeads(t *testing.T) {
	all := headTiles
	t.Cleanup(func() { headTiles = all })
	counts, shapes := publishedShapes()
	s := shapes[len(shapes)-1]
	in, out := s[0], s[1]
	most := slices.Max(counts)
	x, w := normal(3, most*in), normal(4, out*in)
	for i := range x {
		x[i] /= float32(math.Sqrt(float64(in)))
	}
	for _, as := range precisions {
		b, _ := openAny(t)
		head := backend.Head{W: packed(b, w, out, in, as), Outcomes: out - 1}
		dx := put(b, x, most, in)
		ask := func(n int) (*backend.HeadStats, *backend.HeadDraw) {
			f := func() []float64 { return make([]float64, n) }
			d := &backend.HeadDraw{Power: 1, Uniform: f(), Token: make([]int32, n), LogP: f()}
			for i := range d.Uniform {
				d.Uniform[i] = float64(i%97) / 97
			}
			return &backend.HeadStats{Beta: 2, LogMoment: f(), Entropy: f(), P1: f(), P2: f(), LogSum: f(),
				Arg: make([]int32, n)}, d
		}
		first, drawn := ask(most)
		b.HeadStats(dx, most, head, first)
		b.HeadSample(dx, most, head, drawn)
		for _, rows := range counts {
			for i := range all[as] {
				if !b.runsTile(&all[as][i], head.W.(*matrix)) {
					continue
				}
				headTiles[as] = all[as][i : i+1]
				got, draw := ask(rows)
				b.HeadStats(dx, rows, head, got)
				b.HeadSample(dx, rows, head, draw)
				name := fmt.Sprintf("%v, %d rows, tile %d", as, rows, i)
				require.True(t, slices.Equal(first.LogMoment[:rows], got.LogMoment), name)
				require.True(t, slices.Equal(first.Entropy[:rows], got.Entropy), name)
				require.True(t, slices.Equal(first.LogSum[:rows], got.LogSum), name)
				require.True(t, slices.Equal(first.P2[:rows], got.P2), name)
				require.True(t, slices.Equal(first.Arg[:rows], got.Arg), name)
				require.True(t, slices.Equal(drawn.Token[:rows], draw.Token), name)
				require.True(t, slices.Equal(drawn.LogP[:rows], draw.LogP), name)
			}
			headTiles[as] = all[as]
		}
		ref := plain.New()
		want, _ := ask(2)
		ref.HeadStats(put(ref, x[:2*in], 2, in), 2,
			backend.Head{W: packed(ref, w, out, in, as), Outcomes: out - 1}, want)
		require.InDeltaSlice(t, want.LogSum, first.LogSum[:2], 1e-3, "%v", as)
		require.InDeltaSlice(t, want.Entropy, first.Entropy[:2], 1e-3, "%v", as)
	}
}

// Kernels chosen for a GPU of few multiprocessors and for one of many give the same bits.
func TestAnyMultiprocessors(t *testing.T) {
	const rows, in, out, length = 131, 64, 320, 131
	x, w := normal(1, rows*in), normal(2, out*in)
	library := fakecuda.DriverPath(t)
	results := func(multiprocessors int) (all [][]float32, sums [][]float64) {
		b := openAs(t, library, multiprocessors)
		dx := put(b, x, rows, in)
		for _, as := range precisions {
			m := packed(b, w, out, in, as)
			y := b.New(rows, out)
			b.Linear(y, dx, rows, m, backend.Epilogue{Act: backend.GELUTanh})
			s := &backend.HeadStats{LogSum: make([]float64, rows)}
			b.HeadStats(dx, rows, backend.Head{W: m, Outcomes: out - 1}, s)
			all, sums = append(all, read(b, y)), append(sums, s.LogSum)
			shape := backend.ConvShape{Batch: 1, Height: 9, Width: 9, In: 8, Out: 20, KH: 3, KW: 3, PadH: 1,
				PadW: 1}
			image := b.New(81, shape.Out)
			b.Conv(image, put(b, x[:81*8], 81, 8), shape, packed(b, w[:20*72], 20, 72, as),
				backend.ConvInput{}, backend.Epilogue{})
			all = append(all, read(b, image))
		}
		for _, narrow := range []bool{false, true} {
			h := backend.Heads{Heads: 2, HeadDim: 32, Keys: length, BF16: narrow}
			q, k, v, dst := put(b, x, rows, in), put(b, x, 1, 2, length, 32),
				put(b, w[:length*in], 1, 2, length, 32), b.New(rows, in)
			b.Attention(dst, q, k, v, []backend.Segment{{Rows: rows}}, h)
			all = append(all, read(b, dst))
		}
		return all, sums
	}
	few, fewSums := results(4)
	many, manySums := results(hopperMultiprocessors)
	require.Equal(t, few, many)
	require.Equal(t, fewSums, manySums)
}

// TestGraphBits: a list that is sent command by command, captured, and sent as a graph gives the
// bits of a list that never becomes a graph, with new arguments each time.
func TestGraphBits(t *testing.T) {
	l, plainly := newLayer(t), newLayer(t)
	plainly.b.graphs.disabled = true
	var results [2][][]float32
	for i, l := range []*layer{l, plainly} {
		l.b.sync()
		for round := range 5 {
			l.b.Write(l.x, 0, normal(uint64(round), layerRows*layerWidth))
			from := make([]int32, 7) // an argument at the same address each time
			for j := range from {
				from[j] = int32((round*13 + j*5) % layerRows)
			}
			l.run(func() {})
			l.b.Gather(l.h, l.y, from)
			got := make([]float32, 7*layerWidth)
			l.b.Read(got, l.h, 0)
			results[i] = append(results[i], got, read(l.b, l.y))
		}
	}
	require.NotEmpty(t, l.b.graphs.byHash)
	require.Empty(t, plainly.b.graphs.byHash)
	require.Equal(t, results[1], results[0])
}

// TestPublishedChoices: these tiles are chosen at the published sizes on a GPU of 132
// multiprocessors.
func TestPublishedChoices(t *testing.T) {
	entries := make([]uintptr, len(kernels)) // none of those that only Hopper has
	b := &Backend{device: &device{entries: entries}}
	b.Multiprocessors = hopperMultiprocessors
	m := func(out int, as backend.Precision) *matrix {
		return &matrix{out: out, rows: paddedRows(out), precision: as}
	}
	for _, c := range []struct {
		rows, out int
		as        backend.Precision
		want      string
	}{
		{16, 768, backend.BF16, "unmask_linear_bf16_tiny"},
		{1024, 2304, backend.BF16, "unmask_linear_bf16_small"},
		{16384, 3072, backend.BF16, "unmask_linear_bf16_medium"},
		{16384, 768, backend.F32, "unmask_linear_f32_large"},
		{16384, 2304, backend.Int8, "unmask_linear_int8_medium"},
	} {
		tile := b.fastestTile(linearTiles[c.as], c.rows, m(c.out, c.as))
		require.Equal(t, c.want, tile.kernel.name, "%+v", c)
	}
	for rows, want := range map[int]string{16: "unmask_head_bf16_small",
		2048: "unmask_head_bf16_large"} {
		tile := b.fastestTile(headTiles[backend.BF16], rows, m(50258, backend.BF16))
		require.Equal(t, want, tile.kernel.name)
	}
	for i := range entries {
		entries[i] = 1
	}
	for _, c := range []struct {
		rows, out int
		as        backend.Precision
		want      string
	}{
		{16, 768, backend.BF16, "tiny"}, {64, 18944, backend.BF16, "small"},
		{256, 3584, backend.BF16, "wgmma64"}, {1024, 2304, backend.BF16, "wgmma256"},
		{16384, 768, backend.BF16, "wgmma256"}, {4096, 18944, backend.Int8, "wgmma256"},
	} {
		require.Equal(t, fmt.Sprintf("unmask_linear_%v_%s", c.as, c.want),
			b.fastestTile(linearTiles[c.as], c.rows, m(c.out, c.as)).kernel.name, "%+v", c)
	}
}
