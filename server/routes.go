package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"unmask/decide"
	"unmask/internal/jsonline"
	"unmask/internal/turns"
	"unmask/model"
	"unmask/param"
	"unmask/server/engine"
)

// Bounds of a request.
const (
	maxBody  = 1 << 20 // of JSON; lists of texts to embed have maxForm
	jsonType = "application/json"
)

// handler answers a request, or returns why not before anything was sent.
type handler func(w http.ResponseWriter, r *http.Request) *Fault

// route is a path with what its methods do.
type route struct {
	pattern string
	methods map[string]handler
	open    bool // without a key
}

// routes returns all routes of the public listener.
func (s *Server) routes() []route {
	get := func(h handler) map[string]handler {
		return map[string]handler{http.MethodGet: h, http.MethodHead: h}
	}
	post := func(h handler) map[string]handler { return map[string]handler{http.MethodPost: h} }
	list := []route{
		{pattern: "/v1/models", methods: get(value(s.listModels))},
		{pattern: "/v1/models/{id}", methods: get(value(s.oneModel))},
		{pattern: "/v1/completions", methods: post(s.withJSON(s.completing))},
		{pattern: "/v1/systemone", methods: post(s.withJSON(s.systemOne))},
		{pattern: "/v1/decisions", methods: post(s.withJSON(s.decisions))},
		{pattern: "/v1/embeddings", methods: post(s.withJSON(s.embeddings))},
		{pattern: "/v1/chat/completions", methods: post(s.generating(s.chats))},
		{pattern: "/v1/responses", methods: post(s.generating(s.responses))},
		{pattern: "/v1/responses/{id}", methods: get(s.oneResponse)},
		{pattern: "/api/chat", methods: post(s.generating(s.ollamaChat))},
		{pattern: "/api/generate", methods: post(s.generating(s.ollamaGenerate))},
		{pattern: "/api/embed", methods: post(s.withJSON(s.ollamaEmbed))},
		{pattern: "/api/embeddings", methods: post(s.withJSON(s.ollamaEmbed))},
		{pattern: "/api/tags", methods: get(value(s.ollamaTags))},
		{pattern: "/api/ps", methods: get(value(s.ollamaTags))},
		{pattern: "/api/show", methods: post(s.immediate(s.ollamaShow))},
		{pattern: "/api/version", methods: get(always("version", ollamaVersion))},
		{pattern: "/v1/messages", methods: post(s.generating(s.messagesRoute))},
		{pattern: "/v1/messages/count_tokens", methods: post(s.generating(s.countTokens))},
		{pattern: "/infill", methods: post(s.generating(s.ofModel(wantsText, s.editor)))},
		{pattern: "/v1/infill", methods: post(s.generating(s.ofModel(wantsText, s.infill)))},
		{pattern: "/v1/images/generations", methods: post(s.generating(s.ofModel(wantsPictures,
			s.generations)))},
		{pattern: "/v1/images/edits", methods: post(s.editing)},
		{pattern: "/v1/images/encode", methods: post(s.encoding)},
		{pattern: "/v1/images/decode", methods: post(s.withJSON(s.decoding))},
		{pattern: "/v1/audio/speech", methods: post(s.withJSON(s.speaks))},
		{pattern: "/v1/audio/voices", methods: get(value(s.listVoices))},
		{pattern: "/v1/tokenize", methods: post(s.immediate(s.tokenizing))},
		{pattern: "/v1/detokenize", methods: post(s.immediate(s.detokenizing))},
		{pattern: "/tokenize", methods: post(s.immediate(s.tokenizingPrompt))},
		{pattern: "/detokenize", methods: post(s.immediate(s.detokenizingPrompt))},
		{pattern: "/tokenizer_info", methods: get(value(s.tokenizerInfo))},
		{pattern: "/v1/results/{key}", methods: get(s.oneResult)},
		{pattern: "/v1/results/{key}/{file}", methods: get(s.oneResult)},
		{pattern: "/v1/samplers", methods: get(value(listSamplers))},
		{pattern: "/healthz", methods: get(always("status", "ok")), open: true},
		{pattern: "/readyz", methods: get(s.ready), open: true},
		{pattern: "/health", methods: get(s.ready), open: true}, // as vLLM and llama.cpp have it
		{pattern: "/version", methods: get(value(s.version))},
	}
	if s.o.Page != nil {
		page := get(func(w http.ResponseWriter, r *http.Request) *Fault {
			s.o.Page.ServeHTTP(w, r)
			return nil
		})
		for _, at := range []string{"/{$}", "/page/", "/openapi.json"} {
			list = append(list, route{pattern: at, methods: page, open: true})
		}
	}
	return list
}

// Handler returns the handler of all public routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, s.handle(r))
	}
	unknown := s.handle(route{pattern: "unknown"})
	mux.Handle("/", unknown)
	return s.guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect to a clean path; here such a path is unknown.
		p := r.URL.Path
		if clean := path.Clean(p); p != clean && p != clean+"/" || strings.Contains(p, "//") ||
			r.URL.RawPath != "" || strings.Contains(r.URL.EscapedPath(), "%") {
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// handle answers the methods of a route.
func (s *Server) handle(at route) http.Handler {
	allowed := sortedKeys(at.methods)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r).route = at.pattern
		var f *Fault
		if !at.open {
			f = s.authorize(r)
		}
		h := at.methods[r.Method]
		switch {
		case f != nil:
		case h != nil:
			f = h(w, r)
		case at.methods == nil:
			f = s.unknownRoute(r.URL.Path)
		default:
			f = fault(http.StatusMethodNotAllowed, "method_not_allowed", "the method is %s, want %s",
				cut(r.Method), param.JoinOr(allowed))
			f.header = [2]string{"Allow", strings.Join(allowed, ", ")}
		}
		if f != nil {
			f.write(w)
		}
	})
}

// unknownRoute is the fault of a path without a route. It names the route of a client whose base
// URL has /v1 where it should not, lacks it, or ends with a slash.
func (s *Server) unknownRoute(asked string) *Fault {
	f := fault(http.StatusNotFound, "unknown_route", "there is no such route")
	clean := path.Clean(asked)
	for _, near := range []string{clean, "/v1" + clean, strings.TrimPrefix(clean, "/v1")} {
		for _, r := range s.routes() {
			if near != asked && r.pattern == near {
				f.Message += ", want " + near
				return f
			}
		}
	}
	return f
}

// readBody reads a JSON object.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*fields, *Fault) {
	among, most := s.bodies, int64(maxBody)
	if strings.Contains(r.URL.Path, "/embed") {
		among, most = s.forms, maxForm
	}
	return s.inTurn(r, among, most, func() (*fields, *Fault) {
		if f := checkContent(r, jsonType); f != nil {
			return nil, f
		}
		body, f := s.readAll(w, r, most)
		if f != nil {
			return nil, f
		}
		object, err := jsonline.ReadObject(body)
		if err != nil {
			e, _ := errors.AsType[*jsonline.Error](err)
			return nil, bad(jsonCodes[e.Kind], e.Name, "%s", e.Message)
		}
		return &fields{object: object}, nil
	})
}

// smallBody is the size of bodies that are read without a turn.
const smallBody = 64 << 10

// inTurn reads a body of at most some bytes when there is memory for it among others. The memory
// is taken until the fields are freed.
func (s *Server) inTurn(r *http.Request, among *turns.Turns, most int64,
	read func() (*fields, *Fault)) (*fields, *Fault) {
	back := func() {}
	bytes := r.ContentLength
	if bytes < 0 || bytes > most {
		bytes = most
	}
	if bytes > smallBody {
		taken, err := among.Take(r.Context(), keyName(r), bytes)
		if err != nil {
			return nil, bad("invalid_body", "", "the request was cancelled")
		}
		back = sync.OnceFunc(taken)
	}
	f, fault := read()
	if fault != nil {
		back()
		return nil, fault
	}
	f.free = back
	return f, nil
}

// checkContent refuses a body of another type, or one that is packed. Ollama's routes, whose
// clients name any type or none, take all.
func checkContent(r *http.Request, want string) *Fault {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fault(http.StatusUnsupportedMediaType, "unsupported_encoding",
			"content encoding is %s, want none", param.Quote(e))
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), want) && !strings.HasPrefix(r.URL.Path, "/api/") {
		return fault(http.StatusUnsupportedMediaType, "content_type", "content type is %s, want %s",
			param.Quote(kind), want)
	}
	return nil
}

// readAll reads a body of at most some bytes, within its time.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *Fault) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.times.body))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if errors.As(err, new(*http.MaxBytesError)) { // else a client that still writes sees a reset
		_, _ = io.CopyN(io.Discard, r.Body, maxForm)
	}
	if err != nil {
		return nil, s.bodyFault(err, most)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// bodyFault is the fault of a body that cannot be read.
func (s *Server) bodyFault(err error, most int64) *Fault {
	var f *Fault
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		f = fault(http.StatusRequestEntityTooLarge, "body_too_large",
			"the body has more than %d bytes, want at most that", most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = fault(http.StatusRequestTimeout, "body_timeout",
			"the body took more than %.0f seconds, want at most that", s.times.body.Seconds())
	default:
		f = bad("invalid_body", "", "the body ends early")
	}
	f.closes = true
	return f
}

// reader reads a request of a route from its fields.
type reader func(r *http.Request, f *fields) (query, streaming)

// ofModel reads requests for a model of a kind, whose fields read takes.
func (s *Server) ofModel(kind wants, read func(r *http.Request, f *fields, m *servedModel) (query,
	streaming)) reader {
	return func(r *http.Request, f *fields) (q query, st streaming) {
		if m := s.model(f, kind); m != nil {
			q, st = read(r, f, m)
		}
		return q, st
	}
}

// withJSON handles requests whose body is a JSON object.
func (s *Server) withJSON(
	h func(w http.ResponseWriter, r *http.Request, f *fields) *Fault) handler {
	return func(w http.ResponseWriter, r *http.Request) *Fault {
		f, fault := s.readBody(w, r)
		if fault != nil {
			return fault
		}
		defer f.free()
		return h(w, r, f)
	}
}

// value handles requests without a body that are answered by a JSON value.
func value(answer func(r *http.Request) (any, *Fault)) handler {
	return func(w http.ResponseWriter, r *http.Request) *Fault {
		value, fault := answer(r)
		if fault == nil {
			writeJSON(w, encode(value))
		}
		return fault
	}
}

// always handles requests whose answer is an object of one text.
func always(name, text string) handler {
	return value(func(*http.Request) (any, *Fault) { return map[string]string{name: text}, nil })
}

// immediate handles requests with a body that are answered at once, by a JSON value.
func (s *Server) immediate(answer func(f *fields) (any, *Fault)) handler {
	return s.withJSON(func(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
		return value(func(*http.Request) (any, *Fault) { return answer(f) })(w, r)
	})
}

// generating handles those for sequences.
func (s *Server) generating(read reader) handler {
	return s.withJSON(func(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
		return s.generate(w, r, f, read)
	})
}

// generate answers a request for sequences.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, f *fields, read reader) *Fault {
	q, st := read(r, f)
	f.free()
	if fault := f.end(); fault != nil {
		return fault
	}
	if q.ready != nil {
		writeJSON(w, q.ready.body)
		return nil
	}
	made, hit, fault := s.begin(q, keyName(r))
	if fault != nil {
		return fault
	}
	defer s.calls.Unwatch(made.Call)
	for _, note := range q.notes {
		w.Header().Add("Unmask-Note", note)
	}
	if hit {
		w.Header().Set("Unmask-Cache", "hit")
	}
	return s.answer(w, r, made, st)
}

// answer sends the answer of a call, or streams it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, made *call, st streaming) *Fault {
	n := note(r)
	n.rows, n.call = made.Rows, made
	if st.form == "" {
		if err := made.Wait(r.Context()); err != nil {
			n.gone = true
			return nil
		}
		result, fault := resultOf(made.Call)
		if fault != nil {
			return fault
		}
		writeJSON(w, result.body)
		return nil
	}
	if fault := s.opens(); fault != nil {
		return fault
	}
	defer s.closes()
	out := s.newStream(w, r)
	var err error
	if cells, ofPictures := made.form.(pictureForm); ofPictures || st.form == "events" {
		err = out.cells(made, cells, st.form == "events")
	} else if made.wire != nil {
		err = out.texts(made, st)
	}
	n.gone = err != nil
	return nil
}

// maxStreams is the largest number of open streams.
const maxStreams = 256

// opens counts one more stream, or returns why there are too many.
func (s *Server) opens() *Fault {
	s.stats.streams.Inc()
	if s.streams.Add(1) > maxStreams {
		s.closes()
		f := fault(http.StatusTooManyRequests, "too_many_streams",
			"%d streams are open, want at most %d", maxStreams, maxStreams)
		f.Retry = 1
		return f
	}
	return nil
}

func (s *Server) closes() {
	s.streams.Add(-1)
	s.stats.streams.Dec()
}

func writeJSON(w http.ResponseWriter, body []byte) {
	writeBody(w, http.StatusOK, jsonType, append(slices.Clip(body), '\n'))
}

// writeBody sends a body of a type.
func writeBody(w http.ResponseWriter, status int, kind string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(usualTimes.write +
		time.Duration(len(body))*time.Microsecond))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// wants is the kind of model that a route needs.
type wants int

const (
	wantsText wants = iota
	wantsChat       // text, by a chat template where no model is named and one has it
	wantsPictures
	wantsDecisions
	wantsVectors
	wantsSpeech
)

// rank returns how well a model fits what a route needs: of those that no request names, the first
// with the highest rank answers. Below 0 it cannot.
func (m *servedModel) rank(kind wants) int {
	vectors, trained := m.Kind() == model.KindVectors, decide.HasDecisionHead(m.Model)
	switch {
	case kind == wantsPictures && m.Pictures != nil, kind == wantsText && m.Text != nil,
		kind == wantsVectors && m.Text != nil, kind == wantsSpeech && m.Speech != nil:
		return 0
	case kind == wantsDecisions && trained:
		return 2
	case kind == wantsVectors && vectors && !trained,
		(kind == wantsChat || kind == wantsDecisions) && m.chat != nil:
		return 1
	case m.Text != nil && (kind == wantsChat || kind == wantsDecisions):
		return 0
	}
	return -1
}

// model returns the model that a request names, or the first of its kind.
func (s *Server) model(f *fields, kind wants) *servedModel {
	name, all := f.text("model"), s.all()
	var names []string
	var first *servedModel
	for _, m := range all {
		if m.rank(kind) < 0 {
			continue
		}
		if m.name == name {
			return m
		}
		if first == nil || m.rank(kind) > first.rank(kind) {
			first = m
		}
		if kind != wantsChat || m.chat != nil {
			names = append(names, m.name)
		}
	}
	if f.fault != nil {
		return nil
	}
	loading := len(all) < max(s.o.Expect, 1)
	better := loading && kind == wantsChat && first != nil && first.chat == nil // may come
	if first != nil && !better && !f.has("model") {
		return first
	}
	if loading {
		wait := fault(http.StatusServiceUnavailable, "loading", "the models are still loading")
		wait.Retry = 1
		f.fail(wait)
		return nil
	}
	f.fail(&Fault{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("the model is not served for this, want %s", either(names))})
	return nil
}

func either(names []string) string {
	if len(names) == 0 {
		return "another route: there is none"
	}
	return param.JoinOr(names)
}

// listModels answers GET /v1/models.
func (s *Server) listModels(*http.Request) (any, *Fault) {
	data, models := []modelInfo{}, []map[string]string{} // models as TypeSafe's clients read them
	for _, m := range s.all() {
		data = append(data, m.info())
		models = append(models, map[string]string{"name": m.name, "description": m.Info.Architecture,
			"release_date": time.Unix(m.created, 0).UTC().Format(time.DateOnly)})
	}
	return map[string]any{"object": "list", "data": data, "models": models}, nil
}

func (s *Server) all() []*servedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.models)
}

// oneModel answers GET /v1/models/{id}.
func (s *Server) oneModel(r *http.Request) (any, *Fault) {
	var names []string
	for _, m := range s.all() {
		if m.name == r.PathValue("id") {
			return m.info(), nil
		}
		names = append(names, m.name)
	}
	return nil, &Fault{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: "the model is not served, want " + either(names)}
}

// ready answers GET /readyz.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) *Fault {
	code, status := http.StatusServiceUnavailable, "ok"
	switch {
	case s.calls.Draining():
		status = "draining"
	case s.loading():
		status = "loading"
	case slices.ContainsFunc(s.engines(), func(e *engine.Engine) bool {
		return e.Stalled(s.times.stall)
	}):
		status = "stalled"
	}
	if status == "ok" {
		code = http.StatusOK
	} else {
		w.Header().Set("Retry-After", "1")
	}
	writeBody(w, code, jsonType, append(encode(map[string]string{"status": status}), '\n'))
	return nil
}

// version answers GET /version.
func (s *Server) version(*http.Request) (any, *Fault) {
	return map[string]string{"version": cmp.Or(s.o.Version, "unknown"), "contract": contract}, nil
}
