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

// requestNotes collect what handlers need to know of a request beside its fields, and what the log
// records of it at its end.
type requestNotes struct {
	id      string
	route   route
	dialect *dialect

	// key is the name of the client's key, "" without keys.
	key string

	// rows and call are those of the sequences that the request makes.
	rows int64
	call *call

	// clientGone reports whether the client went before its answer ended.
	clientGone bool
}

// notesKey is the context key of a request's notes.
type notesKey struct{}

// notesOf returns the notes of a request.
func notesOf(r *http.Request) *requestNotes {
	if n, ok := r.Context().Value(notesKey{}).(*requestNotes); ok {
		return n
	}
	return &requestNotes{dialect: openAI}
}

// keyName returns the name of the key of a request, "" without keys.
func keyName(r *http.Request) string { return notesOf(r).key }

// requestID matches the ids that a client may give its request. Others could break a line of the
// log.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// probes are paths that a probe asks by any name of the host.
var probes = []string{"/healthz", "/readyz", "/health"}

// guard gives every request an id and its route, checks its host and origin, logs it and counts it.
func (s *Server) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		notes := &requestNotes{id: r.Header.Get("X-Request-Id")}
		if !requestID.MatchString(notes.id) {
			notes.id = rand.Text()
		}
		found, next := s.findRoute(mux, r)
		notes.route = route{pattern: "unknown", maxBody: found.maxBody}
		notes.dialect = found.dialect
		if notes.dialect == nil {
			notes.dialect = openAI
			if r.Header.Get("Anthropic-Version") != "" { // on a route that several APIs have
				notes.dialect = anthropic
			}
		}
		r = r.WithContext(context.WithValue(r.Context(), notesKey{}, notes))

		h := w.Header()
		h.Set("X-Request-Id", notes.id)
		h.Set("Request-Id", notes.id) // as Anthropic's clients read it
		h.Set("X-Content-Type-Options", "nosniff")
		// The connection may have the deadline of the request before.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})

		out := &statusWriter{ResponseWriter: w, dialect: notes.dialect}
		defer func() {
			failure := recover()
			if failure != nil && failure != http.ErrAbortHandler && out.status == 0 {
				newFault(http.StatusInternalServerError, "internal", "the request failed").write(out)
			}
			s.logRequest(r, notes, out, began, failure)
			if failure == http.ErrAbortHandler {
				panic(failure)
			}
		}()

		if !slices.Contains(probes, r.URL.Path) {
			if f := s.origins.check(r); f != nil {
				f.write(out)
				return
			}
		}
		if s.origins.allowOrigin(out, r) {
			notes.route = route{pattern: "preflight"}
			return
		}
		notes.route = found
		next.ServeHTTP(out, r)
	})
}

// logRequest writes a line of a request, without any of its text, and counts it.
func (s *Server) logRequest(r *http.Request, notes *requestNotes, w *statusWriter, began time.Time,
	failure any) {
	status := cmp.Or(w.status, http.StatusOK)
	if notes.clientGone {
		status = statusGone
	}
	took := time.Since(began)
	s.stats.countRequest(notes.route.pattern, strconv.Itoa(status), took)

	args := []any{"id", notes.id, "route", notes.route.pattern, "method", r.Method, "status", status,
		"ms", took.Milliseconds()}
	if notes.key != "" {
		args = append(args, "key", notes.key)
	}
	if notes.call != nil {
		waited, ran := notes.call.Times()
		args = append(args, "rows", notes.rows, "steps", notes.call.sequences[0].Steps, "queue_ms",
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

// statusWriter is a ResponseWriter that knows its status, and the dialect of its faults.
type statusWriter struct {
	http.ResponseWriter
	dialect *dialect

	// status is 0 before the header is written.
	status int
}

// WriteHeader records the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find deadlines and flushing.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
