//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// step is a list of a dozen commands with arguments and a result.
func step(b *Backend, x *tensor.Dense, in, out []float32) {
	b.Write(x, 0, in)
	for range 12 {
		relu(b, x)
	}
	b.Read(out, x, 0)
}

// TestGraph: a list is launched command by command the first time, becomes a graph the second time,
// and is one launch from then on.
func TestGraph(t *testing.T) {
	b, l := open(t)
	x := b.New(2, 300)
	read(b, x)
	out := make([]float32, 3)
	for i := range 5 {
		l.Forget()
		v := float32(i + 1)
		step(b, x, []float32{-v, v, 2 * v}, out)
		require.Equal(t, []float32{0, v, 2 * v}, out, "arguments are the call's, not the graph's")
		graphs := []int{0, 1, 1, 1, 1}[i]
		launches := []int{12, 12, 0, 0, 0}[i] // the second time they are captured
		require.Equal(t, []int{graphs, launches, 12},
			[]int{l.Calls("cuGraphLaunch"), l.Calls("cuLaunchKernel"), l.Calls("unmask_activate")},
			"time %d", i)
		require.Equal(t, 1, l.Calls("cuStreamSynchronize"), "one wait a step")
		require.LessOrEqual(t, l.Calls("cuMemcpyHtoDAsync_v2"), 2)
	}
}

// TestChanged: lists with different grids, parameters, kernels or lengths are different lists.
func TestChanged(t *testing.T) {
	b, l := open(t)
	x, y := b.New(2, 300), b.New(2, 300)
	run := func(launches int, x *tensor.Dense, n int) []float32 {
		b.Write(x, 0, []float32{-1, -2, -3, -4})
		for range launches {
			b.mu.Lock()
			b.begin(activateTwice, grid{x: 2}, 256, 0).tensor(x).long(int64(n)).int(4).end()
			b.mu.Unlock()
		}
		return read(b, x)[:4]
	}
	for range 4 {
		require.Equal(t, []float32{0, 0, -3, -4}, run(10, x, 2))
		require.Equal(t, []float32{0, 0, 0, -4}, run(10, x, 3))
		require.Equal(t, []float32{0, -2, -3, -4}, run(10, y, 1))
		require.Equal(t, []float32{0, 0, 0, 0}, run(11, y, 600))
	}
	require.Equal(t, 4, l.Live()["executables"])
}

// TestCollision: lists with equal hashes are still told apart.
func TestCollision(t *testing.T) {
	b, l := open(t)
	x := b.New(2, 300)
	out := make([]float32, 3)
	for range 3 {
		step(b, x, []float32{-1, 2, 3}, out)
	}
	for h, g := range b.graphs.byHash {
		g.params[0]++
		require.Contains(t, b.graphs.seen, h)
	}
	l.Forget()
	step(b, x, []float32{-1, 2, 3}, out)
	require.Equal(t, []float32{0, 2, 3}, out)
	require.Equal(t, []int{0, 12}, []int{l.Calls("cuGraphLaunch"), l.Calls("cuLaunchKernel")})
}

// TestEvict: the least recently used graphs are destroyed.
func TestEvict(t *testing.T) {
	b, l := open(t)
	x := b.New(maxGraphs + 10)
	for n := 1; n <= maxGraphs+5; n++ {
		for range 2 {
			for range minGraph {
				b.mu.Lock()
				b.begin(activateTwice, grid{x: 1}, 32, 0).tensor(x).long(int64(n)).int(4).end()
				b.mu.Unlock()
			}
			read(b, x)
		}
	}
	require.Equal(t, maxGraphs, l.Live()["executables"])
	require.Zero(t, l.Live()["graphs"])
}

// TestSteadyState: repeated steps allocate nothing, in Go or on the device, ten thousand times.
func TestSteadyState(t *testing.T) {
	b, l := open(t)
	x := b.New(1, 64)
	in, out := []float32{-1, 1}, make([]float32, 2)
	run := func() { step(b, x, in, out) }
	for range 3 {
		run()
	}
	require.Zero(t, testing.AllocsPerRun(100, run))
	before := l.Live()
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	for range 4000 {
		run()
	}
	runtime.GC()
	runtime.ReadMemStats(&m1)
	require.Equal(t, before, l.Live())
	require.Less(t, int64(m1.HeapAlloc)-int64(m0.HeapAlloc), int64(128<<10))
}
