//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
)

// More rows than a pass over the weights has give the results that each gives alone.
func TestHeadOfManyRows(t *testing.T) {
	const rows, in, out = headRows + 70, 8, 200
	b, _ := openAny(t)
	data := normal(1, rows*in)
	x := put(b, data, rows, in)
	head := backend.Head{W: packed(b, normal(2, out*in), out, in, backend.BF16), Outcomes: out}
	ask := func(n int) (*backend.HeadStats, *backend.HeadDraw) {
		f := func() []float64 { return make([]float64, n) }
		return &backend.HeadStats{Beta: 2, LogMoment: f(), Entropy: f(), P1: f(), P2: f(), LogSum: f(),
				Arg: make([]int32, n)},
			&backend.HeadDraw{Power: 2, Uniform: f(), Token: make([]int32, n), LogP: f()}
	}
	all, drawn := ask(rows)
	for i := range drawn.Uniform {
		drawn.Uniform[i] = float64(i%97) / 97
	}
	b.HeadStats(x, rows, head, all)
	b.HeadSample(x, rows, head, drawn)
	for _, first := range []int{0, headRows - 30, rows - 40} {
		const n = 40
		some := put(b, data[first*in:(first+n)*in], n, in)
		stats, draw := ask(n)
		copy(draw.Uniform, drawn.Uniform[first:])
		b.HeadStats(some, n, head, stats)
		b.HeadSample(some, n, head, draw)
		require.Equal(t, all.LogMoment[first:first+n], stats.LogMoment)
		require.Equal(t, all.Entropy[first:first+n], stats.Entropy)
		require.Equal(t, all.P1[first:first+n], stats.P1)
		require.Equal(t, all.P2[first:first+n], stats.P2)
		require.Equal(t, all.LogSum[first:first+n], stats.LogSum)
		require.Equal(t, all.Arg[first:first+n], stats.Arg)
		require.Equal(t, drawn.Token[first:first+n], draw.Token)
		require.Equal(t, drawn.LogP[first:first+n], draw.LogP)
	}
}

// More logits than are held at a time are passed on in groups of rows, each row once.
func TestVisitOfManyLogits(t *testing.T) {
	const in, out = 1, 1 << 17
	const rows = visitSize/(4*out) + 3
	b, _ := openAny(t)
	x := normal(1, rows)
	bias := normal(2, out)
	one := b.Pack(out, in, backend.F32, func(_ int, dst []float32) { dst[0] = 1 })
	var mu sync.Mutex
	seen := map[int]bool{}
	b.HeadVisit(put(b, x, rows, in), rows,
		backend.Head{W: one, Bias: put(b, bias, out), Outcomes: out, Scale: 2},
		func(row int, logits []float32) {
			mu.Lock()
			defer mu.Unlock()
			require.False(t, seen[row])
			seen[row] = true
			require.Len(t, logits, out)
			for _, i := range []int{0, 77, out - 1} {
				require.Equal(t, 2*(x[row]+bias[i]), logits[i])
			}
		})
	require.Len(t, seen, rows)
}
