package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"unmask"
	"unmask/constrain"
	"unmask/generate"
	"unmask/generate/traces"
)

// Call is the computation of a request. Equal requests at the same time share one, and each client
// reads its steps and its answer as they come.
type Call struct {
	Spec
	Members []*Member // by choice
	Rows    int64     // of all steps of all members, at most

	engine   *Engine
	watchers atomic.Int64

	// Of the engine, under its lock.
	begun   time.Time // zero: it waits for its first step
	stepped time.Time // the last
	left    int64     // rows
	open    int       // members that are not done
	keeping bool      // a member keeps keys and values, and runs to its end
	ended   bool      // the engine is done with it

	mu       sync.Mutex
	changed  chan struct{} // closed when something is added
	finished chan struct{} // closed when the call is done
	events   []Event
	bytes    int64 // of events, about
	lost     bool  // there were too many events to keep
	answer   Answer
	err      error
	done     bool
	waited   time.Duration
	ran      time.Duration
}

// Spec says what a call computes.
type Spec struct {
	Key       string             // equal calls have equal keys
	Owner     string             // calls of different owners take turns
	Batch     bool               // others go first
	Sequences []generate.Request // as Model.Prepare returns them, at least one
	Created   time.Time
	Limit     time.Time // when it is given up
	// Answer makes the answer once all members are done. An error that is no *Error is the client's
	// as it is.
	Answer func() (Answer, error)
}

// Answer is the answer of a finished call.
type Answer interface {
	Bytes() int64 // of memory, about
}

// Event is a step of one of a call's sequences.
type Event struct {
	Choice int
	traces.Step
}

// Member is one sequence of a call.
type Member struct {
	Request generate.Request
	Steps   int // at most

	// The result.
	Tokens    []int32               // when it is done
	LogP      []float64             // of each position that opened; NaN where it is not known
	Top       [][]generate.TopToken // of each position that opened; nil if not asked for
	Free      []bool                // positions that were to be filled
	N         int                   // steps taken
	Evaluated generate.Work
	Choices   []constrain.Choice // with their probabilities; see generate.Sequence
	GivenWay  int                // see generate.Sequence

	call    *Call
	choice  int
	rows    int // of one pass
	guided  bool
	kept    bool // keys and values stay between its steps
	longest int  // positions, when its holes have grown

	// Of the engine.
	sequence *generate.Sequence
	done     bool
}

// NewCall returns the call of a Spec. It has not begun. The error is about the steps of a sequence.
func (e *Engine) NewCall(spec Spec) (*Call, error) {
	c := &Call{Spec: spec, engine: e, changed: make(chan struct{}), finished: make(chan struct{})}
	for i, q := range spec.Sequences {
		m, err := newMember(c, i, q)
		if err != nil {
			return nil, err
		}
		c.Members = append(c.Members, m)
		c.Rows += m.left()
	}
	c.left, c.open = c.Rows, len(c.Members)
	return c, nil
}

// newMember returns the member for one sequence.
func newMember(c *Call, choice int, q generate.Request) (*Member, error) {
	spec, length := c.engine.spec, q.Length
	m := &Member{call: c, choice: choice, Request: q, rows: length, longest: length,
		guided: q.Guidance.Scale != 0, kept: q.Reuse != generate.NoReuse}
	m.Free = make([]bool, length)
	free := 0
	for i, token := range m.Start() {
		if m.Free[i] = token == spec.Mask; m.Free[i] {
			free++
		}
	}
	steps, err := q.MaxSteps(free)
	if err != nil {
		return nil, err
	}
	if m.guided {
		m.rows *= 2
	}
	if m.Steps = max(steps, 1); q.Reuse == generate.Blocks { // steps are of each block
		size := max(q.BlockSize, spec.Block, 1)
		m.Steps = steps * ((length + size - 1) / size)
		m.rows = size
	}
	if spec.Growth != nil {
		m.longest = spec.Length()
	}
	m.LogP = slices.Repeat([]float64{math.NaN()}, length)
	if q.Top > 0 {
		m.Top = make([][]generate.TopToken, length)
	}
	return m, nil
}

// Model returns the model of the member's call.
func (m *Member) Model() *unmask.Model { return m.call.engine.model }

// Start returns the member's tokens before its first step.
func (m *Member) Start() []int32 { return m.Request.StartTokens(m.call.engine.spec) }

// Events returns the steps of the member, if the call has kept them.
func (m *Member) Events() (list []Event) {
	events, _, _ := m.call.EventsFrom(0)
	for _, e := range events {
		if e.Choice == m.choice {
			list = append(list, e)
		}
	}
	return list
}

// left returns how many rows the member's passes still take, at most.
func (m *Member) left() int64 {
	if m.done {
		return 0
	}
	return int64(m.rows) * int64(max(0, m.Steps-m.N))
}

// eventBytes is about how many bytes of memory a position that opens takes.
const eventBytes = 128

// MaxEventBytes bounds what the steps of a call take in memory, in bytes: samplers that mask again
// may have any number of them.
const MaxEventBytes = 32 << 20

// DroppedEvents reports whether the call has dropped its steps because there were too many.
func (c *Call) DroppedEvents() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// add appends a step and notifies those that wait.
func (c *Call) add(e Event) {
	c.mu.Lock()
	c.bytes += int64(len(e.Opened)+len(e.Closed)+1) * eventBytes
	if c.lost = c.lost || c.bytes > MaxEventBytes; c.lost {
		c.events, c.bytes = nil, MaxEventBytes+1 // who wants no steps gets the answer all the same
	} else {
		c.events = append(c.events, e)
	}
	c.notify()
	c.mu.Unlock()
}

// notify wakes everyone who waits for a change. The caller holds the lock.
func (c *Call) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// end sets the answer or the error of the call. Only the first call has an effect; it returns true.
func (c *Call) end(a Answer, err error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	c.answer, c.err, c.done = a, err, true
	close(c.finished)
	c.notify()
	return true
}

// makeAnswer makes the answer. A panic is an error of this call alone.
func (c *Call) makeAnswer() (a Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			a, err = nil, refuse(AnswerFailed, "the answer failed: %v", r)
		}
	}()
	return c.Answer()
}

// EventsFrom returns the steps from number n on, and whether there will be no more. changed is
// closed when there are.
func (c *Call) EventsFrom(n int) (events []Event, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.events))
	return c.events[n:len(c.events):len(c.events)], c.done, c.changed
}

// Finished is closed when the call is done.
func (c *Call) Finished() <-chan struct{} { return c.finished }

// Wait returns when the call is done, or the error of ctx.
func (c *Call) Wait(ctx context.Context) error {
	select {
	case <-c.finished:
		return nil
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.finished:
		return nil
	}
}

// Result returns the answer or the error of a call that is done, nil and nil before.
func (c *Call) Result() (Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer, c.err
}

// watch counts one watcher more. It returns false if the call was given up.
func (c *Call) watch() bool {
	_, err := c.Result()
	if err == nil {
		c.watchers.Add(1)
	}
	return err == nil
}

// Watchers returns how many watch the call.
func (c *Call) Watchers() int { return int(c.watchers.Load()) }

// Times returns how long the call waited and ran, 0 before it is done; of one that failed until
// now.
func (c *Call) Times() (waited, ran time.Duration) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := e.o.Now(); {
	case c.err == nil:
		return c.waited, c.ran
	case c.begun.IsZero():
		return now.Sub(c.Created), 0
	default:
		return c.begun.Sub(c.Created), now.Sub(c.begun)
	}
}

// size is about how many bytes of memory the call holds.
func (c *Call) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.bytes + 4096
	if c.answer != nil {
		n += c.answer.Bytes()
	}
	known := map[*constrain.Language]bool{nil: true}
	for _, m := range c.Members {
		n += int64(m.longest)*(12+16*int64(m.Request.Top)) + 256 // the engine may be setting its slices
		if l := m.Request.Language; !known[l] {
			known[l] = true
			n += int64(l.Bytes())
		}
	}
	return n
}

// progress returns the step of the member that is farthest ahead, and the most steps of one. Only
// the engine's Run calls it.
func (c *Call) progress() (step, steps int) {
	for _, m := range c.Members {
		step, steps = max(step, m.N), max(steps, m.Steps)
	}
	return step, steps
}

// Ahead returns how many calls take their steps before this one, and for how many seconds. A call
// that has begun waits for none.
func (c *Call) Ahead() (calls int, seconds float64) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.ended || !c.begun.IsZero() {
		return 0, 0
	}
	calls, rows := e.before(c)
	return calls, e.seconds(rows)
}

// GivenWay sums the tokens of members at which filters gave way to a language.
func (c *Call) GivenWay() (n int) {
	for _, m := range c.Members {
		n += m.GivenWay
	}
	return n
}

// Work sums the passes and rows of the members of a call that is done.
func (c *Call) Work() (e generate.Work) {
	for _, m := range c.Members {
		e.Add(m.Evaluated)
	}
	return e
}

// Kind says why a call has no answer. Programs decide by it; sentences are for people.
type Kind uint8

// The kinds.
const (
	QueueFull    Kind = iota // too much waits already
	WaitTooLong              // its time would be over before its first step
	ShuttingDown             // no further call begins
	Deadline                 // its time is over
	Cancelled                // nobody waits for it any more
	StepFailed               // the model's pass
	AnswerFailed             // making the answer of finished sequences
)

// Error is why a call has no answer.
type Error struct {
	Kind    Kind
	Message string // one line
	Retry   int    // seconds after which to try again; 0: not said
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")}
}

// shuttingDown is the error of calls that come or wait while the server ends.
func shuttingDown() *Error {
	return &Error{Kind: ShuttingDown, Message: "the server is shutting down", Retry: 5}
}
