//go:build unix

package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hang is set in a child process of this test. It says what the child does after a signal; see
// hangs.
const hang = "UNMASK_TEST_HANG"

func TestMain(m *testing.M) {
	if how := os.Getenv(hang); how != "" {
		hangs(how)
	}
	os.Exit(m.Run())
}

// hangs prints a line when the child can be signalled, when the first signal came, and when its
// context is cancelled. A child whose own end is tested has an hour before it is ended.
func hangs(how string) {
	p := stopTimeouts{step: 300 * time.Millisecond, cleanUp: 300 * time.Millisecond}
	switch how {
	case "steps", "slow, clears up":
		p = stopTimeouts{step: time.Hour, cleanUp: time.Hour}
	case "slow":
		p.step = time.Hour
	case "cancel":
		p.cleanUp = time.Hour
	}
	ctx, stop, release := p.withSignals(context.Background())
	if how == "patient" || how == "patient, hangs" {
		AllowSlowShutdown(ctx)
	}
	fmt.Println("ready")
	<-ctx.Done()
	ctx = GracefulContext(ctx)
	fmt.Println("stopped")
	switch how {
	case "steps":
		if !StopRequested(ctx) {
			os.Exit(9)
		}
		release()
		os.Exit(stop.ExitStatus())
	case "patient":
		time.Sleep(900 * time.Millisecond)
		if ctx.Err() == nil {
			os.Exit(8)
		}
	}
	<-ctx.Done()
	fmt.Println("cancelled")
	if how == "cancel" {
		os.Exit(7)
	}
	select {}
}

// ends returns the exit status of a child after signals. The next one is sent once the child says
// that the one before had its effect, because signals that are pending at the same time are one.
func ends(t *testing.T, how string, signals ...syscall.Signal) int {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), hang+"="+how)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for i, s := range signals {
		require.True(t, lines.Scan(), "%s with %v ended: %v", how, signals, ctx.Err())
		require.Equal(t, []string{"ready", "stopped", "cancelled"}[i], lines.Text())
		require.NoError(t, cmd.Process.Signal(s))
	}
	for lines.Scan() { // to its end
	}
	err = cmd.Wait()
	require.NoError(t, ctx.Err(), "%s with %v goes on", how, signals)
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v", err)
	return exit.ExitCode()
}

// One SIGTERM ends a run after its step, cancels a step that does not end, and ends a process that
// ignores this too. A second signal does so without waiting for the step, and a third without
// waiting until the run has cleared up.
func TestSignalsEndWhatHangs(t *testing.T) {
	const term, hup, interrupt = syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT
	for _, c := range []struct {
		how     string
		signals []syscall.Signal
		status  int
	}{
		{"steps", []syscall.Signal{term}, 143},
		{"steps", []syscall.Signal{interrupt}, 130},
		{"cancel", []syscall.Signal{term}, 7},
		{"nothing", []syscall.Signal{term}, 143},
		{"nothing", []syscall.Signal{hup}, 129},
		{"patient", []syscall.Signal{term}, 8},
		{"patient, hangs", []syscall.Signal{term, term}, 143},
		{"cancel", []syscall.Signal{interrupt, interrupt}, 7},
		{"slow", []syscall.Signal{term, term}, 143},
		{"slow", []syscall.Signal{interrupt, interrupt}, 130},
		{"slow, clears up", []syscall.Signal{interrupt, interrupt, interrupt}, 130},
	} {
		t.Run(fmt.Sprint(c.how, c.signals), func(t *testing.T) {
			t.Parallel() // it mostly waits
			if c.signals[0] == hup && signal.Ignored(hup) {
				t.Skip("nohup makes the process ignore it")
			}
			require.Equal(t, c.status, ends(t, c.how, c.signals...))
		})
	}
}
