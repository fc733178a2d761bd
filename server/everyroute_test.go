package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/model"
	"unmask/server"
)

const (
	asking    = `"messages":[{"role":"user","content":"A"}]`
	predicate = `"questions":[{"type":"predicate","instructions":"Good?"}]`
)

// computing are requests, with a place for a seed, of all routes whose answers take passes.
var computing = map[string]string{
	"/v1/completions":        `{"prompt":"A","max_tokens":4,"steps":2,"seed":%d}`,
	"/v1/chat/completions":   `{"model":"chat",` + asking + `,"max_tokens":4,"seed":%d}`,
	"/v1/responses":          `{"model":"chat","input":"A","max_output_tokens":4,"seed":%d}`,
	"/v1/messages":           `{"model":"chat",` + asking + `,"max_tokens":4,"seed":%d}`,
	"/api/chat":              `{"model":"chat",` + asking + `,"options":{"num_predict":4,"seed":%d}}`,
	"/api/generate":          `{"model":"demo","prompt":"A","options":{"num_predict":4,"seed":%d}}`,
	"/infill":                `{"input_prefix":"A","input_suffix":"B","n_predict":4,"seed":%d}`,
	"/v1/infill":             `{"text":"A [2] b","steps":1,"seed":%d}`,
	"/v1/images/generations": `{"prompt":"","steps":1,"seed":%d}`,
	"/v1/audio/speech":       `{"input":"Hi.","steps":1,"seconds":0.2,"seed":%d}`,
	"/v1/systemone": `{"model":"demo","state":"%d","questions":{"a":{"type":"noul",` +
		`"instructions":"Good?"}}}`,
	"/v1/decisions":   `{"model":"demo","input":"%d",` + predicate + `}`,
	"/v1/embeddings":  `{"input":"the dog","user":"%d"}`,
	"/api/embed":      `{"input":"the dog","keep_alive":"%dm"}`,
	"/api/embeddings": `{"prompt":"the dog","keep_alive":"%dm"}`,
}

// immediate are routes that are answered without passes, and edits, which read their picture with
// the model before they wait.
var immediate = []string{"/v1/images/edits", "/v1/messages/count_tokens", "/api/show",
	"/v1/images/encode", "/v1/images/decode", "/v1/tokenize", "/v1/detokenize", "/tokenize",
	"/detokenize"}

// seeded returns a request of a route.
func seeded(ctx context.Context, t testing.TB, url, path string, seed int) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "POST", url+path,
		strings.NewReader(fmt.Sprintf(computing[path], seed)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// status returns that of a request's answer, all of which is read; 0 where there is none.
func status(r *http.Request, key string) int {
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		return 0
	}
	return a.StatusCode
}

// On every route that takes passes a queue has an end, a key's full queue keeps no other key out, a
// client that leaves frees its place, bodies are bounded, and all of it is counted by route.
func TestEveryRouteWaitsItsTurn(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "ann:ann-secret\nbob:bob-secret\n"))
	require.NoError(t, err)
	s, err := server.New(server.Options{Queue: 1, Keys: keys})
	require.NoError(t, err)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() { h.Close(); s.Close() })
	models := map[string]*unmask.Model{"demo": loaded()["demo"], "demo-image": loaded()["demo-image"]}
	models["chat"], err = unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	for _, name := range []string{"embed-bert-tiny", "omnivoice-tiny"} {
		models[name], err = unmask.Load(t.Context(), "../testdata/packs/"+name,
			unmask.Options{Threads: 1})
		require.NoError(t, err)
	}
	for _, name := range []string{"demo", "demo-image", "chat", "embed-bert-tiny", "omnivoice-tiny"} {
		require.NoError(t, s.Add(server.Model{Name: name, Model: models[name]}))
	}
	for _, route := range s.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if method != "POST" || slices.Contains(immediate, path) {
			continue
		}
		t.Run(path, func(t *testing.T) {
			require.Contains(t, computing, path, "this test has all routes")
			waitsItsTurn(t, s, h.URL, path, models)
		})
	}
}

func waitsItsTurn(t *testing.T, s *server.Server, url, path string,
	models map[string]*unmask.Model) {
	for _, m := range models {
		model.LockOf(m.Denoiser).Lock()
	}
	busy := true
	unlock := func() {
		for _, m := range models {
			if busy {
				model.LockOf(m.Denoiser).Unlock()
			}
		}
		busy = false
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	anns, bobs := make(chan int, 4), make(chan int, 1)
	for seed := range 4 {
		r := seeded(ctx, t, url, path, seed)
		go func() { anns <- status(r, "ann-secret") }()
	}
	require.Equal(t, 429, <-anns)
	require.Equal(t, 429, <-anns)
	other := seeded(t.Context(), t, url, path, 7)
	go func() { bobs <- status(other, "bob-secret") }()
	cancel()
	for range 2 {
		require.Contains(t, []int{0, 429}, <-anns)
	}
	unlock()
	require.Equal(t, 200, <-bobs)
	eventually(t, func() bool { // the server is told later than the client that it left
		return status(seeded(t.Context(), t, url, path, 8), "ann-secret") == 200
	}, "there is a place again")
	most := 1 << 20
	if strings.Contains(path, "embed") {
		most = 24 << 20
	}
	r, err := http.NewRequest("POST", url+path,
		strings.NewReader(`{"user":"`+strings.Repeat("x", most)+`"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	require.Equal(t, 413, status(r, "ann-secret"))
	counted := metrics(t, s)
	for _, code := range []string{"200", "429"} {
		require.Contains(t, counted, `unmask_requests_total{code="`+code+`",route="`+path+`"}`)
	}
	require.Contains(t, counted, `unmask_request_seconds_count{route="`+path+`"}`)
}
