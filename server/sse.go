package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"unmask/server/engine"
)

// timeouts are the limits on waiting for a client.
type timeouts struct {
	// header and body are the times to send these parts of a request.
	header time.Duration
	body   time.Duration

	// idle is the time between requests of a connection.
	idle time.Duration

	// heartbeat is the time after which a stream sends something while nothing else is sent.
	heartbeat time.Duration

	// write is the time after which a client that reads nothing is given up.
	write time.Duration

	// stall is the time in which no pass ends while a call waits, before /readyz is stalled.
	stall time.Duration
}

var defaultTimeouts = timeouts{
	header:    5 * time.Second,
	body:      30 * time.Second,
	idle:      120 * time.Second,
	heartbeat: 10 * time.Second,
	write:     30 * time.Second,
	stall:     60 * time.Second,
}

// stream writes server-sent events, or the lines of other streams. Its header goes out with the
// first of them, so that a fault before it can still be an answer with a status of its own.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	ctx      context.Context
	timeouts timeouts

	// contentType and heartbeat are those of the dialect.
	contentType string
	heartbeat   string

	// hasBegun reports whether the header was sent.
	hasBegun bool

	// hasUnflushed reports whether something was written that was not flushed.
	hasUnflushed bool
}

// newStream returns the stream of a request, in the dialect of its route.
func (s *Server) newStream(w http.ResponseWriter, r *http.Request) *stream {
	d := notesOf(r).dialect
	return &stream{w: w, control: http.NewResponseController(w), ctx: r.Context(),
		timeouts: s.timeouts, contentType: d.streamType, heartbeat: d.heartbeat}
}

// sendHeader sends the header, once.
func (s *stream) sendHeader() {
	if s.hasBegun {
		return
	}
	s.hasBegun = true
	h := s.w.Header()
	h.Set("Content-Type", s.contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	s.w.WriteHeader(http.StatusOK)
}

// sendEvent writes one server-sent event. name and id may be "".
func (s *stream) sendEvent(name, id string, data []byte) error {
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

// write writes text, which flush sends.
func (s *stream) write(text string) error {
	s.sendHeader()
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeouts.write)) // tests' writers have none
	s.hasUnflushed = true
	_, err := s.w.Write([]byte(text))
	return err
}

// flush sends what was written.
func (s *stream) flush() error {
	if !s.hasUnflushed {
		return nil
	}
	s.hasUnflushed = false
	return s.control.Flush()
}

// finish ends the stream of a call's steps, which ended with err: a *Fault is for the client, any
// other error is of the connection and is returned. writeEnd writes the end of the stream, with the
// answer or with why there is none. A fault before the first event is an answer of its own.
func (s *stream) finish(c *call, err error, writeEnd func(a *answer, f *Fault) error) error {
	f, isFault := err.(*Fault)
	if err != nil && !isFault {
		return err
	}
	var a *answer
	if !isFault {
		a, f = callResult(c.Call)
	}
	if f != nil && !s.hasBegun {
		f.write(s.w)
		return nil
	}
	if err := writeEnd(a, f); err != nil {
		return err
	}
	return s.flush()
}

// frame is the least time between two writes of steps, and a millisecond more for each watcher of
// the call. Quicker steps go out together: many watchers would otherwise wake so often that a small
// model's passes wait for them.
const frame = 16 * time.Millisecond

// waitFrame waits for a frame, for the end of the call, or until the client goes.
func (s *stream) waitFrame(c *call) {
	timer := time.NewTimer(frame + time.Duration(c.Watchers())*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Finished():
	case <-s.ctx.Done():
	}
}

// follow hands the steps of a call to handle as they come, until the call is done. n counts them
// from 1. The error is that of handle, or the context's where the client went.
func (s *stream) follow(c *call, handle func(n int, e engine.Event) error) error {
	ticker := time.NewTicker(s.timeouts.heartbeat)
	defer ticker.Stop()
	handled := 0
	for {
		events, done, changed := c.EventsFrom(handled)
		if c.DroppedEvents() {
			return newFault(http.StatusInternalServerError, "too_many_steps",
				"the steps take more than %d bytes, want a request without stream",
				engine.MaxEventBytes)
		}
		for i := range events {
			if err := handle(handled+i+1, events[i]); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
		handled += len(events)
		if done {
			return nil
		}

		if len(events) > 0 {
			s.waitFrame(c)
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-changed:
		case <-ticker.C:
			if err := s.write(s.heartbeat); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}
