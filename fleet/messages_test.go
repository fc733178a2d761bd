//go:build !nofleet

package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stranger joins as a worker by hand, and sends what a test makes it send.
type stranger struct {
	t    testing.TB
	j    JoinLine
	conn *nats.Conn
	name string
	key  string
	run  string
}

func newStranger(t testing.TB, j JoinLine, name string) *stranger {
	s := connected(t, j, name)
	h := joinRequest{Protocol: protocol, Worker: name, Go: here().Go}
	var w joinReply
	for w.Run == "" { // the hub may not listen yet
		w = joinReply{}
		s.ask("hello", pack(h), &w)
		time.Sleep(10 * time.Millisecond)
	}
	h.Run, h.Settings, h.Digest = w.Run, settings, digest(madeOf(0))
	s.run = w.Run
	w = joinReply{}
	s.ask("hello", pack(h), &w)
	require.Empty(t, w.Error)
	return s
}

// connected connects, and does not join.
func connected(t testing.TB, j JoinLine, name string) *stranger {
	s := &stranger{t: t, j: j, name: name, key: randomHex(keyBytes)}
	url, options := j.URL, []nats.Option{nats.CustomInboxPrefix(inbox(j.ID, s.key)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if url == "" {
		url, options = "nats://"+j.Host, append(options, nats.UserInfo(s.key, j.Token))
	}
	var err error
	s.conn, err = nats.Connect(url, options...)
	require.NoError(t, err)
	t.Cleanup(s.conn.Close)
	return s
}

// take asks for a job until there is one.
func (s *stranger) take() job {
	for range 100 {
		var a ack
		s.ask("done", pack(result{Job: job{Run: s.run}, Want: 1}), &a)
		if len(a.Give) > 0 {
			return a.Give[0]
		}
	}
	require.Fail(s.t, "no job")
	return job{}
}

// outputs are those of a job as they should be.
func outputs(j job) (list []Output) {
	for i := range j.Count {
		list = append(list, Output{j.First + i, seed, madeOf(j.First + i)})
	}
	return list
}

func (s *stranger) ask(name string, message []byte, answer any) {
	m, err := s.conn.Request(subject(s.j.ID, name+"."+s.key), message, 5*time.Second)
	if err == nil {
		_, err = unpack(m.Data, answer)
		require.NoError(s.t, err)
	}
}

// result returns the message of outputs.
func (s *stranger) result(first, count int, list ...Output) []byte {
	d := result{Job: job{Run: s.run, First: first, Count: count}, Seconds: 1}
	var data [][]byte
	for _, o := range list {
		d.Outputs = append(d.Outputs, outputHeader{o.Index, o.Seed, len(o.Data), digest(o.Data)})
		data = append(data, o.Data)
	}
	return pack(d, data...)
}

// during runs a slow hub, and a stranger meanwhile; at the end the folder is that of a single run.
func during(t *testing.T, n int, do func(t *testing.T, b *trial, j JoinLine)) Status {
	t.Helper()
	b := newTrial(t, n)
	turn := make(chan bool) // the hub's own worker waits for the stranger
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
	b.o.Unit = 8
	var last Status
	b.o.Watch = func(s Status) { last = s }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	joins, ended := make(chan JoinLine, 1), make(chan error, 1)
	go func() { ended <- b.hub(ctx, func(j JoinLine) { joins <- j }) }()
	t.Run("strangers", func(t *testing.T) { do(t, b, <-joins) }) // their connections end with it
	close(turn)
	require.NoError(t, <-ended)
	b.check()
	return last
}

// Where two machines make different bytes of an output, the run stops with an error that names the
// output, both machines and both hashes.
func TestTwoMachinesDiffer(t *testing.T) {
	t.Parallel()
	b := newTrial(t, 40)
	b.o.Unit = 8
	b.maker = Maker(func(ctx context.Context, first, count int, put PutFunc) error {
		if first > 0 {
			<-ctx.Done() // the hub's own worker only holds its job
			return ctx.Err()
		}
		return exact(0)(ctx, first, count, put)
	})
	joins, ended := make(chan JoinLine, 1), make(chan error, 1)
	go func() { ended <- b.hub(t.Context(), func(j JoinLine) { joins <- j }) }()
	j := <-joins
	one, two := newStranger(t, j, "one"), newStranger(t, j, "two")
	job, other := one.take(), []Output(nil)
	for again := two.take(); again != job; again = two.take() {
		one.ask("done", pack(result{Job: again, Want: 1}), &ack{}) // it holds nothing: its job is free
	}
	for _, o := range outputs(job) {
		other = append(other, Output{o.Index, o.Seed, append([]byte("another "), o.Data...)})
	}
	one.ask("done", one.result(job.First, job.Count, outputs(job)...), &ack{})
	two.ask("done", two.result(job.First, job.Count, other...), &ack{})
	require.EqualError(t, <-ended, fmt.Sprintf("output %d is %.12s by one and %.12s by two: one of the "+
		"two machines computes wrongly; make it on a third to tell which, then begin the run again "+
		"without the wrong one", job.First, digest(madeOf(job.First)), digest(other[0].Data)))
}

// Results that come twice and in another order change nothing.
func TestDuplicatesAndReordered(t *testing.T) {
	t.Parallel()
	last := during(t, 40, func(t *testing.T, b *trial, j JoinLine) {
		s := newStranger(t, j, "stranger")
		defer s.conn.Close()
		for range 3 {
			j := s.take()
			for _, i := range append(rand.Perm(j.Count), rand.Perm(j.Count)...) {
				var a ack
				i += j.First
				s.ask("done", s.result(i, 1, Output{i, seed, madeOf(i)}), &a)
				require.Empty(t, a.Error)
			}
		}
	})
	require.Positive(t, last.Duplicates)
}

// What is no result, or not what it says, is dropped and counted, and its sender expelled.
func TestBadResults(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]func(s *stranger) []byte{
		"result has output 20, want 10 to 10": func(s *stranger) []byte {
			return s.result(10, 1, Output{20, seed, madeOf(20)})
		},
		"result is of outputs 23 to 24, want 0 to 23": func(s *stranger) []byte {
			return s.result(23, 2, Output{23, seed, madeOf(23)})
		},
		"output 10 is 8388609 bytes, want at most 8388608": func(s *stranger) []byte {
			return s.result(10, 1, Output{10, seed, make([]byte, MaxResult+1)})
		},
		"result is 8388610 bytes, want at most 8388608": func(s *stranger) []byte {
			return s.result(10, 2, Output{10, seed, make([]byte, MaxResult/2+1)},
				Output{11, seed, make([]byte, MaxResult/2+1)})
		},
	} {
		last := during(t, 24, func(t *testing.T, b *trial, j JoinLine) {
			s := newStranger(t, j, "stranger")
			defer s.conn.Close()
			own := subject(j.ID, "done."+s.key)
			s.conn.Publish(own, []byte("x"))
			s.conn.Publish(own, []byte{0xff, 0xff, 0xff, 0xff, 1})
			var a ack
			s.ask("done", message(s), &a)
			require.Equal(t, "sent what it was not asked for: "+name, a.Error)
			s.ask("done", s.result(12, 1, Output{12, seed, madeOf(12)}), &a)
			require.Contains(t, a.Error, "expelled")
			var w joinReply
			s.ask("hello", pack(joinRequest{Protocol: protocol, Worker: "stranger", Go: here().Go}), &w)
			require.Contains(t, w.Error, "worker stranger was expelled: it sent what it was not asked for")
		})
		require.Equal(t, 3, last.Dropped)
		require.Equal(t, 1, last.Expelled)
	}
}

// Any other version of the messages is refused by the name of the worker's program, as 0.1.0 is.
func TestOtherProtocolIsRefused(t *testing.T) {
	during(t, 24, func(t *testing.T, b *trial, j JoinLine) {
		s := newStranger(t, j, "stranger")
		defer s.conn.Close()
		for _, other := range []int{0, 3, protocol + 1} {
			var w joinReply
			s.ask("hello", pack(joinRequest{Protocol: other, Worker: "older", Go: here().Go,
				Build: "unmask 0.1.0"}), &w)
			require.Contains(t, w.Error, fmt.Sprintf("worker older is unmask 0.1.0 and speaks "+
				"protocol %d, the hub is ", other))
		}
	})
}

// A flood of requests to join is mostly turned away, and the run goes on meanwhile.
func TestJoinFlood(t *testing.T) {
	last := during(t, 30, func(t *testing.T, b *trial, j JoinLine) {
		s := newStranger(t, j, "stranger")
		defer s.conn.Close()
		for i := range 10_000 {
			s.conn.Publish(subject(j.ID, "hello."+s.key), pack(joinRequest{Protocol: protocol,
				Worker: fmt.Sprint("w", i), Go: "go1.1"}))
		}
		require.NoError(t, s.conn.Flush())
	})
	require.Positive(t, last.Refused)
}

// What is packed is unpacked; what is not a message is an error.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		in := result{Job: job{Run: rapid.String().Draw(t, "run")}, Seconds: 1}
		var out result
		rest, err := unpack(pack(in, data), &out)
		if err != nil || string(rest) != string(data) {
			t.Fatal(err, rest)
		}
		if len(data) > 0 {
			_, _ = unpack(data, &out) // an error or not, but no more
		}
	})
}
