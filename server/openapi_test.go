package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"unmask/server"
	"unmask/server/page"
)

// described is the router of openapi.json.
var described = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(page.Description())
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// held is a ResponseWriter that keeps what is not streamed.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *held) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
	h.ResponseWriter.WriteHeader(status)
}

func (h *held) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.status = http.StatusOK
	}
	if !h.streams() {
		h.body.Write(p)
	}
	return h.ResponseWriter.Write(p)
}

func (h *held) streams() bool {
	kind := h.Header().Get("Content-Type")
	return strings.HasPrefix(kind, "text/event-stream") || kind == "application/x-ndjson"
}

// Unwrap lets http.ResponseController find deadlines and flushing.
func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// describedHandler compares what goes through a handler with openapi.json: every request that is
// not refused, and every answer.
func describedHandler(t testing.TB, next http.Handler) http.Handler {
	router, err := described()
	require.NoError(t, err)
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true, SkipSettingDefaults: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, params, err := router.FindRoute(r)
		if err != nil || r.Method == http.MethodHead {
			next.ServeHTTP(w, r) // the server refuses it too
			return
		}
		var sent bytes.Buffer
		copied := r.Clone(r.Context())
		if strings.HasPrefix(r.URL.Path, "/api/") { // where the type of a body is not read
			copied.Header.Set("Content-Type", "application/json")
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &sent), r.Body}
		out := &held{ResponseWriter: w}
		next.ServeHTTP(out, r)
		input := &openapi3filter.RequestValidationInput{Request: copied, PathParams: params, Route: route,
			Options: options}
		copied.Body = io.NopCloser(&sent)
		if out.status < 300 && r.ContentLength < 1<<20 {
			if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil &&
				r.Context().Err() == nil {
				t.Errorf("%s %s is taken, but openapi.json refuses it: %v", r.Method, r.URL.Path, err)
			}
		}
		if out.status == 0 || out.streams() {
			return
		}
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
			Status: out.status, Header: out.Header(), Options: options}
		answer.SetBodyBytes(out.body.Bytes())
		if err := openapi3filter.ValidateResponse(r.Context(), answer); err != nil {
			t.Errorf("%s %s answers what openapi.json has not: %v", r.Method, r.URL.Path, err)
		}
	})
}

// Every route of the server is described, and every one that is described is there.
func TestDescribedRoutes(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(page.Description())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	s, err := server.New(server.Options{Page: page.Handler()})
	require.NoError(t, err)
	defer s.Close()
	var have, want []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			have = append(have, method+" "+path)
		}
	}
	for _, route := range s.Routes() {
		if method, path, _ := strings.Cut(route, " "); method != "HEAD" && path != "/{$}" &&
			path != "/page/" && path != "/openapi.json" {
			want = append(want, route)
		}
	}
	require.ElementsMatch(t, want, have)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/openapi.json", nil))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, string(page.Description()), w.Body.String())
}
