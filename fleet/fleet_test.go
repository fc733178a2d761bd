//go:build !nofleet

package fleet

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/runs"
)

const seed = 7

// madeOf is the output of an index: 100 to 1000 bytes.
func madeOf(i int) []byte {
	return bytes.Repeat([]byte(digest(fmt.Append(nil, i))), 2+i%7)
}

// exact makes madeOf, slowly.
func exact(pause time.Duration) Maker {
	return Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		for i := first; i < first+count; i++ {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			if err := put(i, seed, madeOf(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

var settings = runs.Settings{"model": "made", "seed": "7"}

// single returns the files of a run of n outputs on one machine.
func single(t testing.TB, n int) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "single")
	f, err := runs.OpenFolder(dir, settings, runs.Shard{}, 0)
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, f.Put(i, seed, madeOf(i)))
	}
	require.NoError(t, f.Close())
	return files(t, dir)
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, dir)
		if d.IsDir() {
			all[name] = "directory"
			return nil
		}
		data, err := os.ReadFile(p)
		all[name] = string(data)
		return err
	}))
	return all
}

func here() Info {
	return Info{Build: "test", Go: runtime.Version(), Platform: "test/test", Device: "cpu"}
}

// freePort returns an address that nobody listens at.
func freePort(t testing.TB) string {
	t.Helper()
	for { // below those that connections come from
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
}

// trial is a run, its hub and its workers.
type trial struct {
	t      testing.TB
	dir    string
	n      int
	o      HubOptions
	maker  Maker // of the hub
	store  func(*runs.Folder) Store
	tell   func(*Run)
	opened func(*Hub)
}

func newTrial(t testing.TB, n int) *trial {
	b := &trial{t: t, dir: filepath.Join(t.TempDir(), "out"), n: n, maker: exact(2 * time.Millisecond)}
	b.defaults(freePort(t), outside)
	return b
}

// defaults sets what a trial has unless it says otherwise.
func (b *trial) defaults(listen, url string) {
	b.o = HubOptions{Listen: listen, URL: url, Secrets: b.dir + ".hub",
		Lease: 400 * time.Millisecond, Info: here(), Unit: 1}
	b.store = func(f *runs.Folder) Store { return f }
	b.tell, b.opened = func(*Run) {}, func(*Hub) {}
}

// outside is the URL of a NATS server that is another process, "" for the one in the hub.
var outside string

// hub runs the hub until the run is over or the hub ends.
func (b *trial) hub(ctx context.Context, joined func(JoinLine)) error {
	f, err := runs.OpenFolder(b.dir, settings, runs.Shard{}, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	o := b.o
	if o.URL != "" {
		o.Listen = ""
	}
	h, err := OpenHub(o)
	if err != nil {
		return err
	}
	b.opened(h)
	j, err := ParseJoinLine(h.JoinLine())
	if err != nil {
		return err
	}
	if joined != nil {
		joined(j)
	}
	r := Run{Setup: Setup{Maker: b.maker, Settings: settings, DigestOf: digest}, N: b.n,
		Spec: []byte("spec"), Store: b.store(f)}
	b.tell(&r)
	err = h.Run(ctx, r)
	if closed := h.Close(err == nil); err == nil {
		err = closed
	}
	return err
}

// built is what a worker of the test makes.
func built(m Maker) func(context.Context, Source) (Setup, error) {
	return func(context.Context, Source) (Setup, error) {
		return Setup{Maker: m, Settings: settings, Device: "cpu", DigestOf: digest}, nil
	}
}

// workerNamed returns the options of a worker.
func (b *trial) worker(name string, pause time.Duration) WorkerOptions {
	return WorkerOptions{Name: name, Cache: filepath.Join(filepath.Dir(b.dir), "cache-"+name),
		Patience: 20 * time.Second, Info: here(), Build: built(exact(pause))}
}

// when is a maker of the hub that begins the outputs after the first once ready reports true of it,
// so that workers have some to do however late they come.
func (b *trial) when(ready func(h *Hub) bool, m Maker) Maker {
	var hub atomic.Pointer[Hub]
	opened := b.opened
	b.opened = func(h *Hub) {
		hub.Store(h)
		opened(h)
	}
	return func(ctx context.Context, first, count int, put PutFunc) error {
		for first > 0 && !ready(hub.Load()) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
		return m(ctx, first, count, put)
	}
}

// joined returns how many workers have joined, without the hub's own.
func joined(h *Hub) int { return max(0, len(h.Status().Workers)-1) }

// hasJoined reports whether a worker has joined.
func hasJoined(h *Hub, name string) bool {
	return slices.ContainsFunc(h.Status().Workers, func(w WorkerStatus) bool { return w.Name == name })
}

// with runs the hub and workers, and returns their errors, the hub's first. The hub's own worker
// waits until the others have joined or ended.
func (b *trial) with(workers ...WorkerOptions) (errs []error) {
	b.t.Helper()
	maker, opened, ended := b.maker, b.opened, atomic.Int64{}
	b.maker = b.when(func(h *Hub) bool { return joined(h)+int(ended.Load()) >= len(workers) }, maker)
	defer func() { b.maker, b.opened = maker, opened }()
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	errs = make([]error, len(workers)+1)
	joins := make(chan JoinLine, len(workers))
	var wait sync.WaitGroup
	for k, o := range workers {
		wait.Go(func() {
			select {
			case j := <-joins:
				errs[k+1] = Work(ctx, j, o)
			case <-ctx.Done():
				errs[k+1] = ctx.Err()
			}
			ended.Add(1)
		})
	}
	errs[0] = b.hub(ctx, func(j JoinLine) {
		for range workers {
			joins <- j
		}
	})
	if errs[0] != nil {
		cancel()
	}
	wait.Wait()
	return errs
}

// madeBy returns how many outputs of a run are a worker's.
func madeBy(h *Hub, name string) int {
	for _, w := range h.Status().Workers {
		if w.Name == name {
			return w.Made
		}
	}
	return 0
}

// check compares the folder with that of a single run.
func (b *trial) check() {
	b.t.Helper()
	require.Equal(b.t, single(b.t, b.n), files(b.t, b.dir))
}

func (b *trial) same(errs []error) {
	b.t.Helper()
	for _, err := range errs {
		require.NoError(b.t, err)
	}
	b.check()
}

func TestRun(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 40)
	var last Status
	b.o.Watch = func(s Status) { last = s }
	b.same(b.with(b.worker("a", 2*time.Millisecond), b.worker("b", 5*time.Millisecond)))
	require.Equal(t, 40, last.Done)
	require.Len(t, last.Workers, 3)
	_, err := os.Stat(b.o.Secrets)
	require.ErrorIs(t, err, fs.ErrNotExist)
	// All is there: the hub has nothing to do.
	b.same(b.with())
}

func TestJoinLine(t *testing.T) {
	id, token := randomHex(idBytes), randomHex(tokenBytes)
	hash := hex.EncodeToString(bytes.Repeat([]byte{7}, 32))
	for _, j := range []JoinLine{{ID: id, Token: token, Host: "10.0.0.5:4333", Cert: hash},
		{ID: id, Token: token, Host: "127.0.0.1:4333"}, {ID: id, URL: "nats://u:p@host:4222"}} {
		again, err := ParseJoinLine(j.String())
		require.NoError(t, err)
		require.Equal(t, j, again)
	}
	for _, bad := range []string{"", "x", "http://h?id=" + id, "unmask://" + token + "@h:1",
		"unmask://" + token + "@h?id=" + id, "unmask://secret@h:1?id=" + id,
		"unmask://" + token + "@h:1?id=" + id + "&cert=abc", "@/nowhere"} {
		_, err := ParseJoinLine(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "\n")
	}
}

// The hub's own worker has the files that it sends, and writes no copy of them.
func TestHubCopiesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("model", []byte("weights"), 0o600))
	tree, err := NewTree("model", "model")
	require.NoError(t, err)
	b := newTrial(t, 3)
	b.tell = func(r *Run) { r.Trees = []Tree{tree} }
	require.NoError(t, b.hub(t.Context(), nil))
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
