//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/fakecuda"
)

func TestOutOfMemory(t *testing.T) {
	b, l := open(t)
	l.Set(t, "memory", 1<<28)
	kept := b.New(1<<18, 100)
	err := failing(func() { b.New(1<<18, 200) })
	require.EqualError(t, err,
		"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): 0.2 GB wanted, 0.2 GB of 0.3 GB free; a smaller "+
			"--batch needs less")
	require.Equal(t, float32(0), read(b, kept)[5], "what was there is still there")
	b.New(1<<18, 150)
}

// TestCollected: memory of unreferenced tensors is reused before the device runs out of memory.
func TestCollected(t *testing.T) {
	l := fakecuda.Open(t)
	b, err := New(Options{Library: l.Path})
	require.NoError(t, err)
	l.Set(t, "memory", 1<<28)
	for range 20 {
		x := b.New(1<<18, 100)
		b.Write(x, 0, []float32{1})
		runtime.KeepAlive(x)
	}
	require.LessOrEqual(t, l.Live()["bytes"], 1<<28)
}

// TestSettled: memory is returned to the driver only after the list has run, even if memory runs
// out in the middle of a call.
func TestSettled(t *testing.T) {
	b, l := open(t)
	kept := b.New(100)
	b.Write(kept, 0, []float32{-1, 2, -3})
	b.New(1 << 20) // the zeros are not written yet
	l.Set(t, "memory", l.Live()["bytes"]+3<<20)
	b.mu.Lock()
	c := b.begin(activateTwice, grid{x: 1}, 128, 0).tensor(kept)
	list := slices.Repeat([]int32{7}, 3<<19)
	at := upload(b, list)
	c.long(100).int(4).end()
	got := make([]int32, len(list))
	fetch(b, got, at)
	b.sync()
	b.mu.Unlock()
	require.Equal(t, list, got)
	require.Equal(t, []float32{0, 2, 0}, read(b, kept)[:3])
}

// TestMemoryFree: free memory of the arena counts as free, and so does that of unreferenced
// tensors.
func TestMemoryFree(t *testing.T) {
	l := fakecuda.Open(t)
	b, err := New(Options{Library: l.Path})
	require.NoError(t, err)
	x := b.New(100)
	free, total, err := b.MemoryFree()
	require.NoError(t, err)
	require.Equal(t, 4<<30, total)
	require.Equal(t, total-roundUp(400, align), free)
	b.New(1 << 20)
	again, _, err := b.MemoryFree()
	require.NoError(t, err)
	require.Equal(t, free, again)
	runtime.KeepAlive(x)
}

func TestScratch(t *testing.T) {
	b, l := open(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	var m scratchMemory
	first := b.scratch(&m, 1000)
	require.Equal(t, first, b.scratch(&m, 10))
	calls := l.Calls("cuMemAlloc_v2")
	grown := b.scratch(&m, 5000)
	require.NotEqual(t, first, grown)
	require.Equal(t, grown, b.scratch(&m, 5000))
	require.Equal(t, calls+1, l.Calls("cuMemAlloc_v2"))
}

// TestArena: spans do not overlap, and all memory is one span again after everything is released.
func TestArena(t *testing.T) {
	l := fakecuda.Open(t)
	b, err := New(Options{Library: l.Path})
	require.NoError(t, err)
	require.NoError(t, b.enter())
	defer b.leave()
	rapid.Check(t, func(t *rapid.T) {
		a := &arena{device: b.device, live: map[devicePtr]int{}, drain: b.drain}
		var order []devicePtr
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			if len(order) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(order)-1).Draw(t, "which")
				a.release(order[i])
				order = append(order[:i], order[i+1:]...)
				continue
			}
			n := rapid.IntRange(0, 3*minChunk/2).Draw(t, "bytes")
			p, err := a.allocate(n)
			require.NoError(t, err)
			require.Zero(t, p%align)
			require.True(t, a.contains(p))
			for q, bytes := range a.live {
				require.True(t, p == q || p+devicePtr(n) <= q || q+devicePtr(bytes) <= p,
					"memory is handed out twice")
			}
			order = append(order, p)
		}
		for _, p := range order {
			a.release(p)
		}
		require.ElementsMatch(t, a.chunks, a.free)
		a.returnChunks()
		require.Empty(t, a.chunks)
	})
}
