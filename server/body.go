package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"unmask/internal/jsonline"
	"unmask/internal/turns"
	"unmask/param"
)

// maxJSON bounds a body of JSON, in bytes, on routes that say nothing else.
const maxJSON = 1 << 20

// readBody reads a JSON object. The bytes of large bodies are counted with those of forms.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	memory := s.bodies
	limit := int64(maxJSON)
	if m := notesOf(r).route.maxBody; m > 0 {
		memory = s.forms
		limit = m
	}
	return s.readInTurn(r, memory, limit, func() (*fields, *Fault) {
		if f := checkContent(r, jsonType); f != nil {
			return nil, f
		}
		body, f := s.readBytes(w, r, limit)
		if f != nil {
			return nil, f
		}
		return s.parseBody(r, body)
	})
}

// bodyLimits bound the JSON of a body: what is made of a name or a value is many times as long as
// the few bytes that stand for it. An object of 1 MiB has about as many different names as are
// allowed, and the most texts to embed that a request may have as many token ids.
var bodyLimits = jsonline.Limits{
	Depth:  jsonline.MaxDepth,
	Names:  1 << 17,
	Values: 1 << 21,
}

// parseBody reads the fields of a body. Of large bodies one is parsed at a time, keys in turn. It
// ends when the client leaves.
func (s *Server) parseBody(r *http.Request, body []byte) (*fields, *Fault) {
	if len(body) > smallBody {
		giveBack, err := s.parsing.Take(r.Context(), keyName(r), 1)
		if err != nil {
			return nil, cancelledFault()
		}
		defer giveBack()
	}
	object, err := bodyLimits.ReadObject(r.Context(), body)
	if e, ok := errors.AsType[*jsonline.Error](err); ok {
		if e.Kind != jsonline.NotUTF8 {
			return nil, fieldFault(jsonCodes[e.Kind], e.Name, "%s", e.Message)
		}
		place := jsonline.PlaceOf(body, e.Offset)
		if place == "" {
			return nil, fieldFault(jsonCodes[e.Kind], "", "%s", e.Message)
		}
		return nil, fieldFault(jsonCodes[e.Kind], place, "%s: %s", place, e.Message)
	}
	if err != nil {
		return nil, cancelledFault()
	}
	return &fields{object: object}, nil
}

// cancelledFault is the fault of a request whose client left while its body was read.
func cancelledFault() *Fault {
	return fieldFault("invalid_body", "", "the request was cancelled")
}

// smallBody is the size of bodies that are read without a turn.
const smallBody = 64 << 10

// readInTurn reads a body of at most limit bytes when there is memory for it beside those of other
// requests. The memory is taken until the fields are released.
func (s *Server) readInTurn(r *http.Request, memory *turns.Turns, limit int64,
	read func() (*fields, *Fault)) (*fields, *Fault) {
	release := func() {}
	size := r.ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	if size > smallBody {
		giveBack, err := memory.Take(r.Context(), keyName(r), size)
		if err != nil {
			return nil, cancelledFault()
		}
		release = sync.OnceFunc(giveBack)
	}
	f, fault := read()
	if fault != nil {
		release()
		return nil, fault
	}
	f.release = release
	return f, nil
}

// checkContent refuses a body of another content type, or one that is compressed.
func checkContent(r *http.Request, want string) *Fault {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return newFault(http.StatusUnsupportedMediaType, "unsupported_encoding",
			"content encoding is %s, want none", param.Quote(e))
	}
	if notesOf(r).dialect.takesAnyType {
		return nil
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(contentType), want) {
		return newFault(http.StatusUnsupportedMediaType, "content_type",
			"content type is %s, want %s", param.Quote(contentType), want)
	}
	return nil
}

// readBytes reads a body of at most limit bytes, within its time.
func (s *Server) readBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *Fault) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.timeouts.body))
	var body bytes.Buffer
	if size := r.ContentLength; size > 0 && size <= limit {
		body.Grow(int(size) + bytes.MinRead) // once, where growing would leave copies behind
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if errors.As(err, new(*http.MaxBytesError)) {
		// A client that still writes would see a reset connection in the place of the fault.
		_, _ = io.CopyN(io.Discard, r.Body, maxForm)
	}
	if err != nil {
		return nil, s.bodyFault(err, limit)
	}
	_ = control.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// bodyFault is the fault of a body that cannot be read.
func (s *Server) bodyFault(err error, limit int64) *Fault {
	var f *Fault
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		f = newFault(http.StatusRequestEntityTooLarge, "body_too_large",
			"the body has more than %d bytes, want at most that", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = newFault(http.StatusRequestTimeout, "body_timeout",
			"the body took more than %.0f seconds, want at most that", s.timeouts.body.Seconds())
	default:
		f = fieldFault("invalid_body", "", "the body ends early")
	}
	f.closes = true
	return f
}
