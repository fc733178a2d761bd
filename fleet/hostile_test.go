//go:build !nofleet

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A worker's name may be any name of a host, also as the default makes it.
func TestNamesOfHosts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"host.example.org", "a", strings.Repeat("x.", 31) + "y", "",
		"_1-.", "HOST.local."} {
		b := newTrial(t, 12)
		b.maker = b.when(func(h *Hub) bool { // else the worker makes none, and the run has no end
			return slices.ContainsFunc(h.Status().Workers, func(w WorkerStatus) bool {
				return w.Name != ownName && w.Made > 0
			})
		}, exact(0))
		b.same(b.with(b.worker(name, time.Millisecond)))
	}
}

// Two workers of one name are two workers.
func TestSameName(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 30)
	var last Status
	b.o.Watch = func(s Status) { last = s }
	one, two := b.worker("twin", time.Millisecond), b.worker("twin", time.Millisecond)
	two.Cache += "-two"
	b.same(b.with(one, two))
	var names []string
	for _, w := range last.Workers {
		names = append(names, w.Name)
	}
	require.Contains(t, names, "twin")
	require.Contains(t, names, "twin-2")
}

// The name of the hub's own worker is refused, before and after connecting.
func TestReservedName(t *testing.T) {
	t.Parallel()
	during(t, 12, func(t *testing.T, b *trial, j JoinLine) {
		require.ErrorContains(t, Work(t.Context(), j, b.worker("hub", 0)), "worker's name is hub")
		s := newStranger(t, j, "stranger")
		var w joinReply
		s.ask("hello", pack(joinRequest{Protocol: protocol, Worker: "hub", Go: here().Go}), &w)
		require.Contains(t, w.Error, "worker's name is hub")
	})
}

// Results belong to the connection that was asked for them: nobody is expelled, and nothing is
// taken, by what another sends in its name or about outputs that it was not asked for.
func TestOthersResults(t *testing.T) {
	t.Parallel()
	last := during(t, 40, func(t *testing.T, b *trial, j JoinLine) {
		honest := newStranger(t, j, "honest")
		job := honest.take()
		evil := newStranger(t, j, "evil")
		bad := []Output{{job.First, seed, []byte("bad")}}
		for _, name := range []string{"done.hub", "done.honest", "done." + honest.key, "done.*"} {
			evil.conn.Publish(subject(j.ID, name), evil.result(30, 9, Output{30, seed, []byte("x")}))
			evil.conn.Publish(subject(j.ID, name), evil.result(job.First, job.Count, bad...))
		}
		var a ack
		evil.ask("done", evil.result(job.First, job.Count, bad...), &a)
		for i := range 40 { // all of the run at once
			evil.ask("done", evil.result(i, 1, Output{i, seed, []byte("bad")}), &a)
		}
		honest.ask("done", honest.result(job.First, job.Count, outputs(job)...), &a)
		require.Empty(t, a.Error)
	})
	require.Zero(t, last.Expelled)
	require.Greater(t, last.Dropped, 39)
}

// A holder of the token cannot make the hub speak where others listen.
func TestRepliesElsewhere(t *testing.T) {
	t.Parallel()
	var others []string
	last := during(t, 40, func(t *testing.T, b *trial, j JoinLine) {
		honest := newStranger(t, j, "honest")
		heard := make(chan string, 100)
		for _, at := range []string{"over", "to." + honest.key + ".x"} {
			_, err := honest.conn.Subscribe(subject(j.ID, at), func(m *nats.Msg) {
				heard <- m.Subject
			})
			require.NoError(t, err)
		}
		require.NoError(t, honest.conn.Flush())
		evil := newStranger(t, j, "evil")
		for _, at := range []string{"over", "to." + honest.key + ".x", "hello." + honest.key} {
			for _, name := range []string{"hello.", "done.", "blob."} {
				message := pack(joinRequest{Protocol: protocol, Worker: "evil", Go: here().Go})
				evil.conn.PublishRequest(subject(j.ID, name+evil.key), subject(j.ID, at), message)
			}
		}
		require.NoError(t, evil.conn.Flush())
		var a ack
		evil.ask("done", evil.result(0, 0), &a) // was handled after those
		time.Sleep(50 * time.Millisecond)
		for len(heard) > 0 {
			others = append(others, <-heard)
		}
	})
	require.Empty(t, others)
	require.GreaterOrEqual(t, last.Dropped, 6)
}

// The end of another run does not stop a worker.
func TestOverOfAnotherRun(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 30)
	b.o.Lease = time.Minute // a worker that is late by less joins once
	b.maker = exact(20 * time.Millisecond)
	var joins atomic.Int64
	b.opened = func(h *Hub) {
		_, err := h.engine.conn.Subscribe(subject(h.engine.join.ID, "hello.*"), func(*nats.Msg) {
			joins.Add(1)
		})
		require.NoError(t, err)
		go func() {
			for joined(h) == 0 && t.Context().Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			for range 20 {
				time.Sleep(10 * time.Millisecond)
				h.engine.conn.Publish(subject(h.engine.join.ID, "over"), pack(overMessage{Run: "another"}))
				h.engine.conn.Publish(subject(h.engine.join.ID, "over"), pack(overMessage{}))
			}
		}()
	}
	b.same(b.with(b.worker("a", 10*time.Millisecond)))
	// Of 40 messages, two are of each worker that joins. A request to join may be sent again.
	require.GreaterOrEqual(t, joins.Load(), int64(4))
	require.Less(t, joins.Load(), int64(17))
}

// A connection hears answers to itself and the end of the run, and speaks under its own key.
func TestPermissions(t *testing.T) {
	if outside != "" {
		t.Skip("the outside server has its own")
	}
	during(t, 30, func(t *testing.T, b *trial, j JoinLine) {
		honest, evil := newStranger(t, j, "honest"), newStranger(t, j, "evil")
		refused := make(chan error, 100)
		evil.conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			refused <- err
		})
		want := 0
		for _, at := range []string{"_INBOX.>", ">", subject(j.ID, "done.*"), subject(j.ID, "to.*.>"),
			inbox(j.ID, honest.key) + ".>", subject(j.ID, ">"), "$JS.>"} {
			_, err := evil.conn.SubscribeSync(at)
			require.NoError(t, err)
			want++
		}
		for _, at := range []string{subject(j.ID, "over"), subject(j.ID, "done."+honest.key),
			subject(j.ID, "hello."+honest.key), inbox(j.ID, honest.key) + ".x", "$JS.ACK.a.b",
			"$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING"} {
			require.NoError(t, evil.conn.Publish(at, []byte("{}")))
			want++
		}
		require.NoError(t, evil.conn.Flush())
		for range want {
			select {
			case err := <-refused:
				require.ErrorIs(t, err, nats.ErrPermissionViolation)
			case <-time.After(time.Minute):
				require.Fail(t, "something was allowed")
			}
		}
		for _, user := range []string{"hub", "worker", strings.ToUpper(honest.key), ""} {
			_, err := nats.Connect("nats://"+j.Host, nats.UserInfo(user, j.Token))
			require.ErrorIs(t, err, nats.ErrAuthorization, user)
		}
	})
}

// A worker that takes jobs, makes none of them and says that it is endlessly fast costs the run
// those jobs, which others make again.
func TestHoarder(t *testing.T) {
	t.Parallel() // it mostly waits
	last := during(t, 60, func(t *testing.T, b *trial, j JoinLine) {
		s := newStranger(t, j, "evil")
		var a ack
		got := map[int]bool{}
		var held []int
		began := time.Now()
		for range 20 {
			s.ask("done", pack(result{Job: job{Run: s.run}, Want: 1 << 30, Held: held,
				Seconds: 1e-300}), &a)
			for _, g := range a.Give {
				if !got[g.First] {
					held = append(held, g.First)
				}
				got[g.First] = true
			}
			a = ack{}
		}
		leases := 1 + int(time.Since(began)/b.o.Lease) // after each, jobs are lost, others given
		require.Less(t, len(got), 5*leases, fmt.Sprint(got))
		require.NotEmpty(t, got)
	})
	require.Zero(t, last.Expelled)
}

// A hub whose own worker is expelled ends with an error that says so.
func TestOwnWorkerExpelled(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 1000) // most of which are never made
	b.maker = exact(20 * time.Millisecond)
	b.opened = func(h *Hub) {
		go func() {
			for h.Status().Done < 5 {
				time.Sleep(5 * time.Millisecond)
			}
			h.latest.mu.Lock()
			h.latest.expel(h.latest.peers[ownName], "is out")
			h.latest.mu.Unlock()
		}()
	}
	require.ErrorContains(t, b.with()[0], "this machine's own worker is expelled: it is out")
}
