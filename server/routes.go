package server

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"unmask/decide"
	"unmask/model"
	"unmask/param"
	"unmask/server/engine"
)

// jsonType is the content type of JSON.
const jsonType = "application/json"

// handler answers a request, or returns why not before anything was sent.
type handler func(w http.ResponseWriter, r *http.Request) *Fault

// route is a path with what its methods do.
type route struct {
	// pattern is that of http.ServeMux, and the label of the route in logs and metrics.
	pattern string

	// methods are the handlers by method, nil where there is no such route.
	methods map[string]handler

	// open reports whether the route is answered without a key.
	open bool

	// dialect is that of the API that the route belongs to. It is nil for OpenAI's and our own
	// routes, some of which Anthropic's clients ask too.
	dialect *dialect

	// maxBody bounds the bytes of a JSON body. 0 means maxJSON.
	maxBody int64
}

// routes returns all routes of the public listener.
func (s *Server) routes() []route {
	get := func(h handler) map[string]handler {
		return map[string]handler{http.MethodGet: h, http.MethodHead: h}
	}
	post := func(h handler) map[string]handler {
		return map[string]handler{http.MethodPost: h}
	}
	text := func(read modelReader) handler {
		return s.generateWith(s.withModel(needsText, read))
	}
	pictures := func(read modelReader) handler {
		return s.generateWith(s.withModel(needsPictures, read))
	}

	list := []route{
		// OpenAI's API, and what vLLM and llama.cpp add to it.
		{pattern: "/v1/models", methods: get(answerJSON(s.answerModels))},
		{pattern: "/v1/models/{id}", methods: get(answerJSON(s.answerModel))},
		{pattern: "/v1/completions", methods: post(s.withJSON(s.handleCompletion))},
		{pattern: "/v1/chat/completions", methods: post(s.generateWith(s.readChat))},
		{pattern: "/v1/responses", methods: post(s.generateWith(s.readResponse))},
		{pattern: "/v1/responses/{id}", methods: get(s.handleResponse)},
		{pattern: "/v1/decisions", methods: post(s.withJSON(s.handleDecisions))},
		{pattern: "/v1/embeddings", methods: post(s.withJSON(s.handleEmbeddings)), maxBody: maxForm},
		{pattern: "/v1/images/generations", methods: post(pictures(s.readGenerations))},
		{pattern: "/v1/images/edits", methods: post(s.handleEdits)},
		{pattern: "/v1/audio/speech", methods: post(s.withJSON(s.handleSpeech))},
		{pattern: "/v1/audio/voices", methods: get(answerJSON(s.answerVoices))},
		{pattern: "/infill", methods: post(text(s.readEditor))},
		{pattern: "/tokenize", methods: post(s.answerBody(s.answerVLLMTokenize))},
		{pattern: "/detokenize", methods: post(s.answerBody(s.answerVLLMDetokenize))},
		{pattern: "/tokenizer_info", methods: get(answerJSON(s.answerTokenizerInfo))},
		{pattern: "/health", methods: get(s.handleReady), open: true},
		{pattern: "/version", methods: get(answerJSON(s.answerVersion))},

		// TypeSafe's.
		{pattern: "/v1/systemone", methods: post(s.withJSON(s.handleSystemOne))},

		// Our own.
		{pattern: "/v1/infill", methods: post(text(s.readInfill))},
		{pattern: "/v1/images/encode", methods: post(s.handleEncode)},
		{pattern: "/v1/images/decode", methods: post(s.withJSON(s.handleDecode))},
		{pattern: "/v1/tokenize", methods: post(s.answerBody(s.answerTokenize))},
		{pattern: "/v1/detokenize", methods: post(s.answerBody(s.answerDetokenize))},
		{pattern: "/v1/results/{key}", methods: get(s.handleResult)},
		{pattern: "/v1/results/{key}/{file}", methods: get(s.handleResult)},
		{pattern: "/v1/samplers", methods: get(answerJSON(answerSamplers))},
		{pattern: "/healthz", methods: get(answerText("status", "ok")), open: true},
		{pattern: "/readyz", methods: get(s.handleReady), open: true},

		// Anthropic's.
		{pattern: "/v1/messages", methods: post(s.generateWith(s.readMessages)), dialect: anthropic},
		{pattern: "/v1/messages/count_tokens", methods: post(s.generateWith(s.readTokenCount)),
			dialect: anthropic},

		// Ollama's.
		{pattern: "/api/chat", methods: post(s.generateWith(s.readOllamaChat)), dialect: ollama},
		{pattern: "/api/generate", methods: post(s.generateWith(s.readOllamaGenerate)),
			dialect: ollama},
		{pattern: "/api/embed", methods: post(s.withJSON(s.handleOllamaEmbed)), dialect: ollama,
			maxBody: maxForm},
		{pattern: "/api/embeddings", methods: post(s.withJSON(s.handleOllamaEmbeddings)),
			dialect: ollama, maxBody: maxForm},
		{pattern: "/api/tags", methods: get(answerJSON(s.answerOllamaTags)), dialect: ollama},
		{pattern: "/api/ps", methods: get(answerJSON(s.answerOllamaTags)), dialect: ollama},
		{pattern: "/api/show", methods: post(s.answerBody(s.answerOllamaShow)), dialect: ollama},
		{pattern: "/api/version", methods: get(answerText("version", ollamaVersion)),
			dialect: ollama},
	}
	if s.o.Page != nil {
		page := get(func(w http.ResponseWriter, r *http.Request) *Fault {
			s.o.Page.ServeHTTP(w, r)
			return nil
		})
		for _, pattern := range []string{"/{$}", "/page/", "/openapi.json"} {
			list = append(list, route{pattern: pattern, methods: page, open: true})
		}
	}
	return list
}

// unknownRoute returns the route of a path without one. Its dialect is that of the API that the
// path would belong to.
func unknownRoute(path string) route {
	unknown := route{pattern: "unknown"}
	if strings.HasPrefix(path, "/api/") {
		unknown.dialect = ollama
	} else if strings.HasPrefix(path, "/v1/messages/") {
		unknown.dialect = anthropic
	}
	return unknown
}

// routeHandler answers the requests of a route.
type routeHandler struct {
	s     *Server
	route route
}

// ServeHTTP implements http.Handler.
func (h *routeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.answer(w, r)
	if f == nil {
		return
	}
	if r.Context().Err() != nil { // what ended because of it is no fault of the request
		notesOf(r).clientGone = true
	}
	f.write(w)
}

// answer answers a request by the handler of its method.
func (h *routeHandler) answer(w http.ResponseWriter, r *http.Request) *Fault {
	if !h.route.open {
		if f := h.s.authorize(r); f != nil {
			return f
		}
	}
	if h.route.methods == nil {
		return h.s.unknownRouteFault(r.URL.Path)
	}
	if handle := h.route.methods[r.Method]; handle != nil {
		return handle(w, r)
	}

	allowed := sortedKeys(h.route.methods)
	f := newFault(http.StatusMethodNotAllowed, "method_not_allowed", "the method is %s, want %s",
		truncate(r.Method), param.JoinOr(allowed))
	f.header = [2]string{"Allow", strings.Join(allowed, ", ")}
	return f
}

// Handler returns the handler of all public routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, &routeHandler{s, r})
	}
	return s.guard(mux)
}

// hasCleanPath reports whether a request's path is as a route has it. http.ServeMux would redirect
// others to a clean path, which POST requests of many clients do not survive; here such a path is
// unknown, and the fault names the right one.
func hasCleanPath(r *http.Request) bool {
	p := r.URL.Path
	clean := path.Clean(p)
	return (p == clean || p == clean+"/") && !strings.Contains(p, "//") && r.URL.RawPath == "" &&
		!strings.Contains(r.URL.EscapedPath(), "%")
}

// findRoute returns the route of a request and its handler.
func (s *Server) findRoute(mux *http.ServeMux, r *http.Request) (route, http.Handler) {
	if hasCleanPath(r) {
		h, pattern := mux.Handler(r)
		if known, ok := h.(*routeHandler); ok {
			return known.route, mux // the mux sets the values of the path, too
		}
		if pattern != "" { // it redirects to a subtree such as /page/
			return route{pattern: "unknown"}, mux
		}
	}
	unknown := unknownRoute(r.URL.Path)
	return unknown, &routeHandler{s, unknown}
}

// unknownRouteFault is the fault of a path without a route. It names the route of a client whose
// base URL has /v1 where it should not, lacks it, or ends with a slash.
func (s *Server) unknownRouteFault(requested string) *Fault {
	f := newFault(http.StatusNotFound, "unknown_route", "there is no route %s",
		param.Quote(requested))
	clean := path.Clean(requested)
	for _, near := range []string{clean, "/v1" + clean, strings.TrimPrefix(clean, "/v1")} {
		for _, r := range s.routes() {
			if near != requested && r.pattern == near {
				f.Message += ", want " + near
				return f
			}
		}
	}
	return f
}

// reader reads a request of a route from its fields.
type reader func(r *http.Request, f *fields) (query, streamOptions)

// modelReader reads a request for a model from its fields.
type modelReader func(r *http.Request, f *fields, m *servedModel) (query, streamOptions)

// withModel returns the reader that chooses the model and reads the other fields with read.
func (s *Server) withModel(need modelNeed, read modelReader) reader {
	return func(r *http.Request, f *fields) (query, streamOptions) {
		m := s.model(f, need)
		if m == nil {
			return query{}, streamOptions{}
		}
		return read(r, f, m)
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
		defer f.release()
		return h(w, r, f)
	}
}

// answerJSON handles requests without a body that are answered by a JSON value.
func answerJSON(answer func(r *http.Request) (any, *Fault)) handler {
	return func(w http.ResponseWriter, r *http.Request) *Fault {
		value, fault := answer(r)
		if fault == nil {
			writeJSON(w, encodeJSON(value))
		}
		return fault
	}
}

// answerText handles requests whose answer is an object of one text.
func answerText(name, text string) handler {
	return answerJSON(func(*http.Request) (any, *Fault) {
		return map[string]string{name: text}, nil
	})
}

// answerBody handles requests with a body that are answered at once, by a JSON value.
func (s *Server) answerBody(answer func(r *http.Request, f *fields) (any, *Fault)) handler {
	return s.withJSON(func(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
		value, fault := answer(r, f)
		if fault == nil {
			writeJSON(w, encodeJSON(value))
		}
		return fault
	})
}

// generateWith handles requests for sequences, which read reads.
func (s *Server) generateWith(read reader) handler {
	return s.withJSON(func(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
		return s.generate(w, r, f, read)
	})
}

// generate answers a request for sequences.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, f *fields, read reader) *Fault {
	q, options := read(r, f)
	f.release()
	if fault := f.finish(); fault != nil {
		return fault
	}
	if q.readyAnswer != nil {
		writeJSON(w, q.readyAnswer.body)
		return nil
	}
	c, hit, fault := s.begin(q, keyName(r))
	if fault != nil {
		return fault
	}
	defer s.calls.Unwatch(c.Call)

	for _, note := range q.allNotes() {
		w.Header().Add("Unmask-Note", note)
	}
	if hit {
		w.Header().Set("Unmask-Cache", "hit")
	}
	return s.sendCall(w, r, c, options)
}

// sendCall sends the answer of a call, or streams it.
func (s *Server) sendCall(w http.ResponseWriter, r *http.Request, c *call,
	options streamOptions) *Fault {
	notes := notesOf(r)
	notes.rows = c.Rows
	notes.call = c
	if options.form == notStreamed {
		if err := c.Wait(r.Context()); err != nil {
			notes.clientGone = true
			return nil
		}
		result, fault := callResult(c.Call)
		if fault != nil {
			return fault
		}
		writeJSON(w, result.body)
		return nil
	}

	if fault := s.countStream(); fault != nil {
		return fault
	}
	defer s.uncountStream()
	out := s.newStream(w, r)
	var err error
	form, ofPictures := c.answerKey.(pictureForm)
	if ofPictures || options.form == streamsEvents {
		err = out.sendPictures(c, form, options.form == streamsEvents)
	} else if c.wire != nil {
		err = out.sendTexts(c, options)
	}
	notes.clientGone = err != nil
	return nil
}

// maxStreams is the largest number of open streams.
const maxStreams = 256

// countStream counts one more stream, or returns why there are too many. The caller of a counted
// stream calls uncountStream at its end.
func (s *Server) countStream() *Fault {
	s.stats.streams.Inc()
	if s.streams.Add(1) > maxStreams {
		s.uncountStream()
		f := newFault(http.StatusTooManyRequests, "too_many_streams",
			"%d streams are open, want at most %d", maxStreams, maxStreams)
		f.Retry = 1
		return f
	}
	return nil
}

func (s *Server) uncountStream() {
	s.streams.Add(-1)
	s.stats.streams.Dec()
}

// writeJSON answers with JSON and a line end, which terminals want.
func writeJSON(w http.ResponseWriter, body []byte) {
	writeBody(w, http.StatusOK, jsonType, append(slices.Clip(body), '\n'))
}

// writeBody sends a body of a content type. Its deadline grows with its size, so that a slow client
// gets a large picture, but one that reads nothing holds no memory for ever.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	timeout := defaultTimeouts.write + time.Duration(len(body))*time.Microsecond
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// modelNeed is the kind of model that a route needs.
type modelNeed int

const (
	needsText modelNeed = iota

	// needsChat needs text, and a chat template where no model is named and one has it.
	needsChat

	needsPictures
	needsDecisions
	needsVectors
	needsSpeech

	// needsOllama needs what Ollama's lists have: texts, vectors or decisions.
	needsOllama
)

// rank returns how well a model fits what a route needs: of those that no request names, the first
// with the highest rank answers. Below 0 it cannot.
func (m *servedModel) rank(need modelNeed) int {
	isText := m.Text != nil
	hasDecisions := decide.HasDecisionHead(m.Model)
	switch need {
	case needsText:
		if isText {
			return 0
		}
	case needsPictures:
		if m.Pictures != nil {
			return 0
		}
	case needsSpeech:
		if m.Speech != nil {
			return 0
		}
	case needsVectors:
		if isText {
			return 0
		}
		if m.Kind() == model.KindVectors && !hasDecisions {
			return 1
		}
	case needsOllama:
		if hasDecisions {
			return 0
		}
		return m.rank(needsVectors)
	case needsDecisions:
		if hasDecisions {
			return 2
		}
		return m.rank(needsChat)
	case needsChat:
		if m.chat != nil {
			return 1
		}
		if isText { // its refusal says why it has no conversations
			return 0
		}
	}
	return -1
}

// model returns the model that a request names or, where it names none, the best for the need.
func (s *Server) model(f *fields, need modelNeed) *servedModel {
	return s.findModel(f, f.text("model"), f.has("model"), need)
}

// findModel returns the model of a name or, if the request names none, the one that fits best what
// a route needs. Where there is none, f fails and nil is returned.
func (s *Server) findModel(f *fields, name string, isNamed bool, need modelNeed) *servedModel {
	models := s.allModels()
	var names []string
	var best *servedModel
	for _, m := range models {
		if m.rank(need) < 0 {
			continue
		}
		if m.name == name {
			return m
		}
		if best == nil || m.rank(need) > best.rank(need) {
			best = m
		}
		if need != needsChat || m.chat != nil {
			names = append(names, m.name)
		}
	}
	if f.fault != nil {
		return nil
	}

	// While models are loaded, one with a chat template may still come. To answer meanwhile that there
	// is none would make a client give up.
	loading := len(models) < max(s.o.Expect, 1)
	betterMayCome := loading && need == needsChat && best != nil && best.chat == nil
	if best != nil && !betterMayCome && !isNamed {
		return best
	}
	if loading {
		wait := newFault(http.StatusServiceUnavailable, "loading", "the models are still loading")
		wait.Retry = 1
		f.fail(wait)
		return nil
	}
	message := "no served model can answer this route"
	if len(names) > 0 {
		message = fmt.Sprintf("model %s is not served for this, want %s", param.Quote(name),
			param.JoinOr(names))
	}
	f.fail(&Fault{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: message})
	return nil
}

// answerModels answers GET /v1/models.
func (s *Server) answerModels(*http.Request) (any, *Fault) {
	data := []modelInfo{}
	models := []map[string]string{} // as TypeSafe's clients read them
	for _, m := range s.allModels() {
		data = append(data, m.info())
		models = append(models, map[string]string{
			"name":         m.name,
			"description":  m.Info.Architecture,
			"release_date": time.Unix(m.created, 0).UTC().Format(time.DateOnly),
		})
	}
	return map[string]any{"object": "list", "data": data, "models": models}, nil
}

// allModels returns the models that are served now.
func (s *Server) allModels() []*servedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.models)
}

// answerModel answers GET /v1/models/{id}.
func (s *Server) answerModel(r *http.Request) (any, *Fault) {
	var names []string
	for _, m := range s.allModels() {
		if m.name == r.PathValue("id") {
			return m.info(), nil
		}
		names = append(names, m.name)
	}
	message := "no model is served"
	if len(names) > 0 {
		message = fmt.Sprintf("model %s is not served, want %s", param.Quote(r.PathValue("id")),
			param.JoinOr(names))
	}
	return nil, &Fault{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: message}
}

// handleReady answers GET /readyz.
func (s *Server) handleReady(w http.ResponseWriter, r *http.Request) *Fault {
	stalled := func(e *engine.Engine) bool { return e.Stalled(s.timeouts.stall) }
	code := http.StatusServiceUnavailable
	status := ""
	switch {
	case s.calls.Draining():
		status = "draining"
	case s.loading():
		status = "loading"
	case slices.ContainsFunc(s.engines(), stalled):
		status = "stalled"
	default:
		code = http.StatusOK
		status = "ok"
	}
	if code != http.StatusOK {
		w.Header().Set("Retry-After", "1")
	}
	body := encodeJSON(map[string]string{"status": status})
	writeBody(w, code, jsonType, append(body, '\n'))
	return nil
}

// answerVersion answers GET /version.
func (s *Server) answerVersion(*http.Request) (any, *Fault) {
	return map[string]string{
		"version":  cmp.Or(s.o.Version, "unknown"),
		"contract": contract,
	}, nil
}
