package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// leavingClient is the context of a client that leaves when the server asks for the last time
// whether it is there; with 0 it stays.
type leavingClient struct {
	context.Context
	leave func()
	asked atomic.Int64
	last  int64
}

func (l *leavingClient) Err() error {
	if l.asked.Add(1) == l.last {
		l.leave()
	}
	return l.Context.Err()
}

// A long text is read into tokens only as long as its client is there, on every route that reads
// one, and the request is counted as one whose client left.
func TestTokenizingEndsWithItsClient(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	vectors, err := unmask.Load(t.Context(), "../testdata/packs/embed-bert-tiny",
		unmask.Options{Threads: 1})
	require.NoError(t, err)
	for name, m := range map[string]*unmask.Model{"demo": loaded()["demo"], "chat": chat,
		"vectors": vectors} {
		require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
	}
	const talk = `"messages":[{"role":"user","content":%s}]`
	text, err := json.Marshal(strings.Repeat("the dog and a cat. ", 12000))
	require.NoError(t, err)
	for path, form := range map[string]string{
		"/v1/completions":           `{"model":"demo","prompt":%s,"max_tokens":4}`,
		"/api/generate":             `{"model":"demo","prompt":%s}`,
		"/v1/chat/completions":      `{"model":"chat",` + talk + `}`,
		"/v1/responses":             `{"model":"chat","input":%s}`,
		"/api/chat":                 `{"model":"chat",` + talk + `}`,
		"/v1/messages":              `{"model":"chat","max_tokens":4,` + talk + `}`,
		"/v1/messages/count_tokens": `{"model":"chat",` + talk + `}`,
		"/v1/infill":                `{"model":"demo","parts":[%s,2]}`,
		"/infill":                   `{"model":"demo","input_prefix":%s,"input_suffix":"B","n_predict":4}`,
		"/v1/tokenize":              `{"model":"demo","text":%s}`,
		"/tokenize":                 `{"model":"demo","prompt":%s}`,
		"/v1/embeddings":            `{"model":"vectors","input":%s}`,
		"/api/embed":                `{"model":"vectors","input":[%s]}`,
		"/api/embeddings":           `{"model":"vectors","prompt":%s}`,
	} {
		t.Run(path, func(t *testing.T) {
			ask := func(last int64) (asked int64, code int) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				client := &leavingClient{Context: ctx, leave: leave, last: last}
				r, err := http.NewRequestWithContext(client, "POST", "http://127.0.0.1"+path,
					strings.NewReader(fmt.Sprintf(form, text)))
				require.NoError(t, err)
				r.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				s.Handler().ServeHTTP(answer, r)
				return client.asked.Load(), answer.Code
			}
			asked, code := ask(0)
			require.Greater(t, asked, int64(20), "status %d", code)

			last := asked / 2
			asked, _ = ask(last)
			require.LessOrEqual(t, asked, last+6)
			require.Contains(t, metrics(t, s),
				`unmask_requests_total{code="499",route="`+path+`"} 1`)
		})
	}
}
