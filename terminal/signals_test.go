//go:build unix

package terminal

import (
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

// hang is set in a child process of this test. It says what the child does after a signal: finish
// its step, obey only its context, or nothing.
const hang = "UNMASK_TEST_HANG"

func TestMain(m *testing.M) {
	if how := os.Getenv(hang); how != "" {
		hangs(how)
	}
	os.Exit(m.Run())
}

func hangs(how string) {
	p := patience{step: 300 * time.Millisecond, clearUp: 300 * time.Millisecond}
	if how == "slow" {
		p.step = time.Hour
	}
	ctx, stop, release := p.withSignals(context.Background())
	fmt.Println("ready")
	switch how {
	case "steps":
		for !Stopped(ctx) {
			time.Sleep(time.Millisecond)
		}
		release()
		os.Exit(stop.Status())
	case "patient":
		Patient(ctx)
		time.Sleep(900 * time.Millisecond)
		if ctx.Err() == nil {
			os.Exit(8)
		}
	case "cancel":
		<-ctx.Done()
		os.Exit(7)
	}
	select {}
}

// ends returns the exit status of a child after signals, sent 30 ms apart.
func ends(t *testing.T, how string, signals ...syscall.Signal) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hang+"="+how)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 5))
	require.NoError(t, err)
	for _, s := range signals {
		require.NoError(t, cmd.Process.Signal(s))
		time.Sleep(30 * time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		return exit.ExitCode()
	case <-time.After(20 * time.Second):
		cmd.Process.Kill()
		t.Fatalf("%s with %v goes on", how, signals)
	}
	return 0
}

// One SIGTERM ends a run after its step, cancels a step that does not end, and ends a process that
// ignores this too. A second signal does so without waiting for the step.
func TestSignalsEndWhatHangs(t *testing.T) {
	const term, hup, interrupt = syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT
	require.Equal(t, 143, ends(t, "steps", term))
	require.Equal(t, 130, ends(t, "steps", interrupt))
	require.Equal(t, 7, ends(t, "cancel", term))
	require.Equal(t, 143, ends(t, "nothing", term))
	require.Equal(t, 8, ends(t, "patient", term))
	require.Equal(t, 143, ends(t, "patient", term, term))
	require.Equal(t, 7, ends(t, "cancel", interrupt, interrupt))
	require.Equal(t, 143, ends(t, "slow", term, term))
	require.Equal(t, 130, ends(t, "slow", interrupt, interrupt))
	require.Equal(t, 130, ends(t, "slow", interrupt, interrupt, interrupt))
	if !signal.Ignored(hup) { // nohup makes the process ignore it
		require.Equal(t, 129, ends(t, "nothing", hup))
	}
}
