// Package parallel runs the items of a kernel on a fixed set of workers.
//
// Waking a goroutine costs tens of microseconds, as much as a whole product of 32 rows. So a worker
// spins for a moment after each call before it parks: consecutive calls find it awake, and an idle
// process uses no processor.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// spins is how often a worker looks for work before it parks, about 100 microseconds.
const spins = 1 << 16

// Pool is a set of workers. The goroutine that calls For is one of them.
type Pool struct {
	*pool // workers hold only this, so an unused Pool can be collected, which ends them
}

type pool struct {
	threads int

	// spin is how often a thread looks for work before it parks: 0 if there are more threads than
	// processors, because workers would take each other's.
	spin int

	workers []*worker

	// spans are the items of each thread that have not begun.
	spans []span

	// done wakes the parked caller.
	done chan struct{}

	_ [64]byte // keeps what a call writes away from what it reads and waits for

	// busy is held during a call.
	busy sync.Mutex
	item func(worker, i int)

	// failed says that an item has panicked; reason is the value of the first panic.
	failed atomic.Bool
	reason any

	_ [64]byte

	// pending counts the workers that have not finished. waiting says that the caller is parked.
	pending atomic.Int64
	waiting atomic.Bool

	_ [64]byte
}

type worker struct {
	// state is one of the states below.
	state atomic.Uint32

	// parked says that the worker waits for wake, or is about to.
	parked atomic.Bool
	wake   chan struct{}

	// closed ends the worker.
	closed atomic.Bool

	_ [64]byte // workers do not share a cache line
}

// The states of a worker. A call that runs out of items takes back workers that have not begun,
// because on a busy machine they may not get a processor for long.
const (
	idle = iota
	called
	working
)

// New returns a pool of the given number of threads, all processors for 0.
func New(threads int) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &pool{threads: threads, spans: make([]span, threads), done: make(chan struct{}, 1)}
	if threads <= min(runtime.GOMAXPROCS(0), runtime.NumCPU()) {
		p.spin = spins
	}
	for id := 1; id < threads; id++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		go p.serve(w, id)
	}
	handle := &Pool{p}
	runtime.AddCleanup(handle, (*pool).close, p)
	return handle
}

// Threads returns the number of workers.
func (p *Pool) Threads() int { return p.threads }

// For calls item(worker, i) for each i in 0..n-1, in any order, and returns when all are done. A
// thread's own items are consecutive. Calls of item with the same worker, 0..Threads()-1, do not
// overlap. A panic of an item ends the call with the same panic; items that have not begun are
// skipped.
//
// A call during another one, from an item or another goroutine, runs all its items itself, as
// worker 0. For does not allocate; create item once, because a closure created by a call is
// allocated by the caller.
func (p *Pool) For(n int, item func(worker, i int)) {
	if n <= 1 || len(p.workers) == 0 || !p.busy.TryLock() {
		for i := range n {
			item(0, i)
		}
		return
	}
	defer runtime.KeepAlive(p)
	defer p.busy.Unlock()
	p.run(n, item)
}

// run runs a call's items on the caller and as many workers as there are items for.
func (p *pool) run(n int, item func(worker, i int)) {
	p.item = item
	helpers := p.workers[:min(len(p.workers), n-1)]
	threads := len(helpers) + 1
	for id := range p.spans { // those of threads that do not take part are empty
		p.spans[id].set(n*min(id, threads)/threads, n*min(id+1, threads)/threads)
	}
	p.pending.Store(int64(len(helpers)))
	for _, w := range helpers {
		w.state.Store(called)
		w.unpark()
	}
	p.work(0)
	for _, w := range helpers {
		if w.state.CompareAndSwap(called, idle) {
			p.pending.Add(-1)
		}
	}
	p.wait()
	p.item = nil
	if p.failed.Load() {
		reason := p.reason
		p.reason = nil
		p.failed.Store(false)
		panic(reason)
	}
}

// work runs the thread's own items, then items that others have not begun, until none is left.
func (p *pool) work(id int) {
	defer func() {
		if r := recover(); r != nil && p.failed.CompareAndSwap(false, true) {
			p.reason = r
		}
	}()
	for !p.failed.Load() {
		i, ok := p.spans[id].takeFirst()
		for other := 1; !ok && other < p.threads; other++ {
			i, ok = p.spans[(id+other)%p.threads].takeLast()
		}
		if !ok {
			return
		}
		p.item(id, i)
	}
}

// wait returns when no worker is at work.
func (p *pool) wait() {
	for n := 0; p.pending.Load() != 0; n++ {
		if n < p.spin {
			yieldSometimes(n)
			continue
		}
		p.waiting.Swap(true) // a swap, because emulators of arm64 let loads pass a store
		if p.pending.Load() != 0 || !p.waiting.CompareAndSwap(true, false) {
			<-p.done
		}
		return
	}
}

// unpark wakes the worker if it is parked.
func (w *worker) unpark() {
	if w.parked.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// serve is the goroutine of worker w: it spins for a while after each call, then parks.
func (p *pool) serve(w *worker, id int) {
	for n := 0; ; n++ {
		switch {
		case w.state.Load() == called:
			if !w.state.CompareAndSwap(called, working) {
				continue
			}
			n = 0
			p.work(id)
			w.state.Store(idle)
			if p.pending.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
				p.done <- struct{}{}
			}
		case w.closed.Load():
			return
		case n < p.spin:
			yieldSometimes(n)
		default:
			w.parked.Swap(true)
			if w.state.Load() != called && !w.closed.Load() || !w.parked.CompareAndSwap(true, false) {
				<-w.wake
			}
			n = 0
		}
	}
}

// close ends the workers.
func (p *pool) close() {
	for _, w := range p.workers {
		w.closed.Store(true)
		w.unpark()
	}
}

// yieldSometimes lets other goroutines use the processor in one of 1024 rounds of a loop that
// spins.
func yieldSometimes(n int) {
	if n%1024 == 1023 {
		runtime.Gosched()
	}
}

// span is the items of a thread that have not begun, begin..end-1. Its own thread takes the first,
// so that its items are consecutive in memory; threads that have run out of items take the last.
type span struct {
	bounds atomic.Uint64 // begin<<32 | end
	_      [56]byte      // threads do not share a cache line
}

func (s *span) set(begin, end int) { s.bounds.Store(uint64(begin)<<32 | uint64(end)) }

// takeFirst removes the first item; ok is false if there is none.
func (s *span) takeFirst() (i int, ok bool) {
	for {
		b := s.bounds.Load()
		begin := b >> 32
		end := b & (1<<32 - 1)
		if begin >= end {
			return 0, false
		}
		if s.bounds.CompareAndSwap(b, b+1<<32) {
			return int(begin), true
		}
	}
}

// takeLast removes the last item; ok is false if there is none.
func (s *span) takeLast() (i int, ok bool) {
	for {
		b := s.bounds.Load()
		begin := b >> 32
		end := b & (1<<32 - 1)
		if begin >= end {
			return 0, false
		}
		if s.bounds.CompareAndSwap(b, b-1) {
			return int(end) - 1, true
		}
	}
}
