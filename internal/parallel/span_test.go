package parallel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpanGivesEachItemOnce(t *testing.T) {
	var s span
	s.set(3, 7)
	var got []int
	for _, take := range []func() (int, bool){s.takeFirst, s.takeLast, s.takeFirst, s.takeLast} {
		i, ok := take()
		require.True(t, ok)
		got = append(got, i)
	}
	require.Equal(t, []int{3, 6, 4, 5}, got)
	for _, take := range []func() (int, bool){s.takeFirst, s.takeLast} {
		_, ok := take()
		require.False(t, ok)
	}
}

// A thread's own items are consecutive, on which prefetching relies; what it takes from others
// comes from their end.
func TestThreadsRunNeighbours(t *testing.T) {
	const n = 1000
	p := New(4)
	items := make([][]int, 4)
	for range 20 {
		for w := range items {
			items[w] = items[w][:0]
		}
		p.For(n, func(w, i int) { items[w] = append(items[w], i) })
		for w, list := range items {
			next := n * w / 4
			for _, i := range list {
				if i/(n/4) == w {
					require.Equal(t, next, i, "thread %d", w)
					next++
				}
			}
		}
	}
}
