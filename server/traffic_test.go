package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// traffic is one client of the server that asks for random things, some of them mistakes, and does
// not always wait for the answer.
type traffic struct {
	url  string
	draw *rand.Rand
	keys []string // of results
}

// generating draws a route that generates and its body. Prompts repeat, so works are shared.
func (c *traffic) generating() (kind, body string) {
	steps := 1 + c.draw.IntN(6)
	if c.draw.IntN(40) == 0 {
		steps = -1 // is refused
	}
	fields := fmt.Sprintf(`"steps":%d,"seed":%d,"n":%d`, steps, c.draw.IntN(4), 1+c.draw.IntN(3))
	for _, more := range []string{`"priority":"batch"`, `"cache":1`, `"sampler":"remdm"`} {
		if c.draw.IntN(8) == 0 {
			fields += "," + more
		}
	}
	text := []string{"Lily had", "Once upon a time", "A dog", ""}[c.draw.IntN(4)]
	switch c.draw.IntN(3) {
	case 0:
		return "completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,%s`, text,
			1+c.draw.IntN(40), fields)
	case 1:
		return "infill", fmt.Sprintf(`{"text":"%s [%d] home",%s`, text, 1+c.draw.IntN(20), fields)
	}
	return "images", fmt.Sprintf(`{"prompt":"",%s`, strings.Replace(fields, `"sampler":"remdm"`,
		`"sampler":"halton"`, 1))
}

// request draws one request.
func (c *traffic) request() (method, path, body string) {
	kind, generate := c.generating()
	paths := map[string]string{"completions": "/v1/completions", "infill": "/v1/infill",
		"images": "/v1/images/generations"}
	result := "/v1/results/" + strings.Repeat("0", 64)
	if len(c.keys) > 0 {
		result = "/v1/results/" + c.keys[c.draw.IntN(len(c.keys))]
	}
	switch c.draw.IntN(13) {
	case 0, 1, 2:
		return "POST", paths[kind], generate + "}"
	case 3, 4:
		return "POST", paths[kind], generate + `,"stream":true}`
	case 5, 6:
		return "POST", paths[kind], generate + `,"stream":"events"}`
	case 7, 8:
		return "GET", result + []string{"", "/0.png", "/0.gif"}[c.draw.IntN(3)], ""
	case 9:
		return "POST", "/v1/tokenize", `{"text":"Lily had a dog"}`
	case 10:
		return "GET", "/v1/models", ""
	case 11:
		return "GET", []string{"/readyz", "/healthz", "/version", "/v1/samplers"}[c.draw.IntN(4)], ""
	}
	return "POST", paths[kind], generate
}

// one makes a request, and returns what is wrong with the answer.
func (c *traffic) one(ctx context.Context) error {
	method, path, body := c.request()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.draw.IntN(4) == 0 {
		leave := time.AfterFunc(time.Duration(c.draw.IntN(40))*time.Millisecond, cancel)
		defer leave.Stop()
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil // it left
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		return nil
	}
	if a.StatusCode >= 500 {
		return fmt.Errorf("%s %s %s: status %d: %s", method, path, body, a.StatusCode, data)
	}
	if strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") && !json.Valid(data) {
		return fmt.Errorf("%s %s %s: no JSON: %s", method, path, body, data)
	}
	var made struct{ Unmask struct{ Key string } }
	if json.Unmarshal(data, &made) == nil && made.Unmask.Key != "" {
		c.keys = append(c.keys, made.Unmask.Key)
	}
	return nil
}

// Clients that come, stream, leave and ask for what was made, all at once: no answer
// is a fault of the server and, under the race detector, no two goroutines touch the same memory.
// UNMASK_TRAFFIC is how long, 2s by default; the gate gives it 20s.
func TestTraffic(t *testing.T) {
	last := 2 * time.Second
	if text := os.Getenv("UNMASK_TRAFFIC"); text != "" {
		var err error
		last, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	_, h := serving(t, server.Options{Rows: 300, Queue: 40, Cache: 1 << 20})
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	const clients = 12
	var group sync.WaitGroup
	faults := make(chan error, clients)
	for i := range clients {
		group.Go(func() {
			c := &traffic{url: h.URL, draw: rand.New(rand.NewPCG(uint64(i), 5))}
			for ctx.Err() == nil {
				if err := c.one(ctx); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
}
