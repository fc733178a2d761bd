//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// TestLazy: kernel calls reach the driver only when a result is read.
func TestLazy(t *testing.T) {
	b, l := open(t)
	x := b.New(4, 100)
	l.Forget()
	b.Write(x, 1, []float32{-1, 2, -3})
	relu(b, x)
	for _, name := range []string{"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"} {
		require.Zero(t, l.Calls(name), name)
	}
	got := make([]float32, 3)
	b.Read(got, x, 1)
	require.Equal(t, []float32{0, 2, 0}, got)
	require.Equal(t, []int{1, 1, 1},
		[]int{l.Calls("cuLaunchKernel"), l.Calls("cuMemcpyHtoDAsync_v2"), l.Calls("cuStreamSynchronize")})
}

// TestArguments: a slice may change after a call has it, and is copied once while it does not.
func TestArguments(t *testing.T) {
	b, _ := openAny(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []int32{1, 2, 3}
	first := upload(b, list)
	require.Equal(t, first, upload(b, list))
	list[1] = 7
	second := upload(b, list)
	require.NotEqual(t, first, second)
	require.Zero(t, upload(b, []int32(nil)))
	large := make([]float64, 3*argBytes/8)
	for i := range large {
		large[i] = float64(i)
	}
	third := upload(b, large)
	got, last := make([]int32, 3), make([]float64, 1)
	before := make([]int32, 3)
	fetch(b, before, first)
	fetch(b, got, second)
	fetch(b, last, third+devicePtr(8*(len(large)-1)))
	clear(list)
	clear(large)
	b.sync()
	require.Equal(t, []int32{1, 2, 3}, before)
	require.Equal(t, []int32{1, 7, 3}, got)
	require.Equal(t, []float64{3*argBytes/8 - 1}, last)
}

// TestFlushed: lists that were sent but not waited for keep their arguments while the next are
// made. Only if all banks are in use does the host wait.
func TestFlushed(t *testing.T) {
	b, l := open(t)
	const lists = 3 * banks
	x := b.New(lists, 50)
	read(b, x)
	for round := range 3 {
		l.Forget()
		for i := range lists {
			if i == banks {
				require.Zero(t, l.Calls("cuEventSynchronize"))
			}
			b.Write(x, i, []float32{float32(100*round + i)})
			b.mu.Lock()
			b.flush()
			b.mu.Unlock()
		}
		require.Positive(t, l.Calls("cuEventSynchronize"))
		got := read(b, x)
		for i := range lists {
			require.Equal(t, float32(100*round+i), got[50*i])
		}
	}
}

// TestLarge: large copies do not go through the list, and stay in order.
func TestLarge(t *testing.T) {
	b, _ := openAny(t)
	v := make([]float32, directBytes)
	for i := range v {
		v[i] = float32(i % 1000)
	}
	x := b.New(len(v))
	b.Write(x, 0, v)
	clear(v[:10])
	b.Write(x, 0, v[:10])
	got := read(b, x)
	require.Equal(t, v, got)
}

// TestStaging: a large slice may change after a call has it, however many are being copied; the
// host waits only if all pinned memory is in use.
func TestStaging(t *testing.T) {
	b, l := openAny(t)
	const n = stagingBytes / 4
	sizes := []int{directBytes / 4, n, n + 1, 3*n - 5}
	var all []*tensor.Dense
	v := make([]float32, 3*n)
	for i, size := range sizes {
		for j := range v[:size] {
			v[j] = float32(i*1000 + j%997)
		}
		x := b.New(size)
		b.Write(x, 0, v[:size])
		clear(v)
		all = append(all, x)
		if i == 1 && l != nil {
			require.Zero(t, l.Calls("cuEventSynchronize"))
		}
	}
	if l != nil {
		require.Positive(t, l.Calls("cuEventSynchronize"))
	}
	for i, x := range all {
		for j, got := range read(b, x) {
			if want := float32(i*1000 + j%997); got != want {
				t.Fatalf("number %d of %d: %v, want %v", j, sizes[i], got, want)
			}
		}
	}
	require.NoError(t, b.Close())
	if l != nil {
		require.Empty(t, l.Live())
	}
}

// TestResults: results larger than the pinned memory are delivered in parts.
func TestResults(t *testing.T) {
	b, _ := openAny(t)
	x := b.New(1000)
	b.mu.Lock()
	defer b.mu.Unlock()
	var got [3 * outBytes / 4000][]float32
	for i := range got {
		got[i] = make([]float32, 1000)
		b.store(b.addressOf(x), bytesOf([]float32{float32(i)}))
		fetch(b, got[i], b.addressOf(x))
	}
	b.sync()
	for i := range got {
		require.Equal(t, float32(i), got[i][0])
	}
}

// TestGoroutines: calls of several goroutines take turns, on any thread.
func TestGoroutines(t *testing.T) {
	b, _ := openAny(t)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			x := b.New(1, 50)
			for i := range 50 {
				v := float32(1000*g + i)
				b.Write(x, 0, []float32{-v, v})
				relu(b, x)
				if got := read(b, x); got[0] != 0 || got[1] != v {
					t.Errorf("goroutine %d reads %v", g, got[:2])
				}
			}
		})
	}
	all.Wait()
}

func TestMisuse(t *testing.T) {
	b, _ := open(t)
	other, _ := open(t)
	require.PanicsWithValue(t, "cuda: a tensor of another device", func() { relu(b, other.New(3)) })
	require.Panics(t, func() { b.begin(activateTwice, grid{}, 256, 0) })
	require.Panics(t, func() { b.begin(activateTwice, grid{x: 1}, 2048, 0) })
}
