package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"image"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// As many streams as may be open all end with their answer; one more is told to wait.
func TestStreamsAtOnce(t *testing.T) {
	const most = 256
	g, s, h := gated(t, server.Options{})
	g.shut()
	body := `{"prompt":"A","max_tokens":9,"steps":3,"seed":7,"stream":"events"}`
	url := h.URL + "/v1/completions"
	var all []<-chan refusalAnswer
	for range most {
		all = append(all, later(t, url, body))
	}
	eventually(t, func() bool { return strings.Contains(metrics(t, s), "\nunmask_streams 256\n") },
		"all streams are open")
	refusal{body, 429, "too_many_streams", "", "256 streams are open, want at most 256"}.check(t, url)
	status, _, _ := get(t, h.URL+"/v1/models") // others are answered
	require.Equal(t, 200, status)
	g.unshut()
	want := ask(t, url, strings.Replace(body, `,"stream":"events"`, "", 1))
	for _, a := range all {
		got := <-a
		require.NoError(t, got.err)
		require.Equal(t, 200, got.status, "%s", got.data)
		events := parseEvents(string(got.data))
		require.Len(t, events, 1+3+1)
		require.Equal(t, want.Choices[0].Text, read(t, []byte(events[4].data)).Choices[0].Text)
	}
	eventually(t, func() bool { return strings.Contains(metrics(t, s), "\nunmask_streams 0\n") },
		"no stream is open")
	require.Equal(t, 200, (<-later(t, url, body)).status)
}

// A server whose passes hang fails its probes until it recovers.
func TestStalled(t *testing.T) {
	var clock stopped
	g, _, h := gatedAt(t, server.Options{}, clock.now)
	ready := func() {
		t.Helper()
		status, _, data := get(t, h.URL+"/readyz")
		require.Equal(t, 200, status, "%s", data)
	}
	ready()
	g.shut()
	waits := later(t, h.URL+"/v1/completions", with(`"steps":2`))
	g.stuck()
	clock.add(60 * time.Second)
	ready()
	clock.add(time.Second)
	status, header, data := get(t, h.URL+"/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"stalled"}`, string(data))
	require.Equal(t, "1", header.Get("Retry-After"))
	status, _, _ = get(t, h.URL+"/healthz")
	require.Equal(t, 200, status)
	g.unshut()
	require.Equal(t, 200, (<-waits).status)
	ready()
}

// An address at which something listens is an error of one line that names the flag.
func TestTakenAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	for flag, l := range map[string]server.Listeners{"listen": {Address: address},
		"metrics": {Address: "127.0.0.1:0", Metrics: address}} {
		s, err := server.New(server.Options{})
		require.NoError(t, err)
		err = s.Run(t.Context(), context.Background(), l, func(string) { t.Error("it listens") })
		require.EqualError(t, err, "--"+flag+" "+address+": bind: address already in use")
	}
}

// A comment comes while nothing else does, so that nobody between takes the stream for dead.
func TestBeats(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	s.Hurry("beat", 100*time.Millisecond)
	g.shut()
	r, err := http.Post(h.URL+"/v1/completions", "application/json",
		strings.NewReader(with(`"steps":2,"stream":"events"`)))
	require.NoError(t, err)
	defer r.Body.Close()
	beats := 0
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			if beats++; beats == 2 {
				g.unshut()
			}
		}
	}
	require.NoError(t, lines.Err())
	require.GreaterOrEqual(t, beats, 2)
}

// Work whose turn would come too late is refused at once, as is more than 600 seconds of it.
func TestLongWaits(t *testing.T) {
	const long = `{"prompt":"A","max_tokens":255,"steps":10,"n":%d,"seed":%d}` // 2560 rows each
	for code, timeout := range map[string]time.Duration{"wait_too_long": 100 * time.Second,
		"queue_full": 24 * time.Hour} {
		var clock stopped
		g, s, h := gatedAt(t, server.Options{Timeout: timeout}, clock.now)
		url := h.URL + "/v1/completions"
		g.shut()
		first := later(t, url, `{"prompt":"A","max_tokens":19,"steps":1}`)
		g.stuck()
		clock.add(800 * time.Millisecond) // for 20 rows: 25 a second
		g.pass(1)
		require.Equal(t, 200, (<-first).status)
		begun := later(t, url, fmt.Sprintf(long, 1, 1)) // 102.4 seconds
		g.stuck()
		if code == "queue_full" {
			later(t, url, fmt.Sprintf(long, 64, 2))
			queued(t, s, 1)
		}
		status, header, data := post(t, url, fmt.Sprintf(long, 2, 3))
		refusal{code, 429, code, "", "seconds, want at most "}.compare(t, status, header, data)
		want := map[string]string{"wait_too_long": "103", "queue_full": "120"}[code]
		require.Equal(t, want, header.Get("Retry-After"))
		g.unshut()
		s.Close() // which gives all of it up
		require.Equal(t, 503, (<-begun).status)
	}
}

// A header of more than 64 KiB, such as a key that is none, is refused.
func TestLongHeaders(t *testing.T) {
	address, _ := running(t, "header", time.Minute)
	for size, want := range map[int]int{60 << 10: 200, 80 << 10: 431} {
		r, err := http.NewRequest("GET", "http://"+address+"/healthz", nil)
		require.NoError(t, err)
		status, _, _ := do(t, r, "Authorization", "Bearer "+strings.Repeat("x", size))
		require.Equal(t, want, status)
	}
}

// Bodies are read as long as there is memory for them: one more waits, and small ones do not. All
// is given back.
func TestBodiesTakeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		path, kind string
		bytes      int // of a body
		most       int // that are read at once
		status     int // of the last one
	}{
		"JSON":      {"/v1/completions", "application/json", 1 << 20, 64, 400},
		"a picture": {"/v1/images/encode", "image/png", 24 << 20, 8, 415},
		"a form":    {"/v1/images/edits", "multipart/form-data; boundary=b", 24 << 20, 8, 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := serving(t, server.Options{})
			var clients []net.Conn
			send := func() net.Conn {
				conn, err := net.Dial("tcp", h.Listener.Addr().String())
				require.NoError(t, err)
				t.Cleanup(func() { conn.Close() })
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"+
					"Content-Length: %d\r\n\r\n{", c.path, c.kind, c.bytes)
				require.NoError(t, err)
				return conn
			}
			for range c.most {
				clients = append(clients, send())
			}
			full := func() bool { return s.Reading(c.kind != "application/json") }
			eventually(t, full, "as many as may be are read")
			last := send()
			go func() { _, _ = io.Copy(last, strings.NewReader(strings.Repeat("x", c.bytes-1))) }()
			status, _, data := post(t, h.URL+"/v1/completions", with(`"steps":1`))
			require.Equal(t, 200, status, "%s", data)
			require.True(t, full())
			for _, one := range clients {
				require.NoError(t, one.Close())
			}
			a, err := http.ReadResponse(bufio.NewReader(last), nil)
			require.NoError(t, err)
			require.Equal(t, c.status, a.StatusCode)
			eventually(t, func() bool { return !full() }, "all is given back")
		})
	}
}

// What waits in the queue keeps nothing of its body, and takes none of the memory for bodies.
func TestWhatWaitsKeepsNoBody(t *testing.T) {
	const clients, long = 24, 1000000
	for name, c := range map[string]struct{ model, path string }{
		"JSON": {"demo", "/v1/completions"}, "a form": {"demo-image", "/v1/images/edits"}} {
		t.Run(name, func(t *testing.T) {
			short := heldBy(t, clients, 1, c.model, c.path)
			require.Less(t, heldBy(t, clients, long, c.model, c.path)-short, int64(clients*long/2))
		})
	}
}

// heldBy returns the bytes that a server holds more while clients wait than when they have left,
// each of which has sent a field of a size that has no effect.
func heldBy(t *testing.T, clients, size int, of, path string) int64 {
	m := *loaded()[of]
	g := newGate(m.Denoiser)
	m.Denoiser = g
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: of, Model: &m}))
	h := httptest.NewServer(s.Handler())
	g.shut()
	file := pngOf(t, landscape(t))
	mask := pngOf(t, image.NewNRGBA(image.Rect(0, 0, 64, 64))) // all is made new
	heap := func() int64 {
		var stats runtime.MemStats
		for range 3 { // pools of buffers forget one time later
			runtime.GC()
		}
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	ctx, leave := context.WithCancel(t.Context())
	var sent sync.WaitGroup
	for seed := range clients {
		head, tail, kind := fmt.Sprintf(`{"prompt":"A","max_tokens":9,"steps":1,"seed":%d,"user":"`,
			seed), `"}`, "application/json"
		if of == "demo-image" {
			var body *bytes.Buffer
			kind, body = form(t, "user", "|", "steps", 1, "seed", seed, "image", file, "mask",
				mask)
			head, tail, _ = strings.Cut(body.String(), "|")
		}
		r, err := http.NewRequestWithContext(ctx, "POST", h.URL+path,
			io.MultiReader(strings.NewReader(head), io.LimitReader(xs{}, int64(size)),
				strings.NewReader(tail)))
		require.NoError(t, err)
		r.ContentLength = int64(len(head) + size + len(tail))
		r.Header.Set("Content-Type", kind)
		sent.Go(func() {
			if a, err := http.DefaultClient.Do(r); err == nil {
				a.Body.Close()
			}
		})
	}
	watched(t, s, clients)
	held := heap()
	leave()
	sent.Wait()
	watched(t, s, 0)
	held -= heap() // room for keys and values stays
	g.unshut()
	h.Close()
	s.Close()
	return held
}

// xs is an endless text.
type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Reading a request takes time in proportion to its bytes: objects of very many names are refused
// or answered at once. A list of names that is searched for each name takes minutes here.
func TestManyNames(t *testing.T) {
	for _, n := range []int{10, 300_000} {
		require.True(t, server.TakesNames(n))
	}
	_, h := serving(t, server.Options{})
	var names strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&names, `,"k%d":0`, i)
	}
	began := time.Now()
	for _, path := range []string{"/api/chat", "/api/generate", "/api/embed"} {
		for _, body := range []string{`{"input":"a"%s}`, `{"input":"a","options":{"k":0%s}}`} {
			r, err := http.Post(h.URL+path, "application/json",
				strings.NewReader(fmt.Sprintf(body, names.String())))
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Less(t, r.StatusCode, 500, path)
		}
	}
	require.Less(t, time.Since(began), time.Minute)
}

// What is kept of a finished call is counted: answers to requests with different schemas of almost
// a megabyte, whose grammar is small, do not add up to the sum of the schemas.
func TestKeptSchemas(t *testing.T) {
	_, h := serving(t, server.Options{})
	heap := func() int64 {
		var m runtime.MemStats
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	padding := strings.Repeat("x", 900_000)
	send := func(from, to int) {
		for i := range to - from {
			body := fmt.Sprintf(`{"prompt":"A","max_tokens":4,"steps":1,"schema":{"enum":["a"],`+
				`"description":"%d%s"}}`, from+i, padding)
			r, err := http.Post(h.URL+"/v1/completions", "application/json", strings.NewReader(body))
			require.NoError(t, err)
			data, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Equal(t, 200, r.StatusCode, "%s", data)
		}
	}
	send(0, 4)
	before := heap()
	send(4, 36)
	require.Less(t, heap()-before, int64(8<<20))
}
