package server

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"unmask"
	"unmask/generate"
	"unmask/model"
)

// engine schedules all requests of one model. One goroutine (run) repeats three things: sweep drops
// works that are over, pick (turns.go) chooses members of works of up to o.rows rows, and tick
// (tick.go) makes one step of each in a generate.Pool. A work is a request, a member one of its
// sequences.
type engine struct {
	model  *served
	o      engineOptions
	ctx    context.Context   // ends when the server is closed at once
	pools  [2]*generate.Pool // without and with guidance; nil until one is needed
	places int               // of a pool's keys and values
	shares bool              // on a device where a pass of more rows takes hardly longer
	wake   chan struct{}     // receives when a work came or went
	closed chan struct{}     // closed by run, at its end

	mu      sync.Mutex
	works   []*work // that are not ended
	turns   turns
	rate    float64   // rows a second, 0 before the first pass
	passed  time.Time // when the last pass ended, or work came to an idle engine
	drained bool      // no further work begins
}

// engineOptions bound an engine.
type engineOptions struct {
	rows    int              // of a tick
	memory  int64            // bytes of keys and values
	queue   int              // works that wait for their first step
	seconds float64          // of work ahead
	stats   *stats           // what is counted
	ended   func(w *work)    // called when all members of a work are done
	now     func() time.Time // of works and passes
}

func newEngine(ctx context.Context, m *served, o engineOptions) *engine {
	e := &engine{model: m, o: o, ctx: ctx, wake: make(chan struct{}, 1), closed: make(chan struct{}),
		passed: o.now()}
	if s, ok := m.Denoiser.(model.Sized); ok {
		if n := s.Fit(m.spec.Length(), true); n > 0 { // what a GPU has memory for
			e.places, e.shares = n, true
			e.o.rows = max(o.rows, n*m.spec.Length())
		}
	}
	if e.places == 0 {
		each := m.SequenceBytes(unmask.Run{Length: m.spec.Length(), Cache: 1})
		fit := min(max(fewPlaces, o.rows/m.spec.Length()), maxPlaces)
		e.places = int(max(min(int64(fit), o.memory/3*2/max(each, 1)), 1))
	}
	e.turns.served = map[string]float64{}
	return e
}

// guided returns how many places the pool with guidance has. A place there holds two sequences, so
// this pool takes half the memory of the other.
func (e *engine) guided() int { return max(1, e.places/4) }

// Bounds of the sequences of one pass on a processor. 16 short ones keep it busy, and more would
// only hold more memory: a place has keys and values for the longest sequence.
const (
	fewPlaces = 16
	maxPlaces = 64
)

// pool returns the pool for members without or with guidance, which it makes when it is first
// needed: keys and values of guided sequences take twice the memory.
func (e *engine) pool(guided bool) (*generate.Pool, error) {
	i, size := 0, e.places
	if guided {
		i, size = 1, e.guided()
	}
	if e.pools[i] == nil {
		p, err := generate.NewPool(e.model.Denoiser, generate.PoolOptions{Size: size,
			Most: math.MaxInt, Guided: guided})
		if err != nil {
			return nil, err
		}
		e.pools[i] = p
	}
	return e.pools[i], nil
}

// rowsASecond returns what the last passes made, 0 before the first.
func (e *engine) rowsASecond() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return math.Round(e.rate)
}

// poke wakes the engine.
func (e *engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// admit takes a work into the queue, or returns why not.
func (e *engine) admit(w *work) *Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drained {
		return shuttingDown()
	}
	waiting, total := 0, int64(0)
	for _, o := range e.works {
		if o.owner != w.owner { // each key has a queue of its own
			continue
		}
		if total += o.left; o.begun.IsZero() {
			waiting++
		}
	}
	if waiting >= e.o.queue {
		return e.busy("queue_full", total, fmt.Sprintf("%d requests wait, want at most %d", waiting,
			e.o.queue))
	}
	if wait := e.seconds(total); wait > e.o.seconds {
		return e.busy("queue_full", total, fmt.Sprintf("the work that waits takes %.0f seconds, want at "+
			"most %.0f", wait, e.o.seconds))
	}
	_, ahead := e.before(w)
	if wait := e.seconds(ahead); e.o.now().Add(time.Duration(wait * float64(time.Second))).After(
		w.limit) {
		return e.busy("wait_too_long", ahead, fmt.Sprintf("the wait is %.0f seconds, want at most %.0f",
			wait, w.limit.Sub(e.o.now()).Seconds()))
	}
	if len(e.works) == 0 {
		e.passed = e.o.now()
	}
	w.stepped = w.created
	e.works = append(e.works, w)
	e.turns.join(w, e.works)
	e.poke()
	return nil
}

// busy is the fault of a full queue. OpenAI's clients heed a wait of up to two minutes.
func (e *engine) busy(code string, rows int64, why string) *Fault {
	f := fault(http.StatusTooManyRequests, code, "%s", why)
	f.Retry = int(min(max(math.Ceil(e.seconds(rows)), 1), 120))
	return f
}

// seconds returns how long rows take, 0 before that is known.
func (e *engine) seconds(rows int64) float64 {
	if e.rate == 0 {
		return 0
	}
	return float64(rows) / e.rate
}

// before returns how many works take their steps before w does, and the rows they take meanwhile.
// Keys take turns, so that while those of w's key are made each other key has as many rows at most.
func (e *engine) before(w *work) (works int, rows int64) {
	others := map[string]int64{}
	for _, o := range e.works {
		if o == w || o.batch && !w.batch {
			continue
		}
		if !o.batch && w.batch || o.left <= w.rows || o.keeping {
			if works++; o.owner == w.owner || o.keeping || o.batch != w.batch {
				rows += o.left
			} else {
				others[o.owner] += o.left
			}
		}
	}
	own := rows + w.rows
	for _, theirs := range others {
		rows += min(theirs, own)
	}
	return works, rows
}

// ahead returns how many works take their steps before w, and for how many seconds. A work that
// has begun waits for none.
func (e *engine) ahead(w *work) (works int, seconds float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.ended || !w.begun.IsZero() {
		return 0, 0
	}
	works, rows := e.before(w)
	return works, e.seconds(rows)
}

// begun reports whether a work has made its first step.
func (e *engine) begun(w *work) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !w.begun.IsZero()
}

// waits returns how much work waits: requests that have not begun, and rows of all.
func (e *engine) waits() (requests int, rows int64, seconds float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.works {
		rows += w.left
		if w.begun.IsZero() {
			requests++
		}
	}
	return requests, rows, e.seconds(rows)
}

// stalled reports whether no pass has ended for a time while work waits.
func (e *engine) stalled(after time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.works) > 0 && e.o.now().Sub(e.passed) > after
}

// idle reports whether there is no work.
func (e *engine) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.works) == 0
}

// drain lets no further work begin, and gives up work that has not begun.
func (e *engine) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = true
	for _, w := range e.works {
		if w.begun.IsZero() {
			w.end(nil, shuttingDown())
		}
	}
	e.poke()
}

// abandon gives up all work.
func (e *engine) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = true
	for _, w := range e.works {
		f := shuttingDown()
		f.Message += fmt.Sprintf("; seed %d gives the same bytes", w.seed)
		w.end(nil, f)
	}
	e.poke()
}

// shuttingDown is the fault of work that comes or waits while the server ends.
func shuttingDown() *Fault {
	f := fault(http.StatusServiceUnavailable, "shutting_down", "the server is shutting down")
	f.Retry = 5
	return f
}

// run makes passes until the context ends.
func (e *engine) run() {
	defer close(e.closed)
	for {
		e.sweep()
		picked := e.pick()
		if len(picked) > 0 {
			e.tick(picked)
			continue
		}
		select {
		case <-e.ctx.Done():
			e.abandon()
			e.sweep()
			return
		case <-e.wake:
		}
	}
}

// sweep removes works that were given up, and ends those whose time is over.
func (e *engine) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		for _, w := range e.works {
			w.end(nil, shuttingDown())
		}
	}
	left := e.works[:0]
	for _, w := range e.works {
		if e.o.now().After(w.limit) {
			step, steps := w.progress()
			f := fault(http.StatusGatewayTimeout, "deadline",
				"the request took %.4g seconds, want at most that; it reached step %d of %d",
				w.limit.Sub(w.created).Seconds(), step, steps)
			if w.end(nil, f) {
				e.o.stats.cancelled("deadline")
			}
		}
		if _, done, _ := w.since(0); done && !w.ended {
			e.release(w)
		}
		if !w.ended {
			left = append(left, w)
		}
	}
	clear(e.works[len(left):])
	e.works = left
	e.turns.sweep(e.works)
}

// release takes the members of a work out of their pools. The caller holds the lock.
func (e *engine) release(w *work) {
	for _, m := range w.members {
		e.leave(m)
		m.done = true
	}
	w.ended, w.left = true, 0
}

// leave takes a member out of its pool.
func (e *engine) leave(m *member) {
	if m.sequence != nil {
		e.pools[m.pool()].Remove(m.sequence)
	}
	m.sequence = nil
}
