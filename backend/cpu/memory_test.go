package cpu

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Memory is zeroed, aligned to cache lines, and belongs to one owner.
func TestSlabs(t *testing.T) {
	var s slabs
	sizes := []int{1, 100, hugeBytes / 32, hugeBytes/32 + 1, 777_777, 1_000_000, slabBytes/8 - 1,
		slabBytes / 8, slabBytes/4 + 5}
	var all [][]float32
	for range 3 {
		for _, n := range sizes {
			w := s.newWeights(n)
			for _, x := range [][]float32{s.newTensor(n), w.data} {
				require.Len(t, x, n)
				require.Equal(t, n, cap(x), "an append would write to a neighbour")
				require.Zero(t, uintptr(unsafe.Pointer(&x[0]))%lineBytes)
				for i, v := range x {
					if v != 0 {
						require.Failf(t, "not zero", "value %d of %d", i, n)
					}
					x[i] = float32(len(all) + 1)
				}
				all = append(all, x)
			}
			defer runtime.KeepAlive(w.mapping)
		}
	}
	for i, x := range all {
		require.EqualValues(t, i+1, x[0])
		require.EqualValues(t, i+1, x[len(x)-1])
	}
}

// A slab stays mapped while any of the storages that share it is in use.
func TestStorageOutlivesItsNeighbours(t *testing.T) {
	var s slabs
	var kept storage
	for i := range 40 { // several slabs
		w := s.newWeights(hugeBytes / 4)
		w.data[0] = float32(i)
		if i == 3 {
			kept = w
		}
	}
	s = slabs{}
	for range 3 {
		runtime.GC()
	}
	require.EqualValues(t, 3, kept.data[0])
	runtime.KeepAlive(kept.mapping)
}
