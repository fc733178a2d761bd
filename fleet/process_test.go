//go:build !nofleet && unix

package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// TestMain lets the program of the tests be the process of a hub, of a worker or of a NATS server.
func TestMain(m *testing.M) {
	switch os.Getenv("FLEET_PROCESS") {
	case "":
		_ = flag.Set("test.parallel", "8") // tests mostly wait
		os.Exit(m.Run())
	case "hub":
		dir := os.Getenv("FLEET_DIR")
		t := &trial{dir: dir, n: processOutputs, maker: exact(20 * time.Millisecond)}
		t.defaults(os.Getenv("FLEET_LISTEN"), os.Getenv("FLEET_URL"))
		t.o.Say = func(line string) {
			if strings.HasPrefix(line, "worker one joined") {
				_ = os.WriteFile(dir+".joined", nil, 0o666)
			}
		}
		exit(t.hub(context.Background(), nil))
	case "worker":
		j, err := ParseJoinLine(os.Getenv("FLEET_JOIN"))
		if err == nil {
			err = Work(context.Background(), j, WorkerOptions{Name: os.Getenv("FLEET_NAME"),
				Info: here(), Build: built(exact(5 * time.Millisecond)), Patience: 20 * time.Second,
				Cache: os.Getenv("FLEET_DIR") + ".cache"})
		}
		exit(err)
	case "server": // as the program nats-server with a configuration
		o, err := server.ProcessConfigFile(os.Getenv("FLEET_DIR"))
		if err != nil {
			exit(err)
		}
		s, err := server.NewServer(o)
		if err != nil {
			exit(err)
		}
		s.Start()
		s.WaitForShutdown()
	}
}

// processOutputs is how many outputs the run of a hub that is a process has.
const processOutputs = 60

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process starts a hub or a worker of a trial as a process of its own.
func (b *trial) process(role, name, join string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FLEET_PROCESS="+role, "FLEET_NAME="+name, "FLEET_JOIN="+join,
		"FLEET_DIR="+b.dir, "FLEET_LISTEN="+b.o.Listen, "FLEET_URL="+b.o.URL)
	c.Stderr = os.Stderr
	require.NoError(b.t, c.Start())
	b.t.Cleanup(func() { c.Process.Kill() })
	return c
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for wait := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		require.Less(t, time.Since(wait), 5*time.Minute, what)
	}
}

// A worker, the hub, and both are killed with the signal that nothing can catch. They begin again.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	b := newTrial(t, processOutputs)
	kill := func(c *exec.Cmd) { c.Process.Kill(); c.Wait() }
	lines := func(n int) func() bool { // outputs that the manifest lists
		return func() bool {
			data, _ := os.ReadFile(filepath.Join(b.dir, "manifest.jsonl"))
			done := 0
			for _, c := range data {
				if c == '\n' {
					done++
				}
			}
			return done > n
		}
	}
	secrets := "@" + b.o.Secrets
	hub := b.process("hub", "", "")
	until(t, "the hub listens", func() bool { _, err := os.Stat(b.o.Secrets); return err == nil })
	one, two := b.process("worker", "one", secrets), b.process("worker", "two", secrets)
	until(t, "outputs", lines(5))
	kill(one)
	until(t, "outputs without a worker", lines(10))
	kill(hub)
	hub, one = b.process("hub", "", ""), b.process("worker", "one", secrets)
	until(t, "outputs of another hub", lines(16))
	kill(two)
	kill(hub)
	kill(one)
	os.Remove(b.dir + ".joined")
	hub, one = b.process("hub", "", ""), b.process("worker", "one", secrets)
	require.NoError(t, hub.Wait())
	if _, err := os.Stat(b.dir + ".joined"); err == nil {
		require.NoError(t, one.Wait())
	} // else the hub made the rest before the worker had come
	b.check()
}

// A worker whose process is stopped for many leases loses its jobs to others. It goes on where it
// was, and what it hands in late changes nothing.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 200)
	b.o.Lease = 100 * time.Millisecond // five of a minute's are five minutes
	var pause atomic.Int64             // of the hub's own machine
	pause.Store(int64(20 * time.Millisecond))
	begun := false // whether the worker has made some
	b.maker = b.when(func(h *Hub) bool {
		begun = begun || madeBy(h, "a") > 10
		return begun
	}, func(ctx context.Context, first, count int, put PutFunc) error {
		return exact(time.Duration(pause.Load()))(ctx, first, count, put)
	})
	opened := b.opened
	var last atomic.Pointer[Hub]
	b.opened = func(h *Hub) { last.Store(h); opened(h) }
	made := func() int { return madeBy(last.Load(), "a") }
	ended, joins := make(chan error, 1), make(chan JoinLine, 1)
	go func() { ended <- b.hub(t.Context(), func(j JoinLine) { joins <- j }) }()
	a := b.process("worker", "a", (<-joins).String())
	until(t, "the worker makes some", func() bool { return made() > 10 })
	require.NoError(t, a.Process.Signal(syscall.SIGSTOP))
	begin, done := time.Now(), last.Load().Status().Done
	lost := func(leases time.Duration, least int) func() bool {
		return func() bool {
			return time.Since(begin) > leases*b.o.Lease && last.Load().Status().Done > done+least
		}
	}
	until(t, "what was on its way is there", lost(4, 5))
	before := made()
	until(t, "others go on", lost(8, 10))
	require.Equal(t, before, made())
	pause.Store(int64(time.Second))
	require.NoError(t, a.Process.Signal(syscall.SIGCONT))
	until(t, "the worker goes on", func() bool { return made() > before+10 })
	pause.Store(0)
	require.NoError(t, <-ended)
	require.NoError(t, a.Wait())
	b.check()
}

// Clocks that are years off change nothing: neither leases, nor certificates, nor who is late.
func TestClocks(t *testing.T) {
	t.Parallel()
	off := func(years int) clock {
		return func() time.Time { return time.Now().Add(time.Duration(years) * 365 * 24 * time.Hour) }
	}
	for _, years := range [][3]int{{1, -1, 0}, {-60, 1, 100}} { // of the hub, and of workers
		b := newTrial(t, 24)
		if b.o.URL == "" { // with TLS
			b.o.Listen = "0.0.0.0" + b.o.Listen[len("127.0.0.1"):]
		}
		b.o.now = off(years[0])
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		shortContext, kill := context.WithCancelCause(ctx)
		l := &life{last: 20, end: func() { kill(errKilled) }}
		b.maker = b.when(func(h *Hub) bool {
			return hasJoined(h, "one") && (hasJoined(h, "two") || l.isOver.Load())
		}, exact(10*time.Millisecond))
		one, two := b.worker("one", time.Millisecond), b.worker("two", time.Millisecond)
		one.now, two.now = off(years[1]), off(years[2])
		ended := make(chan error, 2)
		require.NoError(t, b.hub(ctx, func(j JoinLine) {
			go func() { ended <- Work(ctx, j, one) }()
			p, line := through(t, j) // its jobs go to others when it is cut off
			p.life.Store(l)
			go func() { ended <- Work(shortContext, line, two) }()
		}))
		for range 2 {
			if err := <-ended; !errors.Is(err, errKilled) {
				require.NoError(t, err)
			}
		}
		cancel()
		b.check()
	}
}

// 500 workers join at once, and make outputs.
func TestManyWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("500 workers")
	}
	const workers = 500
	b := newTrial(t, 40)
	b.o.Lease = time.Minute
	all := make(chan bool) // is closed when all have joined
	make := Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		if first > 0 {
			select {
			case <-all:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return exact(0)(ctx, first, count, put)
	})
	b.maker = make
	b.opened = func(h *Hub) {
		go func() {
			for t.Context().Err() == nil && len(h.Status().Workers) < workers+1 { // and the hub's own
				time.Sleep(20 * time.Millisecond)
			}
			close(all)
		}()
	}
	var list []WorkerOptions
	for i := range workers {
		o := b.worker(fmt.Sprint("w", i), 0)
		o.Build, o.Patience = built(make), time.Minute
		list = append(list, o)
	}
	for _, err := range b.with(list...) {
		require.NoError(t, err)
	}
	b.check()
}
