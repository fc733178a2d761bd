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

// stopKey is the key of a command's StopSignal in its context.
type stopKey struct{}

// StopSignal is the first signal that asked a run to end, with the state of its handling.
type StopSignal struct {
	// stopped ends at the first signal; graceful is the context of GracefulContext, which only the
	// second one ends.
	stopped  context.Context
	graceful context.Context

	// signal is the number of the first signal, 0 before it.
	signal atomic.Int32

	// slowShutdown is set by AllowSlowShutdown.
	slowShutdown atomic.Bool

	// hangups receives SIGHUP and interrupts SIGINT, which then do not stop the run. While they are
	// nil, these signals stop it.
	hangups    atomic.Pointer[chan struct{}]
	interrupts atomic.Pointer[chan struct{}]
}

// ExitStatus returns the exit status of a process that the signal ended: 128 plus its number.
func (s *StopSignal) ExitStatus() int {
	if n := s.signal.Load(); n != 0 {
		return 128 + int(n)
	}
	return 128 + int(syscall.SIGINT)
}

// stopTimeouts are the times that a run has to end after a signal.
type stopTimeouts struct {
	// step is the time to finish a step after SIGTERM: whoever sends it may send no second one.
	step time.Duration

	// cleanUp is the time that a cancelled run has to remove unfinished files.
	cleanUp time.Duration
}

// defaultTimeouts are together less than 10 seconds, after which docker kills a container that it
// stops.
var defaultTimeouts = stopTimeouts{step: 8 * time.Second, cleanUp: 500 * time.Millisecond}

// WithSignals returns a context for a command, which the first SIGINT, SIGTERM or SIGHUP cancels,
// and a function that ends the handling of signals.
//
// A run of steps uses GracefulContext's context instead: it ends after its step, when StopRequested
// returns true, with what it has written. The second signal, or 8 seconds after SIGTERM and SIGHUP,
// cancels that too. Half a second later, or at the third signal, the process removes its unfinished
// files and exits.
//
// A SIGHUP that was ignored when the process began, as under nohup, stays ignored. A closed pipe
// becomes an error of the write.
func WithSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	return defaultTimeouts.withSignals(ctx)
}

// withSignals is WithSignals with other timeouts, for tests.
func (p stopTimeouts) withSignals(ctx context.Context) (context.Context, *StopSignal, func()) {
	stop := &StopSignal{}
	graceful, cancel := context.WithCancel(context.WithValue(ctx, stopKey{}, stop))
	stopped, stopNow := context.WithCancel(graceful)
	stop.stopped = stopped
	stop.graceful = graceful

	signals := make(chan os.Signal, 3) // all that the handler acts on
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

// handleSignals calls stopNow at the first signal that stops a run. It calls cancel at the second
// one, or when the time of the step is over, and then ends the process. It returns when the channel
// is closed.
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

	// After SIGINT the timeout stays nil, so it never comes: the user may press the key again.
	var stepTimeout <-chan time.Time
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

// waitForStop returns the next signal that stops a run, false when the channel is closed. A SIGHUP
// goes to hangups and a SIGINT to interrupts if those are set.
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
		default: // it has not yet acted on an earlier one
		}
	}
	return nil, false
}

// AllowSlowShutdown lets a command take as long as it needs to end after the first signal, such as
// a server that finishes its answers: only a second signal cancels its graceful context.
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

// StopRequested reports whether the first signal has come, after which a run should end.
func StopRequested(ctx context.Context) bool {
	stop, ok := ctx.Value(stopKey{}).(*StopSignal)
	return ok && stop.stopped.Err() != nil
}

// GracefulContext returns the context for a run that ends by itself once StopRequested, given the
// context of its command: only the second signal cancels it, so the run can finish its step.
func GracefulContext(ctx context.Context) context.Context {
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		return stop.graceful
	}
	return ctx
}
