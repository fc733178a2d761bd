//go:build !nofleet

package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"
)

// WorkerOptions say how a worker works.
type WorkerOptions struct {
	Name       string        // 1 to 64 of A-Z a-z 0-9 . _ -; "" makes one of the host's name
	Cache      string        // directory that keeps files by their hash; "": Build needs none
	LocalPaths []string      // places that may have what a run needs
	Patience   time.Duration // without a hub, after which it ends; 0 is 10 minutes
	Info       Info
	Say        func(line string) // gets messages; nil: nobody

	// Build makes a Maker from what the hub sent.
	Build func(ctx context.Context, s Source) (Setup, error)

	fault   func(op string) bool // is asked at each operation; true is the process's end
	options []nats.Option        // of the hub's own worker
	key     string               // of its connection
	now     clock                // nil: time.Now
}

const defaultPatience = 10 * time.Minute

// ErrRunEnded ends a job of a run that is over.
var ErrRunEnded = errors.New("the run is over")

// errLast ends a worker when no run comes any more.
var errLast = errors.New("no run is left")

// refused is the error of a worker that the hub does not want.
func refused(why string) error { return errors.New("the hub refuses this worker: " + why) }

// Worker makes outputs for a hub.
type worker struct {
	o    WorkerOptions
	id   string
	conn *nats.Conn
	key  string // of the connection

	mu     sync.Mutex // of joining
	run    string     // key of the run that built is of
	built  Setup
	digest string // of its first output
	took   float64
	lease  time.Duration

	jobs atomic.Int64 // to take at once
	held sync.Map     // first outputs of the jobs that were taken and not handed in

	dead  atomic.Bool                             // killed by a test
	stop  atomic.Pointer[context.CancelCauseFunc] // ends the work for a run
	heard atomic.Pointer[time.Time]               // when the hub answered last
	at    atomic.Pointer[string]                  // run, for who does not join
}

// Work joins the hub of a join line and makes outputs until the hub reports that all are done.
func Work(ctx context.Context, j JoinLine, o WorkerOptions) error {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.fault == nil {
		o.fault = func(string) bool { return false }
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Name = cmp.Or(o.Name, machineName())
	if !name.MatchString(o.Name) {
		return fmt.Errorf("worker's name is %q, want 1 to 64 of A-Z a-z 0-9 . _ -", o.Name)
	}
	if o.Name == ownName && o.key == "" {
		return fmt.Errorf("worker's name is %s, want another: it is that of the hub's own", ownName)
	}
	w := &worker{o: o, id: j.ID, key: cmp.Or(o.key, random(keyBytes))}
	w.note(1)
	w.touch()
	if err := w.connect(ctx, j); err != nil {
		return err
	}
	defer w.conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := w.conn.Subscribe(subject(j.ID, "over"), func(m *nats.Msg) {
		w.heed(m, cancel)
	}); err != nil {
		return err
	}
	for {
		err := w.one(ctx)
		switch {
		case w.dead.Load():
			return errKilled
		case errors.Is(err, errLast):
			return nil
		case errors.Is(err, ErrRunEnded):
			continue
		case err != nil:
			return err
		}
	}
}

// heed takes the message that a run is over, or that no run follows, which calls last.
func (w *worker) heed(m *nats.Msg, last context.CancelCauseFunc) {
	var o over
	if _, err := unpack(m.Data, &o); err != nil {
		return
	}
	w.touch()
	if o.Last {
		last(errLast)
	} else if at := w.at.Load(); at != nil && *at == o.Run {
		w.end(ErrRunEnded)
	}
}

// end ends the work for a run.
func (w *worker) end(why error) {
	if stop := w.stop.Load(); stop != nil {
		(*stop)(why)
	}
}

// machineName makes a name from the host's.
func machineName() string {
	host, _ := os.Hostname()
	clean := []byte(host)
	for i, c := range clean {
		if !name.Match([]byte{c}) {
			clean[i] = '-'
		}
	}
	return string(clean[:min(len(clean), 40)]) + "-" + random(4)
}

// connect connects, and waits for the hub as long as it takes.
func (w *worker) connect(ctx context.Context, j JoinLine) error {
	options := append(connection(), nats.Name(w.o.Name), nats.IgnoreAuthErrorAbort(),
		nats.CustomInboxPrefix(inbox(j.ID, w.key)))
	address := j.URL
	switch {
	case w.o.options != nil:
		address, options = "", append(options, w.o.options...)
	case j.URL == "":
		address = "nats://" + j.Host
		options = append(options, nats.UserInfo(w.key, j.Token))
		if j.Cert != "" {
			options = append(options, nats.Secure(pinned(j.Cert, w.o.now)))
		}
	}
	for {
		var err error
		if w.conn, err = nats.Connect(address, options...); err == nil {
			return nil
		}
		switch {
		case errors.Is(err, nats.ErrAuthorization):
			return refused("the token is not the hub's")
		case errors.Is(err, errCertificate):
			return refused(errCertificate.Error())
		}
		if err := w.wait(ctx, 200*time.Millisecond, err); err != nil {
			return err
		}
	}
}

func (w *worker) touch() {
	now := w.o.now()
	w.heard.Store(&now)
}

// wait lets time pass after an error of the network, and reports when that has been too long.
func (w *worker) wait(ctx context.Context, d time.Duration, last error) error {
	if silent := w.o.now.since(*w.heard.Load()); silent > w.o.Patience {
		if errors.Is(last, nats.ErrReconnectBufExceeded) {
			last = errors.New("there is no connection")
		}
		return fmt.Errorf("the hub is silent for %s: %w", silent.Round(time.Second), last)
	}
	if w.conn != nil && w.conn.IsClosed() {
		return cmp.Or(w.conn.LastError(), nats.ErrConnectionClosed)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ask sends a request until it is answered. It decodes the reply's header into answer and returns
// the bytes after it.
func (w *worker) ask(ctx context.Context, name string, message []byte, answer any,
	no *refusal) ([]byte, error) {
	pause := 50 * time.Millisecond
	for {
		if err := w.killed(name); err != nil {
			return nil, err
		}
		once, cancel := context.WithTimeout(ctx, max(2*time.Second, w.lease/4))
		m, err := w.conn.RequestWithContext(once, subject(w.id, name+"."+w.key), message)
		cancel()
		if err == nil {
			w.touch()
			var data []byte
			if data, err = unpack(m.Data, answer); err != nil {
				return nil, err
			}
			if no.Error != "" {
				return nil, refused(no.Error)
			}
			if !no.Busy {
				return data, w.killed("answered")
			}
			err = errors.New("the hub is busy")
			*no = refusal{}
		} else if errors.Is(err, nats.ErrMaxPayload) {
			return nil, fmt.Errorf("a message of %d bytes is more than NATS takes, %d", len(message),
				w.conn.MaxPayload())
		}
		if err := w.wait(ctx, pause, err); err != nil {
			return nil, err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// join asks what the run is, makes its first output and shows it. What is known of the run is not
// made again. Without anew, another run than the one that is known is ErrRunEnded.
func (w *worker) join(ctx context.Context, anew bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := joinRequest{Protocol: protocol, Worker: w.o.Name, Build: w.o.Info.Build, Go: w.o.Info.Go,
		Platform: w.o.Info.Platform}
	var a joinReply
	if _, err := w.ask(ctx, "hello", pack(h), &a, &a.refusal); err != nil {
		return err
	}
	if a.Run != w.run {
		if !anew {
			return ErrRunEnded
		}
		if err := w.build(ctx, a); err != nil {
			return err
		}
	}
	h.Run, h.Settings, h.Device = a.Run, w.built.Settings, cmp.Or(w.built.Device, w.o.Info.Device)
	h.Digest, h.Seconds = w.digest, w.took
	a = joinReply{}
	if _, err := w.ask(ctx, "hello", pack(h), &a, &a.refusal); err != nil {
		return err
	}
	if a.Run != w.run { // another began meanwhile
		return ErrRunEnded
	}
	w.note(a.Jobs)
	return nil
}

// note keeps how many jobs the hub lets this worker take at once.
func (w *worker) note(jobs int) { w.jobs.Store(int64(max(1, jobs))) }

// build makes the Maker of a run and its first output.
func (w *worker) build(ctx context.Context, a joinReply) error {
	if a.Size < 0 || a.Size > maxSpec {
		return fmt.Errorf("the hub's plan is %d bytes, want at most %d", a.Size, maxSpec)
	}
	var data []byte
	for int64(len(data)) < a.Size {
		part, err := w.piece(ctx, blobRequest{SHA256: a.Spec, Offset: int64(len(data))})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return errors.New("the hub sends an empty piece")
		}
		data = append(data, part...)
	}
	if digest(data) != a.Spec {
		return errors.New("the hub's plan is not what it says")
	}
	var p plan
	err := json.Unmarshal(data, &p)
	if err != nil {
		return fmt.Errorf("the hub's plan: %w", err)
	}
	if w.o.Cache == "" { // the hub's own worker, which has what it sends
		p.Trees = nil
	}
	s := Source{Spec: p.Spec, Trees: map[string]string{}}
	for _, t := range p.Trees {
		if s.Trees[t.Name], err = w.tree(ctx, &t); err != nil {
			return err
		}
	}
	built, err := w.o.Build(ctx, s)
	if err != nil {
		return err
	}
	first, seconds, err := built.Maker.first(ctx, w.o.now)
	if err != nil {
		return err
	}
	w.built, w.took, w.lease = built, seconds, time.Duration(a.Lease)
	w.digest, w.run = built.DigestOf(first.Data), a.Run
	w.at.Store(&a.Run)
	return nil
}

// piece gets a part of a file.
func (w *worker) piece(ctx context.Context, a blobRequest) (data []byte, err error) {
	a.Length = MaxPiece
	var p piece
	data, err = w.ask(ctx, "blob", pack(a), &p, &p.refusal)
	if err == nil && p.Rejoin {
		err = ErrRunEnded
	}
	return data, err
}

// tree finds the place of a tree, and gets what is missing of it.
func (w *worker) tree(ctx context.Context, t *Tree) (string, error) {
	return cache{w.o.Cache}.place(t, w.o.LocalPaths, func(f File, to string) error {
		l := flock.New(to + ".lock") // workers of one machine fetch a file once
		if err := l.Lock(); err != nil {
			return err
		}
		defer l.Close()
		if _, err := os.Stat(to); err == nil {
			return nil
		}
		w.o.Say(fmt.Sprintf("fetching %s of %s, %.1f MB", filepath.Base(cmp.Or(f.Path, t.Base)), t.Name,
			float64(f.Size)/1e6))
		return fetched(f, to, func(offset int64) ([]byte, error) {
			return w.piece(ctx, blobRequest{SHA256: f.SHA256, Offset: offset})
		})
	})
}

// killed asks the test whether the process ends here.
func (w *worker) killed(op string) error {
	if w.o.fault(op) {
		w.dead.Store(true)
		w.end(errKilled)
		w.conn.Close()
		return errKilled
	}
	return nil
}

// one works for a run until it is over.
func (w *worker) one(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.stop.Store(&cancel)
	err := w.join(ctx, true)
	if err == nil {
		err = w.pull(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return err
}

// renew shows the hub that this worker lives, which keeps its jobs.
func (w *worker) renew(ctx context.Context) {
	every := max(w.lease/6, 20*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if t, ok := w.heartbeat(ctx, every); ok && t.Rejoin {
			_ = w.join(ctx, false) // the hub began again; a result will report what is wrong
		}
	}
}

// heartbeat shows the hub that this worker lives, and returns its answer.
func (w *worker) heartbeat(ctx context.Context, patience time.Duration) (t ack, ok bool) {
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := w.conn.RequestWithContext(once, subject(w.id, "done."+w.key),
		pack(done{Job: job{Run: w.run}}))
	if err == nil {
		_, err = unpack(m.Data, &t)
	}
	if err != nil {
		return ack{}, false
	}
	w.touch()
	if t.Error == "" && !t.Rejoin && !t.Busy {
		w.note(t.Jobs)
	}
	return t, true
}
