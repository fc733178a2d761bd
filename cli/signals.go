package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type stopKey struct{}

// clearUp is how long a cancelled run may take to remove what it did not finish.
const clearUp = 2 * time.Second

// withSignals returns a context for a run. After the first interrupt stopped says so, and a
// run ends after its step, with what it has written; the second cancels it, and the third, or
// a run that takes too long to clear up, ends the process. A closed pipe becomes an error of the
// write.
func withSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	c := make(chan os.Signal, 3)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		if _, ok := <-c; !ok {
			return
		}
		close(stop)
		if _, ok := <-c; !ok {
			return
		}
		cancel()
		select {
		case _, ok := <-c:
			if !ok {
				return
			}
		case <-time.After(clearUp):
		}
		os.Exit(130)
	}()
	return context.WithValue(ctx, stopKey{}, stop), func() {
		signal.Stop(c)
		close(c)
		cancel()
	}
}

// stopChannel is closed after the first interrupt.
func stopChannel(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey{}).(chan struct{})
	return stop
}

// stopped reports whether a first interrupt came.
func stopped(ctx context.Context) bool {
	select {
	case <-stopChannel(ctx):
		return true
	default:
		return false
	}
}

// untilStopped is a context for work without steps to finish, such as a download: the first
// interrupt cancels it.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stopChannel(ctx):
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
