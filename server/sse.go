package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"unmask/server/engine"
)

// times are the limits on waiting for a client.
type times struct {
	header time.Duration // to send a request's header
	body   time.Duration // and its body
	idle   time.Duration // between requests of a connection
	beat   time.Duration // of a stream, between comments while nothing else is sent
	write  time.Duration // a reader that takes nothing for as long is gone
	stall  time.Duration // while a call waits and no pass ends, before /readyz is stalled
}

var usualTimes = times{header: 5 * time.Second, body: 30 * time.Second, idle: 120 * time.Second,
	beat: 10 * time.Second, write: 30 * time.Second, stall: 60 * time.Second}

// stream writes server-sent events. Its header goes out with the first of them.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	ctx   context.Context
	begun bool
	fresh bool // something is to be flushed
	times times
	kind  string // Content-Type
	beat  string // what is sent while nothing else comes
}

func (s *Server) newStream(w http.ResponseWriter, r *http.Request) *stream {
	d := dialectOf(r)
	return &stream{w: w, rc: http.NewResponseController(w), ctx: r.Context(),
		times: s.times, kind: d.stream, beat: d.beat}
}

// begin sends the header.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", s.kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
}

// send writes one event. name and id may be "".
func (s *stream) send(name, id string, data []byte) error {
	var b strings.Builder
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "data: %s\n\n", data)
	return s.write(b.String())
}

func (s *stream) write(text string) error {
	s.begin()
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.times.write)) // where the connection has deadlines
	s.fresh = true
	_, err := s.w.Write([]byte(text))
	return err
}

// flush sends what was written.
func (s *stream) flush() error {
	if !s.fresh {
		return nil
	}
	s.fresh = false
	return s.rc.Flush()
}

// finish ends the stream of a call's steps, which ended with err: a Fault is for the client, any
// other error is of the connection and is returned. end writes the end of the stream, with the
// answer or with why there is none. A fault before the first event is an answer of its own.
func (s *stream) finish(made *call, err error, end func(a *answer, f *Fault) error) error {
	f, ok := err.(*Fault)
	if err != nil && !ok {
		return err
	}
	var a *answer
	if !ok {
		a, f = resultOf(made.Call)
	}
	if f != nil && !s.begun {
		f.write(s.w)
		return nil
	}
	if err := end(a, f); err != nil {
		return err
	}
	return s.flush()
}

// frame is the least time between two writes of steps, and a millisecond more for each watcher of
// the call. Quicker steps go out together: many watchers would otherwise wake so often that a small
// model's passes wait for them.
const frame = 16 * time.Millisecond

// pause waits for a frame, for the end of the call, or until the client goes.
func (s *stream) pause(made *call) {
	timer := time.NewTimer(frame + time.Duration(made.Watchers())*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-made.Finished():
	case <-s.ctx.Done():
	}
}

// follow hands over the steps of a call as they come, until the call is done.
// The error is that of each, or the context's where the client went.
func (s *stream) follow(made *call, each func(n int, e engine.Event) error) error {
	ticker := time.NewTicker(s.times.beat)
	defer ticker.Stop()
	for from := 0; ; {
		events, done, changed := made.EventsFrom(from)
		if made.DroppedEvents() {
			return fault(http.StatusInternalServerError, "too_many_steps",
				"the steps take more than %d bytes, want a request without stream", engine.MaxEventBytes)
		}
		for i := range events {
			if err := each(from+i+1, events[i]); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
		if from += len(events); done {
			return nil
		}
		if len(events) > 0 {
			s.pause(made)
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-changed:
		case <-ticker.C:
			if err := s.write(s.beat); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}
