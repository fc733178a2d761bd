package terminal

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"unmask/internal/atomicfile"
)

type stopKey struct{}

// StopSignal is the first signal that asked a run to end.
type StopSignal struct {
	came    context.Context // ends when the signal came
	late    context.Context // of a run that ends by itself, see Late
	signal  atomic.Int32
	patient atomic.Bool
	// receives SIGHUP, which then does not stop the run; nil: it stops
	hangups    atomic.Pointer[chan struct{}]
	interrupts atomic.Pointer[chan struct{}] // the same for SIGINT
}

// ExitStatus returns the exit status of a process that the signal ended: 128 plus its number.
func (s *StopSignal) ExitStatus() int {
	if n := s.signal.Load(); n != 0 {
		return 128 + int(n)
	}
	return 128 + int(syscall.SIGINT)
}

// patience is the time that a run has to end after a signal.
type patience struct {
	step    time.Duration // to finish its step after SIGTERM, because nobody may send a second one
	clearUp time.Duration // for a cancelled run to remove unfinished files
}

// Together less than 10 seconds, after which docker kills a container that it stops.
var usual = patience{step: 8 * time.Second, clearUp: 500 * time.Millisecond}

// WithSignals returns a context for a command, which the first SIGINT, SIGTERM or SIGHUP cancels. A
// run of steps has Late's context in its place: it ends after its step, when Stopped returns true,
// with what it has written. The second signal, or 8 seconds after SIGTERM and SIGHUP, cancels that
// too. Half a second later, or at the third signal, the process removes its unfinished files and
// exits. A SIGHUP that was ignored when the process began, as under nohup, stays ignored. A closed
// pipe becomes an error of the write.
func WithSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	return usual.withSignals(ctx)
}

func (p patience) withSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	stop := &StopSignal{}
	late, cancel := context.WithCancel(context.WithValue(ctx, stopKey{}, stop))
	came, first := context.WithCancel(late)
	stop.came = came
	stop.late = late
	c := make(chan os.Signal, 3)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE)
	go p.watch(c, stop, first, cancel)
	return came, stop, func() {
		signal.Stop(c)
		close(c)
		cancel()
	}
}

// watch waits for the first signal, then for the second or the end of the step's time, which cancel
// the run, and then ends the process. It returns when c is closed.
func (p patience) watch(c <-chan os.Signal, stop *StopSignal, begin, cancel func()) {
	first, ok := stop.next(c)
	if !ok {
		return
	}
	if n, ok := first.(syscall.Signal); ok {
		stop.signal.Store(int32(n))
	}
	begin()
	var late <-chan time.Time // nil, so never, for SIGINT: the user may press the key again
	if first != os.Interrupt {
		late = time.After(p.step)
	}
	select {
	case _, ok := <-c:
		if !ok {
			return
		}
	case <-late:
		if stop.patient.Load() {
			if _, ok := <-c; !ok {
				return
			}
			break
		}
		Logf("the step takes longer than %v: it is given up", p.step)
	}
	cancel()
	select {
	case _, ok := <-c:
		if !ok {
			return
		}
	case <-time.After(p.clearUp):
	}
	atomicfile.DiscardAll()
	os.Exit(stop.ExitStatus())
}

// next returns the next signal that stops a run; it is false when c is closed. A SIGHUP goes to
// hangups and a SIGINT to interrupts if those are set.
func (s *StopSignal) next(c <-chan os.Signal) (os.Signal, bool) {
	for got := range c {
		var to *chan struct{}
		switch got {
		case syscall.SIGHUP:
			to = s.hangups.Load()
		case os.Interrupt:
			to = s.interrupts.Load()
		}
		if to == nil {
			return got, true
		}
		select {
		case *to <- struct{}{}:
		default:
		}
	}
	return nil, false
}

// AllowSlowShutdown lets a command take its own time to end after the first signal, for example a
// server that finishes its answers: only a second signal cancels its context.
func AllowSlowShutdown(ctx context.Context) {
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		stop.patient.Store(true)
	}
}

// NotifyHangups returns a channel that receives after each SIGHUP, which from now on does not stop
// the program: servers then read their files again.
func NotifyHangups(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		stop.hangups.Store(&c)
	}
	return c
}

// StopRequested reports whether the first signal has come.
func StopRequested(ctx context.Context) bool {
	stop, ok := ctx.Value(stopKey{}).(*StopSignal)
	return ok && stop.came.Err() != nil
}

// GracefulContext returns the context of a run that ends by itself once Stopped, of a command with
// this one: the second signal cancels it.
func GracefulContext(ctx context.Context) context.Context {
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		return stop.late
	}
	return ctx
}
