// Package engine schedules the passes of a model among the calls of strangers. It knows no HTTP: a
// call is refused or fails with an [Error], whose Kind says why.
//
// A sequence's bytes depend on its request alone, so calls share passes, and equal calls share one
// computation ([Calls]).
package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"unmask"
	"unmask/generate"
	"unmask/kvcache"
	"unmask/model"
	"unmask/tokenizers"
)

// Engine schedules all calls of one model. Run repeats three things: sweep drops calls that are
// over, pick (queue.go) chooses members of calls of up to Options.Rows rows, and tick (tick.go)
// makes one step of each in a generate.Pool. A member is one sequence of a call.
type Engine struct {
	model     *unmask.Model
	spec      model.Spec
	tokenizer tokenizers.Tokenizer // nil where the model makes no text
	o         Options
	ctx       context.Context   // ends when all calls are given up at once
	pools     [2]*generate.Pool // without and with guidance; nil until one is needed
	places    [2]int            // of their keys and values
	shares    bool              // on a device where a pass of more rows takes hardly longer
	woken     chan struct{}     // receives when a call came or went

	mu      sync.Mutex
	calls   []*Call  // that are not ended
	visits  []*visit // that wait
	queue   fairQueue
	rate    float64   // rows a second, 0 before the first pass
	passed  time.Time // when the last pass ended, or a call came to an idle engine
	drained bool      // no further call begins
}

// Options bound an engine.
type Options struct {
	Rows   int              // of a tick
	Memory int64            // bytes of keys and values
	Store  *kvcache.Store   // of the model, for calls that begin as earlier ones; nil: none
	Queue  int              // calls of an owner that wait for their first step
	Calls  *Calls           // those of this engine are among them
	Now    func() time.Time // of calls and passes
}

// maxQueued is how many seconds the calls of an owner may take together.
const maxQueued = 600

// Stats counts what engines do. Its methods may be called concurrently.
type Stats interface {
	CallBegan(wait time.Duration)                  // its first step begins
	FirstStepDone(wait time.Duration)              // by a call
	PassDone(seconds float64, rows, sequences int) // one step of all that took part
	PositionsOpened(positions int)                 // by a step
	SequenceDone(generate.Work)                    // for a sequence that is done
	PassRepeated()                                 // a pass for one sequence alone
	CallCancelled(why string)                      // a call given up
	AnswerReused()                                 // an answer that was there already
}

// New returns an engine, whose Run makes the steps of calls.
func New(ctx context.Context, m *unmask.Model, o Options) *Engine {
	e := &Engine{model: m, spec: m.Spec(), o: o, ctx: ctx, woken: make(chan struct{}, 1),
		passed: o.Now()}
	if m.Text != nil {
		e.tokenizer = m.Text
	}
	length := e.spec.Length()
	if s, ok := m.Denoiser.(model.Sized); ok {
		if n := s.MaxSequences(length, true); n > 0 { // what a GPU has memory for
			e.places[0], e.shares = n, true
			e.o.Rows = max(o.Rows, n*length)
		}
	}
	if e.places[0] == 0 {
		each := m.SequenceBytes(generate.Request{Length: length, Recipe: generate.Recipe{Cache: 1}})
		fit := min(max(minPlaces, o.Rows/length), maxPlaces)
		e.places[0] = int(max(min(int64(fit), o.Memory/3*2/max(each, 1)), 1))
	}
	e.places[1] = max(1, e.places[0]/4) // of two sequences each, in half the memory of the others
	e.queue.rows = map[string]float64{}
	return e
}

// Bounds of the sequences of one pass on a processor. 16 short ones keep it busy, and more would
// only hold more memory: a place has keys and values for the longest sequence.
const (
	minPlaces = 16
	maxPlaces = 64
)

// pool returns the pool for members without or with guidance, by its number. It makes it when it is
// first needed: keys and values of guided sequences take twice the memory.
func (e *Engine) pool(at int) (_ *generate.Pool, err error) {
	if e.pools[at] == nil {
		e.pools[at], err = generate.NewPool(e.model.Denoiser, generate.PoolOptions{Size: e.places[at],
			Capacity: math.MaxInt, Guided: at == 1, Store: e.o.Store})
	}
	return e.pools[at], err
}

// RowsPerSecond returns what the last passes made, 0 before the first.
func (e *Engine) RowsPerSecond() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return math.Round(e.rate)
}

// Pace sets what RowsPerSecond returns until the next pass ends, for tests of waits.
func (e *Engine) Pace(rows float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rate = rows
}

// wake lets Run look for what changed.
func (e *Engine) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// admit takes a call into the queue, or returns why not.
func (e *Engine) admit(c *Call) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drained {
		return shuttingDown()
	}
	waiting, total := 0, int64(0)
	for _, o := range e.calls {
		if o.Owner != c.Owner { // each has a queue of its own
			continue
		}
		if total += o.left; o.begun.IsZero() {
			waiting++
		}
	}
	if waiting >= e.o.Queue {
		return e.busy(QueueFull, total, "%d requests wait, want at most %d", waiting, e.o.Queue)
	}
	if wait := e.seconds(total); wait > maxQueued {
		return e.busy(QueueFull, total, "the work that waits takes %.0f seconds, want at most %d",
			wait, maxQueued)
	}
	_, ahead := e.before(c)
	if wait := e.seconds(ahead); e.o.Now().Add(time.Duration(wait * float64(time.Second))).After(
		c.Limit) {
		return e.busy(WaitTooLong, ahead, "the wait is %.0f seconds, want at most %.0f", wait,
			c.Limit.Sub(e.o.Now()).Seconds())
	}
	if len(e.calls) == 0 {
		e.passed = e.o.Now()
	}
	c.stepped = c.Created
	e.queue.join(c.queue(), e.present(c.Batch))
	e.calls = append(e.calls, c)
	e.wake()
	return nil
}

// busy is the error of a full queue. OpenAI's clients heed a wait of up to two minutes.
func (e *Engine) busy(kind Kind, rows int64, format string, args ...any) *Error {
	err := refuse(kind, format, args...)
	err.Retry = int(min(max(math.Ceil(e.seconds(rows)), 1), 120))
	return err
}

// seconds returns how long rows take, 0 before that is known.
func (e *Engine) seconds(rows int64) float64 {
	if e.rate == 0 {
		return 0
	}
	return float64(rows) / e.rate
}

// before returns how many calls take their steps before c does, and the rows they take meanwhile.
// Owners take turns, so that while those of c's owner are made each other one has as many rows at
// most.
func (e *Engine) before(c *Call) (calls int, rows int64) {
	others := map[string]int64{}
	for _, o := range e.calls {
		if o == c || o.Batch && !c.Batch {
			continue
		}
		if !o.Batch && c.Batch || o.left <= c.Rows || o.keeping {
			if calls++; o.Owner == c.Owner || o.keeping || o.Batch != c.Batch {
				rows += o.left
			} else {
				others[o.Owner] += o.left
			}
		}
	}
	own := rows + c.Rows
	for _, theirs := range others {
		rows += min(theirs, own)
	}
	return calls, rows
}

// Backlog returns how much waits: calls that have not begun, and rows of all.
func (e *Engine) Backlog() (calls int, rows int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		rows += c.left
		if c.begun.IsZero() {
			calls++
		}
	}
	return calls, rows
}

// Stalled reports whether no pass has ended for a time while a call waits.
func (e *Engine) Stalled(after time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls) > 0 && e.o.Now().Sub(e.passed) > after
}

// Busy reports whether there is a call.
func (e *Engine) Busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls) > 0
}

// Drain lets no further call begin, and gives up those that have not begun.
func (e *Engine) Drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = true
	for _, c := range e.calls {
		if c.begun.IsZero() {
			c.end(nil, shuttingDown())
		}
	}
	e.wake()
}

// Abandon gives up all calls.
func (e *Engine) Abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = true
	for _, c := range e.calls {
		err := shuttingDown()
		err.Message += fmt.Sprintf("; seed %d gives the same bytes", c.Sequences[0].Seed)
		c.end(nil, err)
	}
	e.wake()
}

// Run makes passes until the context ends.
func (e *Engine) Run() {
	for {
		e.sweep()
		if e.visited() {
			continue
		}
		picked := e.pick()
		if len(picked) > 0 {
			e.tick(picked)
			continue
		}
		select {
		case <-e.ctx.Done():
			e.Abandon()
			e.sweep()
			return
		case <-e.woken:
		}
	}
}

// sweep removes calls that were given up, and ends those whose time is over.
func (e *Engine) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		for _, c := range e.calls {
			c.end(nil, shuttingDown())
		}
	}
	e.calls = slices.DeleteFunc(e.calls, func(c *Call) bool {
		if e.o.Now().After(c.Limit) {
			step, steps := c.progress()
			err := refuse(Deadline,
				"the request took %.4g seconds, want at most that; it reached step %d of %d",
				c.Limit.Sub(c.Created).Seconds(), step, steps)
			if c.end(nil, err) {
				e.o.Calls.stats.CallCancelled("deadline")
			}
		}
		if _, done, _ := c.EventsFrom(0); done && !c.ended {
			e.release(c)
		}
		return c.ended
	})
	if len(e.calls)+len(e.visits) == 0 {
		clear(e.queue.rows)
		e.queue.batch = 0
	}
}

// release takes the members of a call out of their pools. The caller holds the lock.
func (e *Engine) release(c *Call) {
	for _, m := range c.Members {
		e.remove(m)
		m.done = true
	}
	c.ended, c.left = true, 0
}

// remove takes a member out of its pool.
func (e *Engine) remove(m *Member) {
	if m.sequence != nil {
		e.pools[m.pool()].Remove(m.sequence)
	}
	m.sequence = nil
}
