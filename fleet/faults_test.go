//go:build !nofleet

package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask/runs"
)

// errKilled is why a process ends that a test kills.
var errKilled = errors.New("killed")

// life is that of a process, or of two, which end at an operation: a piece of bytes on a connection
// that a proxy carries, or a step of a store. From then on the proxy carries nothing and the store
// takes nothing, as if the machine had lost its power.
type life struct {
	operations atomic.Int64
	last       int64 // -1: it does not end
	isOver     atomic.Bool
	end        func() // of what is left of the process
}

// step counts an operation, and reports whether the process still does it.
func (l *life) step() bool {
	if l.isOver.Load() {
		return false
	}
	if l.operations.Add(1)-1 != l.last {
		return true
	}
	l.isOver.Store(true)
	l.end()
	return false
}

// mortal is a store of a process that ends before or after it has put something into the store.
type mortal struct {
	Store
	life *life
}

func (m mortal) Put(i int, seed uint64, data []byte) error {
	if !m.life.step() {
		return errKilled
	}
	if err := m.Store.Put(i, seed, data); err != nil {
		return err
	}
	if !m.life.step() {
		return errKilled
	}
	return nil
}

// killedAt makes a small run, of which the hub, a worker or both end at operation k of theirs, and
// begins again whoever ended. It returns how many operations there were.
func killedAt(t testing.TB, who string, k int64) int64 {
	const n = 5
	whole := single(t, n)
	b := newTrial(t, n)
	b.maker = exact(60 * time.Millisecond) // so that the worker has some to do
	o := b.worker("a", time.Millisecond)
	o.Patience = time.Second
	b.o.Lease = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	hubContext, killHub := context.WithCancelCause(ctx)
	workerContext, killWorker := context.WithCancelCause(ctx)
	var worker atomic.Pointer[proxy]
	l := &life{last: k, end: func() {
		if p := worker.Load(); p != nil {
			p.life.Store(nil) // what begins again has connections that live on
		}
		if who != "worker" {
			killHub(errKilled)
		}
		if who != "hub" {
			killWorker(errKilled)
		}
	}}
	if who != "worker" {
		b.store = func(f *runs.Folder) Store { return mortal{f, l} }
	}

	joins := make(chan JoinLine, 9)
	var wait sync.WaitGroup
	wait.Go(func() {
		var j JoinLine
		select {
		case j = <-joins:
		case <-ctx.Done():
			return
		}
		p, j := through(t, j)
		p.life.Store(l)
		worker.Store(p)
		err := Work(workerContext, j, o)
		if who != "hub" && l.isOver.Load() {
			err = Work(ctx, j, o)
		}
		if err != nil && !strings.Contains(err.Error(), "the hub is silent") { // it ended meanwhile
			t.Errorf("%s at %d: %v", who, k, err)
		}
	})
	join := func(j JoinLine) { joins <- j }
	err := b.hub(hubContext, join)
	if who != "worker" && l.isOver.Load() {
		b.store = func(f *runs.Folder) Store { return f }
		err = b.hub(ctx, join)
	}
	if err != nil {
		t.Errorf("%s at %d: %v", who, k, err)
		cancel()
	}
	wait.Wait()
	assert.Equal(t, whole, files(t, b.dir), "%s at %d", who, k)
	return l.operations.Load()
}

// The hub, a worker, or both end at operation k, for every k of a small run. They begin again, and
// the folder is that of a single run.
func TestKilledAtEveryOperation(t *testing.T) {
	t.Parallel()
	var lanes sync.WaitGroup // they mostly wait
	for _, who := range []string{"hub", "worker", "both"} {
		lanes.Go(func() {
			most := killedAt(t, who, -1)
			t.Logf("%s: %d operations", who, most)
			var next atomic.Int64
			for range 8 {
				lanes.Go(func() {
					for k := next.Add(1) - 1; k < most; k = next.Add(1) - 1 {
						killedAt(t, who, k)
					}
				})
			}
		})
	}
	lanes.Wait()
}

// failing is a store whose disk is full at operation k.
type failing struct {
	Store
	left *int
}

func (f failing) Put(i int, seed uint64, data []byte) error {
	if *f.left--; *f.left < 0 {
		return syscall.ENOSPC
	}
	return f.Store.Put(i, seed, data)
}

// A full disk ends the run with an error, and the same command goes on.
func TestDiskFull(t *testing.T) {
	for k := range 8 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			b := newTrial(t, 8)
			left := k
			b.store = func(f *runs.Folder) Store { return failing{f, &left} }
			errs := b.with(b.worker("a", time.Millisecond))
			require.ErrorIs(t, errs[0], syscall.ENOSPC)
			b.store = func(f *runs.Folder) Store { return f }
			b.same(b.with(b.worker("a", time.Millisecond)))
		})
	}
}

// A worker that is much slower than the others does not hold the run up: the others copy its jobs.
func TestSlowWorker(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 30)
	has := make(chan bool) // is closed when the slow worker has a job
	quick := Maker(func(ctx context.Context, from, count int, put PutFunc) error {
		if from >= 10 {
			select {
			case <-has:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return exact(10*time.Millisecond)(ctx, from, count, put)
	})
	b.maker = quick
	var last Status
	b.o.Watch = func(s Status) { last = s }
	slow, other := b.worker("slow", 0), b.worker("b", 0)
	other.Build = built(quick)
	calls := 0
	slow.Build = built(Maker(func(ctx context.Context, from, count int,
		put PutFunc) error {
		if calls++; calls == 1 { // to join
			return exact(0)(ctx, from, count, put)
		}
		if calls == 2 {
			close(has)
		}
		return exact(time.Hour)(ctx, from, count, put)
	}))
	b.same(b.with(slow, other))
	require.Positive(t, last.Copies)
}

// proxy carries connections until it is cut.
type proxy struct {
	l     net.Listener
	to    string
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	turn  func([]byte) // changes what workers send

	// life is that of the connections that begin now, nil where it has no end.
	life atomic.Pointer[life]
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, to: to}
	t.Cleanup(func() { l.Close(); p.set(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			p.mu.Lock()
			if err != nil || p.cut {
				c.Close()
				if err == nil {
					out.Close()
				}
				p.mu.Unlock()
				continue
			}
			p.conns = append(p.conns, c, out)
			p.mu.Unlock()
			carried := p.life.Load()
			go carry(c, out, nil, carried)
			go carry(out, c, p.turn, carried)
		}
	}()
	return p
}

// carry writes to one connection what arrives by another. After the end of their life it swallows
// all: neither side learns that the other has gone.
func carry(to, from net.Conn, turn func([]byte), l *life) {
	defer to.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if turn != nil {
			turn(b[:n])
		}
		if l != nil && !l.step() {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// set cuts all connections, or lets new ones through.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// A worker that is cut off again and again comes back, and what it made is not lost.
func TestCutOff(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newTrial(t, 60)
	const least = 8 // outputs of the worker, which the hub leaves to it
	var hub atomic.Pointer[Hub]
	b.opened = func(h *Hub) { hub.Store(h) }
	b.maker = Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		for first > 20 && ctx.Err() == nil && madeBy(hub.Load(), "a") < least {
			time.Sleep(10 * time.Millisecond)
		}
		return exact(30*time.Millisecond)(ctx, first, count, put)
	})
	var p *proxy
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	joined := make(chan error, 1)
	err := b.hub(ctx, func(j JoinLine) {
		p, j = through(t, j)
		go func() { joined <- Work(ctx, j, b.worker("a", 100*time.Millisecond)) }()
		go func() {
			for ctx.Err() == nil {
				time.Sleep(250 * time.Millisecond)
				p.set(true)
				time.Sleep(100 * time.Millisecond)
				p.set(false)
			}
		}()
	})
	require.NoError(t, err)
	b.check()
	require.GreaterOrEqual(t, madeBy(hub.Load(), "a"), least)
	cancel()
	<-joined
}

// through returns a line that leads through a proxy.
func through(t testing.TB, j JoinLine) (*proxy, JoinLine) {
	u, err := url.Parse(cmp.Or(j.URL, "unmask://"+j.Host))
	require.NoError(t, err)
	p := newProxy(t, u.Host)
	u.Host = p.l.Addr().String()
	if j.Host = u.Host; j.URL != "" {
		j.URL = u.String()
	}
	return p, j
}

// A result that arrives with a bit flipped is asked for again.
func TestFlippedOnTheWay(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 12)
	b.maker = Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		if first > 0 { // the worker makes all
			<-ctx.Done()
			return ctx.Err()
		}
		return exact(0)(ctx, first, count, put)
	})
	var last Status
	b.o.Watch = func(s Status) { last = s }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	joined := make(chan error, 1)
	err := b.hub(ctx, func(j JoinLine) {
		p, j := through(t, j)
		flipped := 0
		want := madeOf(3)[:40]
		p.turn = func(data []byte) {
			if at := bytes.Index(data, want); at >= 0 && flipped < 2 {
				data[at+7] ^= 4
				flipped++
			}
		}
		o := b.worker("a", 0)
		go func() { joined <- Work(ctx, j, o) }()
	})
	require.NoError(t, err)
	require.NoError(t, <-joined)
	b.check()
	require.Equal(t, 2, last.Damaged)
}

// A second hub on the same folder is refused.
func TestSecondHub(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 4)
	err := b.hub(t.Context(), func(JoinLine) {
		other := newTrial(t, 4)
		other.dir = b.dir
		require.ErrorContains(t, other.hub(t.Context(), nil), "another process is writing it")
	})
	require.NoError(t, err)
	b.check()
}

// A queue that holds few jobs is filled as it empties.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 40)
	b.o.Queue = 1
	b.same(b.with(b.worker("a", time.Millisecond), b.worker("b", time.Millisecond)))
}

// Workers that cannot make the hub's bytes are refused in one line that names both sides.
func TestRefusedWorkers(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 20)
	turn := make(chan bool) // the hub's own machine waits for them
	b.maker = Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		if first > 0 {
			select {
			case <-turn:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return exact(0)(ctx, first, count, put)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	joins := make(chan JoinLine, 1)
	go func() { ended <- b.hub(ctx, func(j JoinLine) { joins <- j }) }()
	j := <-joins
	for _, c := range []struct {
		name, want string
		change     func(o *WorkerOptions, j *JoinLine)
	}{
		{"go", "worker go was built with go1.2, the hub with " + here().Go + ": want the same",
			func(o *WorkerOptions, _ *JoinLine) { o.Info.Go = "go1.2" }},
		{"weights", `worker weights has model "other", the hub has "made"`,
			func(o *WorkerOptions, _ *JoinLine) {
				o.Build = func(context.Context, Source) (Setup, error) {
					return Setup{exact(0), runs.Settings{"model": "other", "seed": "7"}, "cpu", digest}, nil
				}
			}},
		{"precision", `worker precision has precision "bf16", the hub has none`,
			func(o *WorkerOptions, _ *JoinLine) {
				o.Build = func(context.Context, Source) (Setup, error) {
					return Setup{exact(0), runs.Settings{"model": "made", "seed": "7", "precision": "bf16"}, "cpu",
						digest}, nil
				}
			}},
		{"purego", "on generic (test/test, test), the hub as", func(o *WorkerOptions, _ *JoinLine) {
			o.Build = func(context.Context, Source) (Setup, error) {
				return Setup{Maker(func(_ context.Context, first, _ int, put PutFunc) error {
					return put(first, seed, []byte("other"))
				}), settings, "generic", digest}, nil
			}
		}},
		{"token", "the token is not the hub's", func(_ *WorkerOptions, j *JoinLine) {
			j.Token = randomHex(tokenBytes)
		}},
		{"a b", "worker's name is \"a b\", want", func(*WorkerOptions, *JoinLine) {}},
	} {
		if c.name == "token" && outside != "" {
			continue
		}
		o, line := b.worker(c.name, 0), j
		c.change(&o, &line)
		err := Work(ctx, line, o)
		require.ErrorContains(t, err, c.want, c.name)
		require.NotContains(t, err.Error(), "\n")
	}
	close(turn)
	require.NoError(t, <-ended)
	b.check()
}

// Beyond loopback a worker knows the hub by its certificate, whatever the dates.
func TestCertificate(t *testing.T) {
	t.Parallel()
	if outside != "" {
		t.Skip("the outside server has its own")
	}
	b := newTrial(t, 60)
	_, port, err := net.SplitHostPort(b.o.Listen)
	require.NoError(t, err)
	b.o.Listen = "0.0.0.0:" + port
	var refused atomic.Bool
	b.maker = b.when(func(h *Hub) bool { return refused.Load() && joined(h) > 0 }, exact(0))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wrong, right error
	var wait sync.WaitGroup
	require.NoError(t, b.hub(ctx, func(j JoinLine) {
		require.NotEmpty(t, j.Cert)
		wait.Go(func() {
			other := j
			other.Cert = digest(nil)
			wrong = Work(ctx, other, b.worker("wrong", 0))
			refused.Store(true)
		})
		wait.Go(func() { right = Work(ctx, j, b.worker("right", time.Millisecond)) })
	}))
	wait.Wait()
	require.NoError(t, right)
	require.ErrorContains(t, wrong, "certificate is not the one of the join line")
	b.check()
}

// The hub keeps who it is over a kill, and workers that know it come back: see
// TestKilledAtEveryOperation. Its file is for nobody else.
func TestSecrets(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.hub")
	s, err := openSecrets(name)
	require.NoError(t, err)
	require.NoError(t, s.write(name, "line"))
	again, err := openSecrets(name)
	require.NoError(t, err)
	require.Equal(t, s, again)
}
