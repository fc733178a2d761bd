package parallel_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/internal/parallel"
)

func TestForRunsEachItemOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		p := parallel.New(threads)
		require.Equal(t, threads, p.Threads())
		for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 1000} {
			for range 20 {
				count := make([]atomic.Int32, n)
				inside := make([]atomic.Int32, threads)
				p.For(n, func(w, i int) {
					if inside[w].Add(1) != 1 {
						t.Errorf("worker %d runs two items at once", w)
					}
					count[i].Add(1)
					inside[w].Add(-1)
				})
				for i := range count {
					require.EqualValues(t, 1, count[i].Load(), "item %d of %d", i, n)
				}
			}
		}
	}
}

func TestForUsesItsWorkers(t *testing.T) {
	p := parallel.New(2)
	var both sync.WaitGroup
	both.Add(2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.For(2, func(w, i int) { // waits until two workers run at the same time
			both.Done()
			both.Wait()
		})
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("one worker does the work of two")
	}
}

func TestForNests(t *testing.T) {
	p := parallel.New(3)
	var n atomic.Int32
	p.For(7, func(_, _ int) { p.For(5, func(_, _ int) { n.Add(1) }) })
	require.EqualValues(t, 35, n.Load())
}

func TestForFromManyGoroutines(t *testing.T) {
	p, other := parallel.New(2), parallel.New(3)
	var n atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				p.For(4, func(_, _ int) { n.Add(1) })
				other.For(4, func(_, _ int) { n.Add(1) })
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 8*50*8, n.Load())
}

func TestForPassesPanicsOn(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		p := parallel.New(threads)
		for _, at := range []int{0, 50, 99} {
			require.PanicsWithValue(t, "item failed", func() {
				p.For(100, func(_, i int) {
					if i == at {
						panic("item failed")
					}
				})
			})
		}
		for _, items := range []int{2, 10} {
			var n atomic.Int32
			p.For(items, func(_, _ int) { n.Add(1) })
			require.EqualValues(t, items, n.Load(), "the pool works after a panic")
		}
	}
}

func TestForWakesParkedWorkers(t *testing.T) {
	p := parallel.New(2)
	for range 3 {
		var n atomic.Int32
		p.For(100, func(_, _ int) { n.Add(1) })
		require.EqualValues(t, 100, n.Load())
		time.Sleep(5 * time.Millisecond)
	}
}

func TestForAllocatesNothing(t *testing.T) {
	p := parallel.New(2)
	var n atomic.Int32
	item := func(_, _ int) { n.Add(1) }
	require.Zero(t, testing.AllocsPerRun(100, func() { p.For(10, item) }))
}

func TestForgottenPoolEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		parallel.New(4).For(8, func(_, _ int) {})
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		runtime.GC()
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func BenchmarkFor(b *testing.B) {
	p := parallel.New(2)
	item := func(_, _ int) {}
	for b.Loop() {
		p.For(2, item)
	}
}
