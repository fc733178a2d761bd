//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/plain"
)

var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}

// normal returns n normally distributed numbers.
func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// put copies x to a new tensor on a device.
func put(b backend.Backend, x []float32, shape ...int) *tensor.Dense {
	t := b.New(shape...)
	b.Write(t, 0, x)
	return t
}

func packed(b backend.Backend, w []float32, out, in int, as backend.Precision) backend.Matrix {
	return b.Pack(out, in, as, func(i int, dst []float32) { copy(dst, w[i*in:(i+1)*in]) })
}

// All tiles give the same bits.
func TestTilesGiveTheSameBits(t *testing.T) {
	const rows, in, out = 150, 83, 300
	all, heads := linearTiles, headTiles
	t.Cleanup(func() { linearTiles, headTiles = all, heads })
	x, w, bias := normal(1, rows*in), normal(2, out*in), normal(3, out)
	b, _ := openAny(t)
	dx, db := put(b, x, rows, in), put(b, bias, out)
	for _, as := range precisions {
		m := packed(b, w, out, in, as)
		var first []float32
		var logSum, entropy []float64 // of the first
		for i := range all[as] {
			linearTiles[as] = all[as][i : i+1]
			if !b.runsTile(&all[as][i], m.(*matrix)) {
				continue
			}
			y := b.New(rows, out)
			b.Linear(y, dx, rows, m, backend.Epilogue{Bias: db, Act: backend.SiLU})
			if got := read(b, y); first == nil {
				first = got
			} else {
				require.Equal(t, first, got, "%v, tile %d", as, i)
			}
		}
		linearTiles[as] = all[as]
		for i := range heads[as] {
			if !b.runsTile(&heads[as][i], m.(*matrix)) {
				continue
			}
			headTiles[as] = heads[as][i : i+1]
			s := &backend.HeadStats{LogSum: make([]float64, rows), Entropy: make([]float64, rows)}
			b.HeadStats(dx, rows, backend.Head{W: m, Bias: db, Outcomes: out - 1}, s)
			if logSum == nil {
				logSum, entropy = s.LogSum, s.Entropy
			}
			require.Equal(t, logSum, s.LogSum, "%v, head tile %d", as, i)
			require.Equal(t, entropy, s.Entropy)
		}
		headTiles[as] = heads[as]
	}
}

// Every tile is right, at sizes that it divides and at others.
func TestTiles(t *testing.T) {
	all := linearTiles
	t.Cleanup(func() { linearTiles = all })
	tried := map[backend.Precision]map[int]bool{}
	for _, size := range [][3]int{{128, 128, 256}, {129, 130, 131}, {40, 33, 514}} {
		rows, in, out := size[0], size[1], size[2]
		x, w, old := normal(4, rows*in), normal(5, out*in), normal(6, rows*out)
		b, _ := openAny(t)
		ref := plain.New()
		for _, as := range precisions {
			want := put(ref, old, rows, out)
			ref.Linear(want, put(ref, x, rows, in), rows, packed(ref, w, out, in, as),
				backend.Epilogue{Act: backend.GELUErf, Add: true})
			m := packed(b, w, out, in, as)
			for i := range all[as] {
				if !b.runsTile(&all[as][i], m.(*matrix)) {
					continue
				}
				if tried[as] == nil {
					tried[as] = map[int]bool{}
				}
				tried[as][i] = true
				linearTiles[as] = all[as][i : i+1]
				y := put(b, old, rows, out)
				b.Linear(y, put(b, x, rows, in), rows, m, backend.Epilogue{Act: backend.GELUErf, Add: true})
				near(t, fmt.Sprintf("%v %v tile %d", size, as, i), want.Float32s(), read(b, y),
					2e-4*math.Sqrt(float64(in)))
			}
			linearTiles[as] = all[as]
		}
	}
	for _, as := range precisions {
		require.Len(t, tried[as], len(all[as]), "tiles of %v that were tried", as)
	}
}

func near(t *testing.T, what string, want, got []float32, tolerance float64) {
	t.Helper()
	for i, w := range want {
		require.InDelta(t, w, got[i], tolerance, "%s: value %d", what, i)
	}
}

// gorgonia's products, of matrices and their transposes.
func TestMatMul(t *testing.T) {
	b, _ := openAny(t)
	for _, size := range [][3]int{{1, 1, 1}, {7, 33, 5}, {70, 19, 130}} {
		m, k, n := size[0], size[1], size[2]
		x, y := normal(1, m*k), normal(2, k*n)
		want := make([]float32, m*n)
		for i := range m {
			for j := range n {
				var sum float64
				for p := range k {
					sum += float64(x[i*k+p]) * float64(y[p*n+j])
				}
				want[i*n+j] = float32(sum)
			}
		}
		turned := func(v []float32, rows, columns int) *tensor.Dense {
			w := make([]float32, len(v))
			for i := range rows {
				for j := range columns {
					w[j*rows+i] = v[i*columns+j]
				}
			}
			d := put(b, w, columns, rows)
			require.NoError(t, d.T())
			return d
		}
		for i, a := range []*tensor.Dense{put(b, x, m, k), turned(x, m, k)} {
			for j, c := range []*tensor.Dense{put(b, y, k, n), turned(y, k, n)} {
				got := b.New(m, n)
				require.NoError(t, b.MatMul(a, c, got))
				near(t, fmt.Sprintf("%v, transposed %d %d", size, i, j), want, read(b, got), 1e-4)
			}
		}
	}
	one, two := b.New(3, 4), b.New(3, 4)
	require.EqualError(t, b.MatMul(one, two, b.New(3, 3)),
		"cuda: MatMul: (3, 4) times (3, 4) into (3, 3)")
	require.ErrorContains(t, b.MatMul(one, b.New(4), two),
		"cuda: MatMul: float32 (4), want float32 matrices of this device")
	require.ErrorContains(t, b.MatMul(one, plain.New().New(4, 4), two),
		"want float32 matrices of this device")
}

// Pack's matrices have the right content and report their memory.
func TestPack(t *testing.T) {
	b, _ := openAny(t)
	for _, c := range []struct {
		as          backend.Precision
		out, in     int
		bytes, rows int
	}{{backend.F32, 3, 5, 128 * 128, 128}, {backend.BF16, 257, 65, 512 * 256, 512},
		{backend.BF16, 129, 65, 256 * 256, 256}, {backend.Int8, 1, 128, 128*128 + 4*128, 128}} {
		m := packed(b, normal(1, c.out*c.in), c.out, c.in, c.as).(*matrix)
		require.Equal(t, []int{c.bytes, c.rows}, []int{m.Bytes(), m.rows}, "%v", c)
	}
	// Weights that are copied in several pieces are complete.
	const out, in = 1100, packBytes / 4 / 1000
	w := normal(2, out*in)
	m := packed(b, w, out, in, backend.F32).(*matrix)
	got := make([]float32, out*m.stride/4)
	b.mu.Lock()
	fetch(b, got, m.data)
	b.sync()
	b.mu.Unlock()
	for i := range out {
		require.Equal(t, w[i*in:(i+1)*in], got[i*m.stride/4:][:in], "row %d", i)
	}
	require.PanicsWithValue(t, "Pack: [0, 3] weights as 0", func() { b.Pack(0, 3, backend.F32, nil) })
	require.Panics(t, func() { b.Pack(1, maxInt8Depth+1, backend.Int8, nil) })
}

// The choice of a tile depends on how many blocks a multiprocessor gets; these were the fastest of
// an H100 (bench/card/card.sh tiles).
func TestBestTile(t *testing.T) {
	b := &Backend{device: &device{entries: make([]uintptr, len(kernels))}} // without Hopper's
	b.Multiprocessors = 132
	for _, c := range []struct {
		rows, out int
		want      string
	}{{32, 768, "tiny"}, {32, 3072, "tiny"}, {512, 768, "small"}, {4096, 768, "small"},
		{16384, 768, "medium"}, {16384, 2304, "medium"}} {
		m := &matrix{out: c.out, rows: paddedRows(c.out), precision: backend.BF16}
		require.Equal(t, "unmask_linear_bf16_"+c.want,
			b.fastestTile(linearTiles[backend.BF16], c.rows, m).kernel.name, "%+v", c)
	}
	odd := &matrix{out: 384, rows: 384, precision: backend.BF16} // not a multiple of the largest tiles
	require.Equal(t, "unmask_linear_bf16_medium",
		b.fastestTile(linearTiles[backend.BF16], 1<<20, odd).kernel.name)
}
