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

	// Members are the sequences of the call, one for each choice.
	Members []*Member

	// Rows is the largest number of rows that all steps of all members take.
	Rows int64

	engine   *Engine
	watchers atomic.Int64

	// The engine's lock guards the next fields.

	// beganAt is when the first step began. It is zero while the call waits for it.
	beganAt time.Time

	// lastStep is when the last step ended or, before the first, when the call was created.
	lastStep time.Time

	// rowsLeft is how many of Rows are not computed yet.
	rowsLeft int64

	// unfinished counts the members that are not done.
	unfinished int

	// holdsPlace reports whether a member has a place in a pool that it keeps to its end.
	holdsPlace bool

	// released reports whether the engine is done with the call.
	released bool

	// growthRefused reports whether an answer ended because there was no time for it to grow. Then the
	// answer depends on what else the server computed, so it is not kept for equal calls.
	growthRefused bool

	// mu guards the fields below. Clients read them while the engine makes steps.
	mu sync.Mutex

	// changed is closed, and replaced, when a step or the answer is added.
	changed chan struct{}

	// finished is closed when the call is done.
	finished chan struct{}

	events []Event

	// eventBytes is about how much memory events take.
	eventBytes int64

	// droppedEvents reports whether there were too many events to keep.
	droppedEvents bool

	answer Answer
	err    error
	done   bool

	// waited and ran are the times before and after beganAt. They are set with the last step.
	waited time.Duration
	ran    time.Duration
}

// Spec says what a call computes.
type Spec struct {
	// Key identifies the answer: equal calls have equal keys.
	Key string

	// Owner is the client. Calls of different owners take turns.
	Owner string

	// Batch calls let others go first.
	Batch bool

	// Sequences are the requests of the choices, at least one, as unmask.Model.Prepare returns them.
	Sequences []generate.Request

	Created time.Time

	// Deadline is when the call is given up.
	Deadline time.Time

	// Answer makes the answer once all members are done. An error that is not an *Error is passed to
	// the clients as it is. It is nil once the answer is made.
	Answer func() (Answer, error)
}

// Answer is the answer of a finished call.
type Answer interface {
	// Bytes returns about how much memory the answer takes, for the bound of the answers that are
	// kept.
	Bytes() int64
}

// Event is a step of one of a call's sequences.
type Event struct {
	// Choice is the index of the sequence in Call.Members.
	Choice int

	// Settled is the number of positions at the beginning that no later step changes.
	Settled int

	traces.Step
}

// Member is one sequence of a call. Its exported fields may be read once the call is done.
type Member struct {
	Request generate.Request

	// MaxSteps is the largest number of steps that the sequence takes.
	MaxSteps int

	// Tokens are the sequence when it is done: [length].
	Tokens []int32

	// LogP has the log-probability of the token of each position that opened, [length]. It is NaN
	// where that is not known.
	LogP []float64

	// Top has the likeliest tokens of each position that opened, [length]. It is nil if the request
	// does not ask for them.
	Top [][]generate.TopToken

	// Free marks the positions that were to be filled, [length].
	Free []bool

	// StepsTaken counts the steps so far.
	StepsTaken int

	// Work counts passes and rows, see generate.Sequence.
	Work generate.Work

	// Choices are the texts of a choice with their probabilities, see generate.Sequence.
	Choices []constrain.Choice

	// FilterOverruled counts tokens at which the filter gave way to the language, see
	// generate.Sequence.
	FilterOverruled int

	call   *Call
	choice int

	// rows is the number of rows of one pass.
	rows int

	// guided sequences take two places' memory, and are in a pool of their own.
	guided bool

	// keepsPlace reports whether keys and values stay in the pool between the member's steps.
	keepsPlace bool

	// maxLength is the number of positions when all holes have grown.
	maxLength int

	// sequence is the member in its pool, nil while it is in none. Only Engine.Run uses it.
	sequence *generate.Sequence

	done bool
}

// NewCall returns the call of a Spec. It has not begun, see [Calls.Begin]. An error is one of
// generate.Request.MaxSteps, about the steps of a sequence.
func (e *Engine) NewCall(spec Spec) (*Call, error) {
	c := &Call{
		Spec:     spec,
		engine:   e,
		changed:  make(chan struct{}),
		finished: make(chan struct{}),
	}
	for choice, request := range spec.Sequences {
		m, err := newMember(c, choice, request)
		if err != nil {
			return nil, err
		}
		c.Members = append(c.Members, m)
		c.Rows += m.rowsLeft()
	}
	c.rowsLeft = c.Rows
	c.unfinished = len(c.Members)
	return c, nil
}

// newMember returns the member for one sequence.
func newMember(c *Call, choice int, request generate.Request) (*Member, error) {
	spec := c.engine.spec
	length := request.Length
	m := &Member{
		Request:    request,
		Free:       make([]bool, length),
		LogP:       slices.Repeat([]float64{math.NaN()}, length),
		call:       c,
		choice:     choice,
		rows:       length,
		guided:     request.Guidance.Scale != 0,
		keepsPlace: request.Reuse != generate.NoReuse,
		maxLength:  length,
	}
	if request.Top > 0 {
		m.Top = make([][]generate.TopToken, length)
	}
	m.maxLength = max(m.maxLength, request.MaxLength)
	if spec.Growth != nil { // its steps may insert positions, up to the model's length
		m.maxLength = spec.Length()
	}

	masked := 0
	for i, token := range m.Start() {
		if token == spec.Mask {
			m.Free[i] = true
			masked++
		}
	}
	steps, err := request.MaxSteps(masked)
	if err != nil {
		return nil, err
	}

	m.MaxSteps = max(steps, 1) // a sequence without masks still takes the step that finds it done
	if m.guided {              // a pass computes the sequence with and without its condition
		m.rows *= 2
	}
	if request.Reuse == generate.Blocks { // the steps are those of each block
		blockSize := max(request.BlockSize, spec.Block, 1)
		blocks := (length + blockSize - 1) / blockSize
		m.MaxSteps = steps * blocks
		m.rows = blockSize
	}
	return m, nil
}

// Model returns the model of the member's call.
func (m *Member) Model() *unmask.Model { return m.call.engine.model }

// Start returns the member's tokens before its first step, [length].
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

// rowsLeft returns how many rows the member's passes still take, at most.
func (m *Member) rowsLeft() int64 {
	if m.done {
		return 0
	}
	return int64(m.rows) * int64(max(0, m.MaxSteps-m.StepsTaken))
}

// growthRows returns how many rows so many steps on more positions take, at most.
func (m *Member) growthRows(positions, steps int) int64 {
	if m.Request.Reuse == generate.Blocks { // the steps are those of a block
		steps *= (positions + m.rows - 1) / m.rows
	}
	return int64(m.rowsWith(positions)) * int64(steps)
}

// grow counts what an answer without an end costs on more positions, of which the steps are the
// most that it takes.
func (m *Member) grow(positions, steps int) {
	m.MaxSteps = steps
	m.rows = m.rowsWith(positions)
}

// rowsWith returns how many rows a pass of the member takes on more positions.
func (m *Member) rowsWith(positions int) int {
	if m.Request.Reuse == generate.Blocks { // a pass computes one block, wherever it is
		return m.rows
	}
	if m.guided {
		positions *= 2
	}
	return m.rows + positions
}

// positionBytes is about how many bytes of memory a position takes that opens in an event.
const positionBytes = 128

// MaxEventBytes bounds the memory of the steps of a call. Samplers that mask positions again may
// take any number of steps, so a few requests could otherwise fill the memory.
const MaxEventBytes = 32 << 20

// DroppedEvents reports whether the call has dropped its steps because there were too many. Its
// answer is made all the same.
func (c *Call) DroppedEvents() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.droppedEvents
}

// addEvent appends a step and notifies those that wait.
func (c *Call) addEvent(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eventBytes += int64(len(e.Opened)+len(e.Closed)+1) * positionBytes
	if c.eventBytes > MaxEventBytes {
		c.droppedEvents = true
	}
	if c.droppedEvents {
		c.events = nil
		c.eventBytes = MaxEventBytes + 1 // no further step brings it below the bound again
	} else {
		c.events = append(c.events, e)
	}
	c.notify()
}

// notify wakes everyone who waits for a change. The caller holds the call's lock.
func (c *Call) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// finish sets the answer or the error of the call. The engine, a watcher that leaves and a deadline
// may race to end a call: only the first finish has an effect, and it returns true.
func (c *Call) finish(a Answer, err error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	c.answer = a
	c.err = err
	c.done = true
	close(c.finished)
	c.notify()
	return true
}

// makeAnswer makes the answer. A panic becomes an error of this call alone: the answer is made from
// one client's request, which must not end the server for all others.
func (c *Call) makeAnswer() (a Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			a = nil
			err = newError(AnswerFailed, "the answer failed: %v", r)
		}
	}()
	return c.Answer()
}

// EventsFrom returns the steps from number n on, and whether there will be no more. changed is
// closed when there are more.
func (c *Call) EventsFrom(n int) (events []Event, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.events))
	return c.events[n:len(c.events):len(c.events)], c.done, c.changed
}

// Finished returns a channel that is closed when the call is done.
func (c *Call) Finished() <-chan struct{} { return c.finished }

// Wait returns nil when the call is done, or the error of ctx. A call that is done is preferred to
// a context that has ended, so an answer that is there is not lost to a late deadline.
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

// watch counts one watcher more. It returns false if the call has failed or was given up.
func (c *Call) watch() bool {
	_, err := c.Result()
	if err != nil {
		return false
	}
	c.watchers.Add(1)
	return true
}

// Watchers returns how many clients watch the call.
func (c *Call) Watchers() int { return int(c.watchers.Load()) }

// Times returns how long the call waited and ran. Both are 0 before the call is done; those of a
// call that failed extend to now.
func (c *Call) Times() (waited, ran time.Duration) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return c.waited, c.ran
	}
	now := e.o.Now()
	if c.beganAt.IsZero() {
		return now.Sub(c.Created), 0
	}
	return c.beganAt.Sub(c.Created), now.Sub(c.beganAt)
}

// bytes returns about how many bytes of memory the call holds.
func (c *Call) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := c.eventBytes + 4096
	if c.answer != nil {
		total += c.answer.Bytes()
	}
	counted := map[*constrain.Language]bool{nil: true}
	for _, m := range c.Members {
		// The engine may be setting the member's slices, so their sizes are bounded by its length.
		total += int64(m.maxLength)*(12+16*int64(m.Request.Top)) + 256
		total += requestBytes(&m.Request)
		if l := m.Request.Language; !counted[l] {
			counted[l] = true
			total += int64(l.Bytes())
		}
	}
	return total
}

// requestBytes returns about how many bytes of memory the lists of a request take.
func requestBytes(r *generate.Request) int64 {
	n := 4*(len(r.Known)+len(r.EndTokens)+len(r.Filter.Ban)) + 48*len(r.Filter.Bias)
	for condition := r.Condition; condition != nil; condition = condition.Unconditional {
		n += 4 * len(condition.KnownPositions)
		if p := condition.Prompt; p != nil {
			n += 4 * (len(p.States) + len(p.Final) + len(p.Pooled))
		}
	}
	return int64(n)
}

// progress returns the step of the member that is farthest ahead, and the most steps of one. Only
// Engine.Run calls it.
func (c *Call) progress() (step, steps int) {
	for _, m := range c.Members {
		step = max(step, m.StepsTaken)
		steps = max(steps, m.MaxSteps)
	}
	return step, steps
}

// Ahead returns how many calls take their steps before this one, and for how many seconds. A call
// that has begun waits for none.
func (c *Call) Ahead() (calls int, seconds float64) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.released || !c.beganAt.IsZero() {
		return 0, 0
	}
	calls, rows := e.countAhead(c)
	return calls, e.estimateSeconds(rows)
}

// FilterOverruled returns the number of tokens of all members at which filters gave way to a
// language.
func (c *Call) FilterOverruled() (tokens int) {
	for _, m := range c.Members {
		tokens += m.FilterOverruled
	}
	return tokens
}

// Work sums the passes and rows of the members of a call that is done.
func (c *Call) Work() (sum generate.Work) {
	for _, m := range c.Members {
		sum.Add(m.Work)
	}
	return sum
}

// Kind says why a call has no answer. Programs decide by it; sentences are for people.
type Kind uint8

const (
	// QueueFull: too many calls of the owner wait already, or too much work of theirs.
	QueueFull Kind = iota

	// WaitTooLong: the call's deadline would be over before its first step.
	WaitTooLong

	// ShuttingDown: no further call begins.
	ShuttingDown

	// Deadline: the call's time is over.
	Deadline

	// Cancelled: nobody waits for the call any more.
	Cancelled

	// StepFailed: a pass of the model failed.
	StepFailed

	// AnswerFailed: the sequences are done, but making the answer of them failed.
	AnswerFailed
)

// Error is why a call has no answer.
type Error struct {
	Kind Kind

	// Message is one line.
	Message string

	// Retry is the number of seconds after which to try again, 0 where none is known.
	Retry int
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// newError formats an error whose message is one line, whatever the arguments are.
func newError(kind Kind, format string, args ...any) *Error {
	words := strings.Fields(fmt.Sprintf(format, args...))
	return &Error{Kind: kind, Message: strings.Join(words, " ")}
}

// shutdownError returns the error of calls that come or wait while the server ends.
func shutdownError() *Error {
	return &Error{Kind: ShuttingDown, Message: "the server is shutting down", Retry: 5}
}
