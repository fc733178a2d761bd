package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// eventually waits for what happens in another goroutine.
func eventually(t testing.TB, is func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// metrics returns what Prometheus reads.
func metrics(t testing.TB, s *server.Server) string {
	w := httptest.NewRecorder()
	s.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	return w.Body.String()
}

// queued returns when that number of requests wait for their first step.
func queued(t testing.TB, s *server.Server, n int) {
	t.Helper()
	eventually(t, func() bool {
		return strings.Contains(metrics(t, s), fmt.Sprintf("\nunmask_queue_requests %d\n", n))
	}, fmt.Sprintf("%d requests wait", n))
}

// watched returns when that number of clients wait for answers.
func watched(t testing.TB, s *server.Server, n int) {
	t.Helper()
	eventually(t, func() bool { return s.Watching() == n }, fmt.Sprintf("%d wait for answers", n))
}

// idle returns when no rows are left to be made.
func idle(t testing.TB, s *server.Server) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(metrics(t, s), "\nunmask_queue_rows 0\n") },
		"no work is left")
}

// later posts in a goroutine and returns what the answer will be.
func later(t testing.TB, url, body string) <-chan refusalAnswer { return laterBy(t, "", url, body) }

// laterBy is later with the key of a client, "" for none.
func laterBy(t testing.TB, key, url, body string) <-chan refusalAnswer {
	out := make(chan refusalAnswer, 1)
	question, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	question.Header.Set("Content-Type", "application/json")
	if key != "" {
		question.Header.Set("Authorization", "Bearer "+key)
	}
	go func() {
		r, err := http.DefaultClient.Do(question)
		if err != nil {
			out <- refusalAnswer{err: err}
			return
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		out <- refusalAnswer{r.StatusCode, r.Header, data, err}
	}()
	return out
}

type refusalAnswer struct {
	status int
	header http.Header
	data   []byte
	err    error
}

// Shorter work goes first, and a paused one ends with the bytes that it has alone.
func TestShortWorkGoesFirst(t *testing.T) {
	var clock stopped // what has waited long enough would go first
	g, s, h := gatedAt(t, server.Options{Rows: 64}, clock.now)
	long := `{"prompt":"A","max_tokens":63,"steps":12,"seed":1}`
	want := ask(t, h.URL+"/v1/completions",
		`{"prompt":"A","max_tokens":63,"steps":12,"seed":1,"stop":[]}`)
	g.shut()
	first := later(t, h.URL+"/v1/completions", strings.Replace(long, `"seed"`, `"echo":true,"seed"`,
		1))
	g.stuck()
	short := later(t, h.URL+"/v1/completions", `{"prompt":"B","max_tokens":7,"steps":3,"seed":2}`)
	queued(t, s, 1)
	before := len(g.seen())
	g.pass(1 + 3)
	a := <-short
	require.Equal(t, 200, a.status, "%s", a.data)
	for _, pass := range g.seen()[before:][:3] {
		require.Equal(t, []int{8}, pass)
	}
	g.unshut()
	b := <-first
	require.Equal(t, "A"+want.Choices[0].Text, read(t, b.data).Choices[0].Text)
}

// Work of one class and key after another, in turn by rows.
func TestKeysTakeTurns(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "alice:alice-secret\nbob:bob-secret\n"))
	require.NoError(t, err)
	g, s, h := gated(t, server.Options{Rows: 20, Keys: keys})
	g.shut()
	send := func(key string, length, seed int) {
		r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(fmt.Sprintf(
			`{"prompt":"A","max_tokens":%d,"steps":4,"seed":%d}`, length-1, seed)))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		go func() {
			if a, err := http.DefaultClient.Do(r); err == nil {
				a.Body.Close()
			}
		}()
	}
	send("alice-secret", 20, 0)
	g.stuck()
	for i := range 6 {
		send("alice-secret", 18, i)
	}
	send("bob-secret", 19, 9)
	queued(t, s, 7)
	g.unshut()
	eventually(t, func() bool { return len(g.seen()) >= 7*4+4 }, "all passes")
	var bobs []int
	for i, pass := range g.seen() {
		if slices.Contains(pass, 19) {
			bobs = append(bobs, i)
		}
	}
	// Of each two passes bob has one, however many requests alice has.
	require.Len(t, bobs, 4)
	require.Less(t, bobs[3], 12)
}

// On a CPU, a key with many requests that would fit a pass together has no more rows than another
// with one, whose passes would else take the time of all; nor has batch work.
func TestManyRequestsDoNotSlowOne(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "alice:alice-secret\nbob:bob-secret\n"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		priority string
		most     int // of alice's sequences in bob's 16 passes
	}{"keys": {"", 18}, "batch": {`,"priority":"batch"`, 4}} {
		t.Run(name, func(t *testing.T) {
			var clock stopped
			var sent sync.WaitGroup
			g, s, h := gatedAt(t, server.Options{Rows: 200, Keys: keys}, clock.now)
			g.shut()
			send := func(key, body string) {
				r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(body))
				require.NoError(t, err)
				r.Header.Set("Authorization", "Bearer "+key)
				r.Header.Set("Content-Type", "application/json")
				sent.Go(func() {
					if a, err := http.DefaultClient.Do(r); err == nil {
						a.Body.Close()
					}
				})
			}
			send("alice-secret", `{"prompt":"A","max_tokens":15,"steps":1}`)
			g.stuck()
			for i := range 6 {
				send("alice-secret", fmt.Sprintf(`{"prompt":"A","max_tokens":17,"steps":17,"seed":%d%s}`, i,
					c.priority))
			}
			send("bob-secret", `{"prompt":"A","max_tokens":18,"steps":16}`)
			queued(t, s, 7)
			g.unshut()
			sent.Wait()
			alices := 0
			for _, pass := range g.seen() {
				if slices.Contains(pass, 19) {
					alices += len(pass) - 1
				}
			}
			require.LessOrEqual(t, alices, c.most)
		})
	}
}

// Batch work has a tenth of the rows while other work waits, and all of them when none does.
func TestBatchWorkHasItsShare(t *testing.T) {
	g, s, h := gated(t, server.Options{Rows: 20})
	g.shut()
	first := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":16,"steps":1,"seed":0}`)
	g.stuck()
	batch := later(t, h.URL+"/v1/completions",
		`{"prompt":"A","max_tokens":17,"steps":17,"seed":0,"priority":"batch"}`)
	var all []<-chan refusalAnswer
	for i := range 4 {
		all = append(all, later(t, h.URL+"/v1/completions",
			fmt.Sprintf(`{"prompt":"A","max_tokens":18,"steps":18,"seed":%d}`, i)))
	}
	queued(t, s, 5)
	g.unshut()
	for _, a := range append(all, batch, first) {
		require.Equal(t, 200, (<-a).status)
	}
	passes := g.seen()
	last, shared := 0, 0
	for i, pass := range passes {
		if slices.Contains(pass, 19) {
			last = i
		}
	}
	for _, pass := range passes[:last] {
		if slices.Contains(pass, 18) {
			shared++
		}
	}
	require.Greater(t, shared, 4)
	require.Less(t, shared, 12)
}

// Equal requests are computed once, for those that come at the same time and those that come later.
func TestEqualRequestsAreComputedOnce(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	g.shut()
	body := `{"prompt":"A","max_tokens":9,"steps":3,"seed":7}`
	first := later(t, h.URL+"/v1/completions", body)
	g.stuck()
	second := later(t, h.URL+"/v1/completions", body)
	third := later(t, h.URL+"/v1/completions", strings.Replace(body, "{", `{"stream":"events",`, 1))
	watched(t, s, 3)
	g.unshut()
	a, b, c := <-first, <-second, <-third
	require.Equal(t, string(a.data), string(b.data))
	require.Contains(t, string(c.data), strings.TrimSpace(string(a.data)))
	require.Len(t, g.seen(), 3)
	again := <-later(t, h.URL+"/v1/completions",
		`{"seed":7,"steps":3,"max_tokens":9,"prompt":"A","user":"u"}`)
	require.Equal(t, "hit", again.header.Get("Unmask-Cache"))
	require.Equal(t, string(a.data), string(again.data))
	require.Len(t, g.seen(), 3)
}

// A client that goes frees its place at the next pass, streaming or not; one of two that wait for
// the same work does not stop it.
func TestClientsThatGo(t *testing.T) {
	for _, form := range []string{"", `"stream":true,`, `"stream":"events",`} {
		g, s, h := gated(t, server.Options{})
		g.shut()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gone := make(chan error, 2)
		send := func(ctx context.Context, body string) {
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/completions",
				strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			go func() {
				a, err := http.DefaultClient.Do(r)
				if err == nil {
					_, err = io.ReadAll(a.Body)
					a.Body.Close()
				}
				gone <- err
			}()
		}
		body := `{` + form + `"prompt":"A","max_tokens":200,"steps":100,"seed":1}`
		send(ctx, body)
		g.stuck()
		other, leave := context.WithCancel(t.Context())
		send(other, body)
		watched(t, s, 2)
		leave()
		require.Error(t, <-gone)
		watched(t, s, 1)
		g.pass(5)
		eventually(t, func() bool { return len(g.seen()) == 6 }, "it goes on")
		cancel()
		require.Error(t, <-gone)
		eventually(t, func() bool {
			return strings.Contains(metrics(t, s), `unmask_cancelled_total{why="client"} 1`)
		}, "it is given up")
		g.unshut()
		ask(t, h.URL+"/v1/completions", `{"prompt":"B","max_tokens":3,"steps":1}`)
		require.Len(t, g.seen(), 6+1, form)
	}
}

// What fails is one request's: a panic, a logit that is no number. The others have the bytes that
// they have alone.
func TestFaultsAreOnesOwn(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	well := func(i int) string {
		return fmt.Sprintf(`{"prompt":[%d],"max_tokens":20,"steps":4,"seed":3`, i)
	}
	var want []string
	for i := range 3 {
		want = append(want, ask(t, h.URL+"/v1/completions", well(i)+`,"user":"a"}`).Choices[0].Text)
	}
	g.shut()
	blocker := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":2,"steps":1}`)
	g.stuck()
	var all, bad []<-chan refusalAnswer
	for i := range 3 {
		all = append(all, later(t, h.URL+"/v1/completions", well(i)+`,"logprobs":0}`))
	}
	for _, token := range []int{panics, isNaN} {
		bad = append(bad, later(t, h.URL+"/v1/completions",
			fmt.Sprintf(`{"prompt":[5,%d],"max_tokens":19,"steps":3,"n":2}`, token)))
	}
	queued(t, s, 5)
	g.unshut()
	for i, a := range all {
		got := <-a
		require.Equal(t, 200, got.status, "%s", got.data)
		require.Equal(t, want[i], read(t, got.data).Choices[0].Text)
	}
	for i, text := range []string{"a step failed: out of order",
		"step 1 of 3: sequence 0, position 1: a logit is NaN"} {
		got := <-bad[i]
		refusal{"", 500, "step_failed", "", text}.compare(t, got.status, got.header, got.data)
	}
	require.Equal(t, 200, (<-blocker).status)
	require.Contains(t, streamEnd(t, h.URL, panics), `"code":"step_failed"`)
}

// streamEnd returns what ends the stream of a request that fails.
func streamEnd(t *testing.T, url string, token int) string {
	_, _, data := post(t, url+"/v1/completions",
		fmt.Sprintf(`{"prompt":[5,%d],"max_tokens":5,"steps":3,"stream":"events"}`, token))
	events := parseEvents(string(data))
	require.Equal(t, "error", events[len(events)-1].name)
	require.NotContains(t, string(data), "[DONE]")
	return events[len(events)-1].data
}

func TestFullQueues(t *testing.T) {
	g, s, h := gated(t, server.Options{Queue: 2})
	// tells how fast it is
	ask(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":200,"steps":4}`)
	g.shut()
	var all []<-chan refusalAnswer
	for i := range 3 {
		all = append(all, later(t, h.URL+"/v1/completions",
			fmt.Sprintf(`{"prompt":"A","max_tokens":9,"steps":2,"seed":%d}`, i)))
		if i == 0 {
			g.stuck()
		}
	}
	queued(t, s, 2)
	// The gate is shut: what is answered did not wait.
	status, header, data := post(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":9,"steps":2}`)
	refusal{"", 429, "queue_full", "", "2 requests wait, want at most 2"}.compare(t, status, header,
		data)
	g.unshut()
	for _, a := range all {
		require.Equal(t, 200, (<-a).status)
	}
}

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Work that would be too late is refused; work that is too late is given up.
func TestDeadlines(t *testing.T) {
	var clock stopped
	var log lockedLog
	g, s, h := gatedAt(t, server.Options{Timeout: 400 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))}, clock.now)
	g.shut()
	a := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":200,"steps":9}`)
	g.stuck()
	g.pass(2)
	eventually(t, func() bool { return len(g.seen()) == 3 }, "two passes end")
	clock.add(450 * time.Millisecond)
	g.pass(1)
	got := <-a
	refusal{"", 504, "deadline", "", "the request took 0.4 seconds, want at most that; it reached step 3 of 9"}.compare(t, got.status, got.header,
		got.data)
	eventually(t, func() bool { return strings.Contains(log.String(), "queue_ms=0 run_ms=450") },
		"what was not finished ran too")
	g.unshut()
	s.Close()
}

// Work that would wait longer than a request may take is refused with the time that it would be.
func TestWaitsAreEstimated(t *testing.T) {
	var clock stopped
	g, s, h := gatedAt(t, server.Options{Timeout: time.Minute}, clock.now)
	measurePace(t, g, h, "", &clock)
	later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":255,"steps":255,"n":64}`)
	watched(t, s, 1)
	status, header, data := post(t, h.URL+"/v1/completions",
		`{"prompt":"A","max_tokens":255,"steps":255,"n":64,"seed":1}`)
	refusal{"", 429, "queue_full", "", "the work that waits takes 20890 seconds"}.compare(t, status,
		header, data)
	require.Equal(t, "120", header.Get("Retry-After"))
	g.unshut()
	s.Close() // which gives the first up
}

// Draining refuses new work, gives up what waits, and ends what has begun.
func TestDraining(t *testing.T) {
	g, s, h := gated(t, server.Options{Rows: 8})
	g.shut()
	begun := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":7,"steps":3}`)
	g.stuck()
	waits := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":7,"steps":7,"seed":1}`)
	queued(t, s, 1)
	done := make(chan struct{})
	go func() {
		s.Drain(context.Background())
		close(done)
	}()
	got := <-waits
	refusal{"", 503, "shutting_down", "", "shutting down"}.compare(t, got.status, got.header, got.data)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	status, _, data := get(t, h.URL+"/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"draining"}`, string(data))
	status, header, data := post(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":7}`)
	refusal{"", 503, "shutting_down", "", "shutting down"}.compare(t, status, header, data)
	g.unshut()
	require.Equal(t, 200, (<-begun).status)
	<-done
}

// What a drain cuts tells its seed, which gives the same bytes.
func TestCutWorkTellsItsSeed(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	g.shut()
	a := later(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":7,"steps":3,"seed":12345}`)
	g.stuck()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s.Drain(ctx)
	go s.Close()
	got := <-a
	refusal{"", 503, "shutting_down", "", "seed 12345 gives the same bytes"}.compare(t, got.status,
		got.header, got.data)
	g.unshut()
}

func TestLoading(t *testing.T) {
	s, err := server.New(server.Options{Expect: 1})
	require.NoError(t, err)
	defer s.Close()
	listener := httptest.NewServer(s.Handler())
	defer listener.Close()
	h := listener.URL
	status, _, data := get(t, h+"/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"loading"}`, string(data))
	status, header, data := post(t, h+"/v1/completions", with(`"n":1`))
	refusal{"", 503, "loading", "", "loading"}.compare(t, status, header, data)
	require.NoError(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}))
	status, _, _ = get(t, h+"/readyz")
	require.Equal(t, 200, status)
	require.ErrorContains(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}), "twice")
	require.ErrorContains(t, s.Add(server.Model{Name: "a/b", Model: loaded()["demo"]}),
		"model name is")
}

// A thousand that come and go at once change no byte of another's answer.
func TestAThousandThatGo(t *testing.T) {
	s, h := serving(t, server.Options{Queue: 4096})
	body := `{"prompt":"Once upon","max_tokens":60,"steps":10,"seed":8,"user":"%d","n":%d}`
	want := ask(t, h.URL+"/v1/completions", fmt.Sprintf(body, 0, 2))
	stay := later(t, h.URL+"/v1/completions", fmt.Sprintf(body, 1, 3))
	eventually(t, func() bool { // it may not wait behind the others' work
		return s.Watching() == 1 || len(stay) == 1
	}, "the one that stays is there")
	var group sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 10}}
	defer client.CloseIdleConnections()
	for i := range 1000 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*time.Millisecond)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/completions", strings.NewReader(
				fmt.Sprintf(`{"prompt":"%d","max_tokens":200,"steps":100,"seed":%d}`, i, i)))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if a, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, a.Body)
				a.Body.Close()
			}
		})
	}
	group.Wait()
	got := <-stay
	require.Equal(t, 200, got.status, "%s", got.data)
	a := read(t, got.data)
	require.Equal(t, want.Choices[0].Text, a.Choices[0].Text)
	require.Equal(t, want.Choices[1].Text, a.Choices[1].Text)
	idle(t, s)
	ask(t, h.URL+"/v1/completions", `{"prompt":"B","max_tokens":3,"steps":1}`)
}
