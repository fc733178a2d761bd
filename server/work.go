package server

import (
	"context"
	"sync"
	"time"

	"unmask/generate"
	"unmask/generate/traces"
)

// work is the computation of a request. Equal requests at the same time share one work, and each
// client reads its steps and its answer as they come.
type work struct {
	kind    string // completions, chat, infill, images or edits
	key     string // SHA-256 of all that the answer depends on
	id      string
	model   *served
	owner   string // the name of the key that asked first
	batch   bool
	seed    uint64
	first   int
	recipe  generate.Recipe
	header  traces.Header
	members []*member // sequences, by choice
	created time.Time
	limit   time.Time                     // when it is given up
	answers func(*work) (*answer, *Fault) // makes the answer of finished members
	rows    int64                         // of all steps of all members, at most

	// Of the engine that runs it, under its lock.
	begun   time.Time // zero: it waits for its first step
	stepped time.Time // the last
	left    int64     // rows
	open    int       // members that are not done
	keeping bool      // a member keeps keys and values, and runs to its end
	ended   bool      // the engine is done with it

	mu       sync.Mutex
	changed  chan struct{} // closed when something is added
	finished chan struct{} // closed when the work is done
	events   []event
	bytes    int64 // of events, about
	lost     bool  // there were too many events to keep
	answer   *answer
	fault    *Fault
	done     bool
	watchers int
	waited   time.Duration
	ran      time.Duration
}

// event is a step of one of the work's sequences.
type event struct {
	choice int
	traces.Step
}

// answer is the answer to a finished request.
type answer struct {
	body   []byte   // JSON
	images [][]byte // PNGs
	parts  any      // what streams need of it
}

// member is one sequence of a work.
type member struct {
	work    *work
	choice  int
	request generate.Request
	rows    int // of one pass
	steps   int // at most
	guided  bool
	kept    bool // keys and values stay between its steps
	longest int  // positions, when its holes have grown

	// Of the engine.
	sequence *generate.Sequence
	done     bool

	// The result.
	tokens    []int32
	logP      []float64           // of each position that opened; NaN where it is not known
	followed  []float64           // logP until holes grow, which streams follow
	top       [][]generate.Likely // of each position that opened; nil if not asked for
	free      []bool              // positions that were to be filled
	n         int                 // steps taken
	evaluated generate.Evaluated
}

// left returns how many rows the member's passes still take, at most.
func (m *member) left() int64 {
	if m.done {
		return 0
	}
	return int64(m.rows) * int64(max(0, m.steps-m.n))
}

// eventBytes is about how many bytes of memory a position that opens takes.
const eventBytes = 128

// maxEvents bounds what the steps of a work take in memory: samplers that mask again may have any
// number of them.
const maxEvents = 32 << 20

// forgot reports whether the work has dropped its steps because there were too many.
func (w *work) forgot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// add appends a step and tells those that wait.
func (w *work) add(e event) {
	w.mu.Lock()
	w.bytes += int64(len(e.Opened)+len(e.Closed)+1) * eventBytes
	if w.lost = w.lost || w.bytes > maxEvents; w.lost {
		w.events, w.bytes = nil, maxEvents+1 // who wants no steps gets the answer all the same
	} else {
		w.events = append(w.events, e)
	}
	w.tell()
	w.mu.Unlock()
}

// tell wakes everyone who waits for a change. The caller holds the lock.
func (w *work) tell() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// end sets the answer or the fault of the work. Only the first call has an effect; it returns true.
func (w *work) end(a *answer, f *Fault) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return false
	}
	w.answer, w.fault, w.done = a, f, true
	close(w.finished)
	w.tell()
	return true
}

// since returns the steps from number from on, and whether there will be no more.
func (w *work) since(from int) (events []event, done bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = min(from, len(w.events))
	return w.events[from:len(w.events):len(w.events)], w.done, w.changed
}

// wait returns when the work is done, or the error of ctx.
func (w *work) wait(ctx context.Context) error {
	select {
	case <-w.finished:
		return nil
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.finished:
		return nil
	}
}

// result returns the answer or the fault of a work that is done.
func (w *work) result() (*answer, *Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer, w.fault
}

// outcome returns the answer or the fault for a client whose stream of the steps ended with err: a
// Fault is for the client, any other error is of the connection and is returned.
func (w *work) outcome(err error) (*answer, *Fault, error) {
	if f, ok := err.(*Fault); ok {
		return nil, f, nil
	}
	a, f := w.result()
	return a, f, err
}

// watch counts one watcher more. It returns false where the work was given up.
func (w *work) watch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done && w.fault != nil {
		return false
	}
	w.watchers++
	return true
}

// watching returns how many watch the work.
func (w *work) watching() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watchers
}

// times sets how long the work waited and ran, as the engine measured it.
func (w *work) times(waited, ran time.Duration) {
	w.mu.Lock()
	w.waited, w.ran = waited, ran
	w.mu.Unlock()
}

// size is about how many bytes of memory the work holds.
func (w *work) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.bytes + 4096
	if w.answer != nil {
		n += int64(len(w.answer.body))
		for _, p := range w.answer.images {
			n += int64(len(p))
		}
	}
	for _, m := range w.members {
		n += int64(m.longest)*(12+16*int64(m.request.Top)) + 256 // the engine may be setting its slices
	}
	return n
}

// progress returns the step of the member that is farthest behind, of its steps.
func (w *work) progress() (step, steps int) {
	at := map[int]int{}
	w.mu.Lock()
	for i := len(w.events) - 1; i >= 0 && len(at) < len(w.members); i-- {
		if e := &w.events[i]; at[e.choice] == 0 {
			at[e.choice] = e.Step.Step
		}
	}
	w.mu.Unlock()
	step = -1
	for i, m := range w.members {
		steps = max(steps, m.steps)
		if step < 0 || at[i] < step {
			step = at[i]
		}
	}
	return max(step, 0), steps
}
