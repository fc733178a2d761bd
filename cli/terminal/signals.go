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
	stopped      context.Context // ends when the signal came
	graceful     context.Context // of a run that ends by itself, see Late
	signal       atomic.Int32
	slowShutdown atomic.Bool
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

// stopTimeouts is the time that a run has to end after a signal.
type stopTimeouts struct {
	step    time.Duration // to finish its step after SIGTERM, because nobody may send a second one
	cleanUp time.Duration // for a cancelled run to remove unfinished files
}

// Together less than 10 seconds, after which docker kills a container that it stops.
var defaultTimeouts = stopTimeouts{step: 8 * time.Second, cleanUp: 500 * time.Millisecond}

// WithSignals returns a context for a command, which the first SIGINT, SIGTERM or SIGHUP cancels. A
// run of steps has Late's context in its place: it ends after its step, when Stopped returns true,
// with what it has written. The second signal, or 8 seconds after SIGTERM and SIGHUP, cancels that
// too. Half a second later, or at the third signal, the process removes its unfinished files and
// exits. A SIGHUP that was ignored when the process began, as under nohup, stays ignored. A closed
// pipe becomes an error of the write.
func WithSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	return defaultTimeouts.withSignals(ctx)
}

func (p stopTimeouts) withSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	stop := &StopSignal{}
	graceful, cancel := context.WithCancel(context.WithValue(ctx, stopKey{}, stop))
	stopped, stopNow := context.WithCancel(graceful)
	stop.stopped = stopped
	stop.graceful = graceful
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE)
	go p.handleSignals(signals, stop, stopNow, cancel)
	return stopped, stop, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// handleSignals waits for the first signal, then for the second or the end of the step's time,
// which cancel the run, and then ends the process. It returns when c is closed.
func (p stopTimeouts) handleSignals(signals <-chan os.Signal, stop *StopSignal,
	stopNow, cancel func()) {
	first, ok := stop.waitForStop(signals)
	if !ok {
		return
	}
	if n, ok := first.(syscall.Signal); ok {
		stop.signal.Store(int32(n))
	}
	stopNow()
	var stepTimeout <-chan time.Time // nil, so never, for SIGINT: the user may press the key again
	if first != os.Interrupt {
		stepTimeout = time.After(p.step)
	}
	select {
	case _, ok := <-signals:
		if !ok {
			return
		}
	case <-stepTimeout:
		if stop.slowShutdown.Load() {
			if _, ok := <-signals; !ok {
				return
			}
			break
		}
		Logf("the step takes longer than %v: it is given up", p.step)
	}
	cancel()
	select {
	case _, ok := <-signals:
		if !ok {
			return
		}
	case <-time.After(p.cleanUp):
	}
	atomicfile.DiscardAll()
	os.Exit(stop.ExitStatus())
}

// waitForStop returns the next signal that stops a run; it is false when c is closed. A SIGHUP goes
// to hangups and a SIGINT to interrupts if those are set.
func (s *StopSignal) waitForStop(signals <-chan os.Signal) (os.Signal, bool) {
	for received := range signals {
		var listener *chan struct{}
		switch received {
		case syscall.SIGHUP:
			listener = s.hangups.Load()
		case os.Interrupt:
			listener = s.interrupts.Load()
		}
		if listener == nil {
			return received, true
		}
		select {
		case *listener <- struct{}{}:
		default:
		}
	}
	return nil, false
}

// AllowSlowShutdown lets a command take its own time to end after the first signal, for example a
// server that finishes its answers: only a second signal cancels its context.
func AllowSlowShutdown(ctx context.Context) {
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		stop.slowShutdown.Store(true)
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
	return ok && stop.stopped.Err() != nil
}

// GracefulContext returns the context of a run that ends by itself once Stopped, of a command with
// this one: the second signal cancels it.
func GracefulContext(ctx context.Context) context.Context {
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		return stop.graceful
	}
	return ctx
}
