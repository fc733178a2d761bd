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
	// Name is 1 to 64 of A-Z a-z 0-9 . _ -. "" makes one of the host's name.
	Name string

	// Cache is a directory that keeps files by their hash. "" is for a worker whose Build needs no
	// files.
	Cache string

	// LocalPaths are places that may have what a run needs.
	LocalPaths []string

	// Patience is the time without a hub after which the worker ends. 0 is 10 minutes.
	Patience time.Duration

	Info Info

	// Say gets messages. It may be nil.
	Say func(line string)

	// Build makes a Setup from what the hub sent.
	Build func(ctx context.Context, s Source) (Setup, error)

	// natsOptions and key, of its connection, are those of the hub's own worker.
	natsOptions []nats.Option
	key         string

	// now is time.Now where it is nil.
	now clock
}

const defaultPatience = 10 * time.Minute

// ErrRunEnded ends a job of a run that is over.
var ErrRunEnded = errors.New("the run is over")

// errNoRunLeft ends a worker when no further run comes.
var errNoRunLeft = errors.New("no run is left")

// refusedError is the error of a worker that the hub does not want.
func refusedError(why string) error { return errors.New("the hub refuses this worker: " + why) }

// worker makes outputs for a hub.
type worker struct {
	o    WorkerOptions
	id   string // of the fleet
	conn *nats.Conn

	// key is that of the connection.
	key string

	// mu is held while the worker joins, and guards the fields that joining sets.
	mu sync.Mutex

	// run is the key of the run that setup is of, "" before the first.
	run   string
	setup Setup

	// firstDigest is that of the run's first output, which took firstSeconds to make.
	firstDigest  string
	firstSeconds float64

	// lease is the time after which the hub gives this worker's jobs to others, unless it hears of
	// it.
	lease time.Duration

	// jobLimit is how many jobs to take at once.
	jobLimit atomic.Int64

	// held has the first outputs of the jobs that were taken and not handed in.
	held sync.Map

	// stopRun ends the work for a run.
	stopRun atomic.Pointer[context.CancelCauseFunc]

	// lastHeard is when the hub answered last.
	lastHeard atomic.Pointer[time.Time]

	// currentRun is run, for readers that do not hold mu.
	currentRun atomic.Pointer[string]
}

// Work joins the hub of a join line and makes outputs until the hub reports that all are done. An
// error is that of a hub that cannot be reached for o.Patience, of another version of the program,
// or of a run that fails.
func Work(ctx context.Context, j JoinLine, o WorkerOptions) error {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Name = cmp.Or(o.Name, machineName())
	if !validName.MatchString(o.Name) {
		return fmt.Errorf("worker's name is %q, want 1 to 64 of A-Z a-z 0-9 . _ -", o.Name)
	}
	if o.Name == ownName && o.key == "" {
		return fmt.Errorf("worker's name is %s, want another: it is that of the hub's own", ownName)
	}

	w := &worker{o: o, id: j.ID, key: cmp.Or(o.key, randomHex(keyBytes))}
	w.setJobLimit(1)
	w.markHeard()
	if err := w.connect(ctx, j); err != nil {
		return err
	}
	defer w.conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err := w.conn.Subscribe(subject(j.ID, "over"), func(m *nats.Msg) { w.onOver(m, cancel) })
	if err != nil {
		return err
	}
	for {
		err := w.workOnce(ctx)
		switch {
		case errors.Is(err, errNoRunLeft):
			return nil
		case errors.Is(err, ErrRunEnded): // a hub may have several runs, one after the other
			continue
		case err != nil:
			return err
		}
	}
}

// onOver receives the message that a run is over, or that no run follows, which ends the worker by
// cancel.
func (w *worker) onOver(m *nats.Msg, cancel context.CancelCauseFunc) {
	var message overMessage
	if _, err := unpack(m.Data, &message); err != nil {
		return
	}
	w.markHeard()
	if message.Last {
		cancel(errNoRunLeft)
		return
	}
	if run := w.currentRun.Load(); run != nil && *run == message.Run {
		w.endRun(ErrRunEnded)
	}
}

// endRun ends the work for a run.
func (w *worker) endRun(why error) {
	if stop := w.stopRun.Load(); stop != nil {
		(*stop)(why)
	}
}

// machineName makes a worker's name from the host's. Its random end keeps the workers of one
// machine apart.
func machineName() string {
	host, _ := os.Hostname()
	name := []byte(host)
	for i, c := range name {
		if !validName.Match([]byte{c}) {
			name[i] = '-'
		}
	}
	return string(name[:min(len(name), 40)]) + "-" + randomHex(4)
}

// connect connects, and waits for the hub as long as Patience allows.
func (w *worker) connect(ctx context.Context, j JoinLine) error {
	options := append(connectionOptions(), nats.Name(w.o.Name), nats.IgnoreAuthErrorAbort(),
		nats.CustomInboxPrefix(inbox(j.ID, w.key)))
	address := j.URL
	switch {
	case w.o.natsOptions != nil:
		address = ""
		options = append(options, w.o.natsOptions...)
	case j.URL == "":
		address = "nats://" + j.Host
		options = append(options, nats.UserInfo(w.key, j.Token))
		if j.Cert != "" {
			options = append(options, nats.Secure(pinCertificate(j.Cert, w.o.now)))
		}
	}
	for {
		var err error
		w.conn, err = nats.Connect(address, options...)
		if err == nil {
			return nil
		}
		if errors.Is(err, nats.ErrAuthorization) {
			return refusedError("the token is not the hub's")
		}
		if errors.Is(err, errCertificate) {
			return refusedError(errCertificate.Error())
		}
		if err := w.waitAfter(ctx, err, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// markHeard records that the hub has answered.
func (w *worker) markHeard() {
	now := w.o.now()
	w.lastHeard.Store(&now)
}

// waitAfter waits for a pause after an error of the network. It returns an error when the hub has
// been silent for too long.
func (w *worker) waitAfter(ctx context.Context, networkErr error, pause time.Duration) error {
	if silent := w.o.now.since(*w.lastHeard.Load()); silent > w.o.Patience {
		if errors.Is(networkErr, nats.ErrReconnectBufExceeded) {
			networkErr = errors.New("there is no connection")
		}
		return fmt.Errorf("the hub is silent for %s: %w", silent.Round(time.Second), networkErr)
	}
	if w.conn != nil && w.conn.IsClosed() {
		return cmp.Or(w.conn.LastError(), nats.ErrConnectionClosed)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// request sends a message until it is answered. It decodes the reply's header into reply, of which
// r is the part that says no, and returns the bytes after the header.
//
// A message may arrive twice, where its answer was lost. That does no harm: joining again changes
// nothing, an output that the hub has counts as a duplicate, and a wish names the jobs that the
// worker holds. So neither side keeps numbers of messages.
func (w *worker) request(ctx context.Context, name string, message []byte, reply any,
	r *refusal) ([]byte, error) {
	pause := 50 * time.Millisecond
	for {
		// Several attempts fit into the usual lease, so that one lost message costs no jobs.
		attempt, cancel := context.WithTimeout(ctx, max(2*time.Second, w.lease/4))
		m, err := w.conn.RequestWithContext(attempt, subject(w.id, name+"."+w.key), message)
		cancel()
		if errors.Is(err, nats.ErrMaxPayload) {
			return nil, fmt.Errorf("a message of %d bytes is more than NATS takes, %d", len(message),
				w.conn.MaxPayload())
		}
		if err == nil {
			w.markHeard()
			data, err := unpack(m.Data, reply)
			if err != nil {
				return nil, err
			}
			if r.Error != "" {
				return nil, refusedError(r.Error)
			}
			if !r.Busy {
				return data, nil
			}
		}

		if err == nil {
			err = errors.New("the hub is busy")
			*r = refusal{} // the next reply is decoded over it
		}
		if err := w.waitAfter(ctx, err, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// join asks what the run is, makes its first output and shows it. What is known of the run is not
// made again. Without allowNew, another run than the one that is known is ErrRunEnded.
//
// The first output is the proof that this machine computes the hub's bytes: versions and settings
// may be equal and a processor or a driver still differ, and only equal bytes show that none does.
func (w *worker) join(ctx context.Context, allowNew bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	request := joinRequest{
		Protocol: protocol,
		Worker:   w.o.Name,
		Build:    w.o.Info.Build,
		Go:       w.o.Info.Go,
		Platform: w.o.Info.Platform,
	}
	var reply joinReply
	if _, err := w.request(ctx, "hello", pack(request), &reply, &reply.refusal); err != nil {
		return err
	}
	if reply.Run != w.run {
		if !allowNew {
			return ErrRunEnded
		}
		if err := w.setUp(ctx, reply); err != nil {
			return err
		}
	}

	request.Run = reply.Run
	request.Settings = w.setup.Settings
	request.Device = cmp.Or(w.setup.Device, w.o.Info.Device)
	request.Digest = w.firstDigest
	request.Seconds = w.firstSeconds
	reply = joinReply{}
	if _, err := w.request(ctx, "hello", pack(request), &reply, &reply.refusal); err != nil {
		return err
	}
	if reply.Run != w.run { // another began meanwhile
		return ErrRunEnded
	}
	w.setJobLimit(reply.Jobs)
	return nil
}

// setJobLimit sets how many jobs the hub lets this worker take at once.
func (w *worker) setJobLimit(jobs int) { w.jobLimit.Store(int64(max(1, jobs))) }

// setUp makes the Setup of a run and its first output.
func (w *worker) setUp(ctx context.Context, reply joinReply) error {
	p, err := w.fetchPlan(ctx, reply)
	if err != nil {
		return err
	}
	if w.o.Cache == "" { // the hub's own worker has the files that the hub sends
		p.Trees = nil
	}
	source := Source{Spec: p.Spec, Trees: map[string]string{}}
	for _, t := range p.Trees {
		source.Trees[t.Name], err = w.placeTree(ctx, &t)
		if err != nil {
			return err
		}
	}
	setup, err := w.o.Build(ctx, source)
	if err != nil {
		return err
	}
	first, seconds, err := setup.Maker.makeFirst(ctx, w.o.now)
	if err != nil {
		return err
	}

	w.setup = setup
	w.firstDigest = setup.DigestOf(first.Data)
	w.firstSeconds = seconds
	w.lease = time.Duration(reply.Lease)
	w.run = reply.Run
	w.currentRun.Store(&reply.Run)
	return nil
}

// fetchPlan gets the plan of a run.
func (w *worker) fetchPlan(ctx context.Context, reply joinReply) (p plan, err error) {
	if reply.Size < 0 || reply.Size > maxSpec {
		return p, fmt.Errorf("the hub's plan is %d bytes, want at most %d", reply.Size, maxSpec)
	}
	var data []byte
	for int64(len(data)) < reply.Size {
		piece, err := w.fetchPiece(ctx, reply.Spec, int64(len(data)))
		if err != nil {
			return p, err
		}
		if len(piece) == 0 {
			return p, errors.New("the hub sends an empty piece")
		}
		data = append(data, piece...)
	}
	if digest(data) != reply.Spec {
		return p, errors.New("the hub's plan is not what it says")
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("the hub's plan: %w", err)
	}
	return p, nil
}

// fetchPiece gets a piece of a file, which is known by its SHA-256.
func (w *worker) fetchPiece(ctx context.Context, sha256 string, offset int64) ([]byte, error) {
	request := blobRequest{SHA256: sha256, Offset: offset, Length: MaxPiece}
	var header pieceHeader
	data, err := w.request(ctx, "blob", pack(request), &header, &header.refusal)
	if err != nil {
		return data, err
	}
	if header.Rejoin {
		return data, ErrRunEnded
	}
	return data, nil
}

// placeTree finds the place of a tree, and gets what is missing of it.
func (w *worker) placeTree(ctx context.Context, t *Tree) (string, error) {
	return cache{w.o.Cache}.place(t, w.o.LocalPaths, func(f File, target string) error {
		l := flock.New(target + ".lock") // workers of one machine fetch a file once
		if err := l.Lock(); err != nil {
			return err
		}
		defer l.Close()
		if _, err := os.Stat(target); err == nil {
			return nil
		}
		w.o.Say(fmt.Sprintf("fetching %s of %s, %.1f MB", filepath.Base(cmp.Or(f.Path, t.Base)),
			t.Name, float64(f.Size)/1e6))
		return fetchFile(f, target, func(offset int64) ([]byte, error) {
			return w.fetchPiece(ctx, f.SHA256, offset)
		})
	})
}

// workOnce works for a run until it is over.
func (w *worker) workOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.stopRun.Store(&cancel)
	err := w.join(ctx, true)
	if err == nil {
		err = w.pullJobs(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// renewLease shows the hub again and again that this worker lives, which keeps its jobs. Results
// alone would not do: an output may take longer than a lease.
func (w *worker) renewLease(ctx context.Context) {
	interval := max(w.lease/6, 20*time.Millisecond)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if reply, ok := w.sendHeartbeat(ctx, interval); ok && reply.Rejoin {
			_ = w.join(ctx, false) // the hub began again; a result will report what is wrong
		}
	}
}

// sendHeartbeat shows the hub that this worker lives, and returns its reply; ok is false where
// there is none in time.
func (w *worker) sendHeartbeat(ctx context.Context, timeout time.Duration) (reply ack, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := w.conn.RequestWithContext(ctx, subject(w.id, "done."+w.key),
		pack(result{Job: job{Run: w.run}}))
	if err != nil {
		return ack{}, false
	}
	if _, err := unpack(m.Data, &reply); err != nil {
		return ack{}, false
	}
	w.markHeard()
	if reply.Error == "" && !reply.Rejoin && !reply.Busy {
		w.setJobLimit(reply.Jobs)
	}
	return reply, true
}
