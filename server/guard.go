package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// noted collects what the log records of a request at its end.
type noted struct {
	id    string
	route string
	key   string // the name of the client's
	rows  int64
	call  *call
	gone  bool // the client went
}

// noteKey is the context key of a request's notes.
type noteKey struct{}

// note returns the notes of a request.
func note(r *http.Request) *noted {
	if n, ok := r.Context().Value(noteKey{}).(*noted); ok {
		return n
	}
	return &noted{}
}

// keyName returns the name of the key of a request, "" without keys.
func keyName(r *http.Request) string { return note(r).key }

// requestID matches the ids that a client may give its request.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// probes are paths that a probe asks by any name of the host.
var probes = []string{"/healthz", "/readyz", "/health"}

// guarded gives every request an id, checks its host and origin, logs it and counts it.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := &noted{id: r.Header.Get("X-Request-Id"), route: "unknown"}
		if !requestID.MatchString(n.id) {
			n.id = rand.Text()
		}
		r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
		h := w.Header()
		h.Set("X-Request-Id", n.id)
		h.Set("Request-Id", n.id) // as Anthropic's clients read it
		h.Set("X-Content-Type-Options", "nosniff")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of the request before
		counted := &counting{ResponseWriter: w, dialect: dialectOf(r)}
		began := time.Now()
		defer func() {
			failure := recover()
			if failure != nil && failure != http.ErrAbortHandler && counted.status == 0 {
				fault(http.StatusInternalServerError, "internal", "the request failed").write(counted)
			}
			s.logged(r, n, counted, began, failure)
			if failure == http.ErrAbortHandler {
				panic(failure)
			}
		}()
		if !slices.Contains(probes, r.URL.Path) {
			if f := s.origins.check(r); f != nil {
				f.write(counted)
				return
			}
		}
		if s.origins.share(counted, r) {
			n.route = "preflight"
			return
		}
		next.ServeHTTP(counted, r)
	})
}

// logged writes a line of a request, without any of its text, and counts it.
func (s *Server) logged(r *http.Request, n *noted, w *counting, began time.Time, failure any) {
	status := cmp.Or(w.status, http.StatusOK)
	if n.gone {
		status = statusGone
	}
	took := time.Since(began)
	s.stats.request(n.route, strconv.Itoa(status), took)
	args := []any{"id", n.id, "route", n.route, "method", r.Method, "status", status, "ms",
		took.Milliseconds()}
	if n.key != "" {
		args = append(args, "key", n.key)
	}
	if n.call != nil {
		waited, ran := n.call.Times()
		args = append(args, "rows", n.rows, "steps", n.call.sequences[0].Steps, "queue_ms",
			waited.Milliseconds(), "run_ms", ran.Milliseconds())
	}
	if t := r.Header.Get("Traceparent"); traceparent.MatchString(t) {
		args = append(args, "traceparent", t)
	}
	if failure != nil {
		args = append(args, "panic", strings.Join(strings.Fields(fmt.Sprint(failure)), " "))
	}
	s.o.Log.Info("request", args...)
}

// traceparent is the header of W3C's Trace Context.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// counting is a ResponseWriter that knows its status, and the dialect of its faults.
type counting struct {
	http.ResponseWriter
	dialect *dialect
	status  int
}

// WriteHeader notes the status.
func (c *counting) WriteHeader(status int) {
	c.status = cmp.Or(c.status, status)
	c.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	c.status = cmp.Or(c.status, http.StatusOK)
	return c.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find deadlines and flushing.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
