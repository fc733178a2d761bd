// Package engine schedules the passes of a model among the calls of clients that do not know each
// other. It knows no HTTP: a call is refused or fails with an [Error], whose Kind says why.
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
	"unmask/generate/footprint"
	"unmask/kvcache"
	"unmask/model"
	"unmask/tokenizers"
)

// Engine schedules all calls of one model. Run repeats three things: sweep drops calls that are
// over, pick (queue.go) chooses members of calls of up to Options.Rows rows, and tick (tick.go)
// makes one step of each in a generate.Pool. A member is one sequence of a call.
type Engine struct {
	model *unmask.Model
	spec  model.Spec

	// tokenizer is nil where the model makes no text.
	tokenizer tokenizers.Tokenizer

	o Options

	// ctx ends when all calls are given up at once.
	ctx context.Context

	// pools are those without and with guidance, see Member.pool. Each is nil until it is needed.
	pools [2]*generate.Pool

	// places are the sequences that each pool has keys and values for.
	places [2]int

	// sharesPasses is true on a device where a pass of more rows takes hardly longer, such as a GPU.
	sharesPasses bool

	// woken receives when a call came or went.
	woken chan struct{}

	// mu guards the fields below.
	mu sync.Mutex

	// calls are those that are not released, in the order in which they came.
	calls []*Call

	// turns wait to use the model, see AwaitTurn.
	turns []*turn

	queue fairQueue

	// rate is the rows computed in a second, 0 before the first pass.
	rate float64

	// lastPass is when the last pass ended or, if that is later, when a call came to an idle engine.
	lastPass time.Time

	// draining lets no further call begin.
	draining bool
}

// Options bound an engine.
type Options struct {
	// Rows bounds the rows of a tick.
	Rows int

	// Memory bounds the bytes of keys and values.
	Memory int64

	// Store keeps keys and values of the model for calls that begin as earlier ones do. It may be
	// nil.
	Store *kvcache.Store

	// Queue bounds the calls of an owner that wait for their first step.
	Queue int

	// Calls are all calls of the server, those of this engine among them.
	Calls *Calls

	// Now is the clock of calls and passes.
	Now func() time.Time
}

// maxQueuedSeconds is how long the calls of an owner may take together.
const maxQueuedSeconds = 600

// Stats receives what engines do as it happens. Its methods may be called concurrently.
type Stats interface {
	// CallBegan is called when a call's first step begins, after it has waited.
	CallBegan(waited time.Duration)

	// FirstStepDone is called when a call's first step is done.
	FirstStepDone(sinceCreated time.Duration)

	// PassDone is called after one step of all members that took part in a tick.
	PassDone(seconds float64, rows, sequences int)

	// PositionsOpened is called with the number of positions that a step opened.
	PositionsOpened(positions int)

	// SequenceDone is called with the passes and rows of a sequence that is done.
	SequenceDone(work generate.Work)

	// PassRepeated is called when a pass failed and is made again for one sequence alone.
	PassRepeated()

	// CallCancelled is called for a call that is given up. why is client or deadline.
	CallCancelled(why string)

	// AnswerReused is called when the answer to a call was there already.
	AnswerReused()
}

// New returns an engine, whose Run makes the steps of calls until ctx ends.
func New(ctx context.Context, m *unmask.Model, o Options) *Engine {
	e := &Engine{
		model:    m,
		spec:     m.Spec(),
		o:        o,
		ctx:      ctx,
		woken:    make(chan struct{}, 1),
		lastPass: o.Now(),
		queue:    fairQueue{rows: map[string]float64{}},
	}
	if m.Text != nil {
		e.tokenizer = m.Text
	}
	e.setPlaces()
	return e
}

// Bounds of the sequences of one pass on a processor. 16 short ones keep it busy, and more would
// only hold more memory: a place has keys and values for the longest sequence.
const (
	minPlaces = 16
	maxPlaces = 64
)

// setPlaces decides how many sequences each pool has keys and values for.
func (e *Engine) setPlaces() {
	length := e.spec.Length()
	if sized, ok := e.model.Denoiser.(model.Sized); ok {
		if n := sized.MaxSequences(length, true); n > 0 { // what a GPU has memory for
			e.places[0] = n
			e.sharesPasses = true
			e.o.Rows = max(e.o.Rows, n*length)
		}
	}
	if e.places[0] == 0 {
		// A place has memory for a sequence of the greatest length with keys and values. Two thirds of
		// the memory are for this pool, the rest for guided members.
		placeBytes := footprint.SequenceBytes(e.model.Denoiser,
			generate.Request{Length: length, Recipe: generate.Recipe{Cache: 1}})
		byRows := min(max(minPlaces, e.o.Rows/length), maxPlaces)
		affordable := e.o.Memory / 3 * 2 / max(placeBytes, 1)
		e.places[0] = int(max(min(int64(byRows), affordable), 1))
	}

	// A guided member is two sequences, so a quarter of the places takes half the memory of the
	// others.
	e.places[1] = max(1, e.places[0]/4)
}

// poolAt returns a pool by its number, see Member.pool. It makes the pool when it is first needed,
// because most servers never see guidance, and its keys and values take much memory.
func (e *Engine) poolAt(number int) (*generate.Pool, error) {
	if e.pools[number] != nil {
		return e.pools[number], nil
	}
	pool, err := generate.NewPool(e.model.Denoiser, generate.PoolOptions{Size: e.places[number],
		Capacity: math.MaxInt, Guided: number == 1, Store: e.o.Store})
	e.pools[number] = pool
	return pool, err
}

// RowsPerSecond returns what the last passes computed, 0 before the first.
func (e *Engine) RowsPerSecond() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return math.Round(e.rate)
}

// wake lets Run look for what changed.
func (e *Engine) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// admit takes a call into the queue, or returns an *Error that says why not.
func (e *Engine) admit(c *Call) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return shutdownError()
	}
	if err := e.checkQueue(c); err != nil {
		return err
	}

	if len(e.calls) == 0 { // the time without calls is no stall
		e.lastPass = e.o.Now()
	}
	c.lastStep = c.Created // it waits from here on, see sortCalls
	e.queue.join(c.queueKey(), e.presentQueues(c.Batch))
	e.calls = append(e.calls, c)
	e.wake()
	return nil
}

// checkQueue returns an *Error where a call would wait too long, or its owner has too many. Each
// owner has a queue of its own, so that one who sends much keeps nobody else out. The caller holds
// the lock.
func (e *Engine) checkQueue(c *Call) error {
	waiting := 0
	rows := int64(0)
	for _, other := range e.calls {
		if other.Owner != c.Owner {
			continue
		}
		rows += other.rowsLeft
		if other.beganAt.IsZero() {
			waiting++
		}
	}
	if waiting >= e.o.Queue {
		return e.busyError(QueueFull, rows, "%d requests wait, want at most %d", waiting, e.o.Queue)
	}
	if seconds := e.estimateSeconds(rows); seconds > maxQueuedSeconds {
		return e.busyError(QueueFull, rows,
			"the work that waits takes %.0f seconds, want at most %d", seconds, maxQueuedSeconds)
	}

	_, rowsAhead := e.countAhead(c)
	seconds := e.estimateSeconds(rowsAhead)
	firstStep := e.o.Now().Add(time.Duration(seconds * float64(time.Second)))
	if firstStep.After(c.Deadline) {
		return e.busyError(WaitTooLong, rowsAhead, "the wait is %.0f seconds, want at most %.0f",
			seconds, c.Deadline.Sub(e.o.Now()).Seconds())
	}
	return nil
}

// admitGrowth reports whether an answer without an end may have more positions, with so many steps
// on them: not while the server drains, where the work would end after the call's deadline, or
// where the owner's work would take longer than a new call is admitted with.
func (e *Engine) admitGrowth(m *Member, positions, steps int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	added := m.growthRows(positions, steps)
	rows := added
	for _, c := range e.calls {
		if c.Owner == m.call.Owner {
			rows += c.rowsLeft
		}
	}
	seconds := e.estimateSeconds(added)
	isLate := seconds > m.call.Deadline.Sub(e.o.Now()).Seconds()
	if e.draining || isLate || e.estimateSeconds(rows) > maxQueuedSeconds {
		m.call.growthRefused = true
		return false
	}
	return true
}

// busyError returns the error of a full queue of rows. It asks clients to come back when these are
// done, but within the two minutes that OpenAI's clients are ready to wait.
func (e *Engine) busyError(kind Kind, rows int64, format string, args ...any) *Error {
	err := newError(kind, format, args...)
	err.Retry = int(min(max(math.Ceil(e.estimateSeconds(rows)), 1), 120))
	return err
}

// estimateSeconds returns how long rows take, 0 before that is known.
func (e *Engine) estimateSeconds(rows int64) float64 {
	if e.rate == 0 {
		return 0
	}
	return float64(rows) / e.rate
}

// countAhead returns how many calls take their steps before c does, and the rows that are computed
// meanwhile. Owners take turns, so while the rows of c's owner are computed each other owner gets
// as many at most. The caller holds the lock.
func (e *Engine) countAhead(c *Call) (calls int, rows int64) {
	rowsOfOthers := map[string]int64{} // by owner
	for _, other := range e.calls {
		if other == c || other.Batch && !c.Batch {
			continue
		}
		isFirst := !other.Batch && c.Batch || other.rowsLeft <= c.Rows || other.holdsPlace
		if !isFirst {
			continue
		}
		calls++
		if other.Owner == c.Owner || other.holdsPlace || other.Batch != c.Batch {
			rows += other.rowsLeft
		} else {
			rowsOfOthers[other.Owner] += other.rowsLeft
		}
	}

	ownRows := rows + c.Rows
	for _, rowsOfOther := range rowsOfOthers {
		rows += min(rowsOfOther, ownRows)
	}
	return calls, rows
}

// Backlog returns the number of calls that have not begun, and the rows that all calls still take.
func (e *Engine) Backlog() (calls int, rows int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		rows += c.rowsLeft
		if c.beganAt.IsZero() {
			calls++
		}
	}
	return calls, rows
}

// Stalled reports whether no pass has ended for a time while a call waits.
func (e *Engine) Stalled(after time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls) > 0 && e.o.Now().Sub(e.lastPass) > after
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
	e.draining = true
	for _, c := range e.calls {
		if c.beganAt.IsZero() {
			c.finish(nil, shutdownError())
		}
	}
	e.wake()
}

// Abandon gives up all calls.
func (e *Engine) Abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	for _, c := range e.calls {
		err := shutdownError()
		err.Message += fmt.Sprintf("; seed %d gives the same bytes", c.Sequences[0].Seed)
		c.finish(nil, err)
	}
	e.wake()
}

// Run makes passes until the context ends. Only its goroutine touches the pools, so that a step
// needs no lock, and who gives up a call leaves it to sweep to take the members out.
func (e *Engine) Run() {
	for {
		e.sweep()
		if e.runTurn() { // where a call is next instead, there is none
			continue
		}
		if members := e.pick(); len(members) > 0 {
			e.tick(members)
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

// sweep ends the calls whose time is over, and releases those that are done or were given up.
func (e *Engine) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		for _, c := range e.calls {
			c.finish(nil, shutdownError())
		}
	}
	e.calls = slices.DeleteFunc(e.calls, func(c *Call) bool {
		if e.o.Now().After(c.Deadline) {
			e.endLateCall(c)
		}
		if _, done, _ := c.EventsFrom(0); done && !c.released {
			e.release(c)
		}
		return c.released
	})

	// Nobody waits, so nobody has had more than another. Otherwise the map would keep every owner
	// that ever came.
	if len(e.calls)+len(e.turns) == 0 {
		clear(e.queue.rows)
		e.queue.batchRows = 0
	}
}

// endLateCall ends a call whose time is over.
func (e *Engine) endLateCall(c *Call) {
	step, steps := c.progress()
	err := newError(Deadline,
		"the request took %.4g seconds, want at most that; it reached step %d of %d",
		c.Deadline.Sub(c.Created).Seconds(), step, steps)
	if c.finish(nil, err) {
		e.o.Calls.stats.CallCancelled("deadline")
	}
}

// release takes the members of a call out of their pools. The caller holds the lock.
func (e *Engine) release(c *Call) {
	for _, m := range c.Members {
		e.leavePool(m)
		m.done = true
	}
	c.released = true
	c.rowsLeft = 0
}

// leavePool takes a member out of its pool.
func (e *Engine) leavePool(m *Member) {
	if m.sequence == nil {
		return
	}
	e.pools[m.pool()].Remove(m.sequence)
	m.sequence = nil
}
