package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/generate"
	"unmask/server"
)

// These measure the server under load, server and load in one process:
//
//	go test ./server -run xxx -bench Load -benchtime 1x -load 6s
//	go test ./server -run xxx -bench Clients -benchtime 1x -load 20s
var loadTime = flag.Duration("load", time.Second, "of each measurement of BenchmarkLoad")

// site is a server of the demo's model of text.
type site struct {
	url    string
	server *server.Server
	text   *unmask.Model
	given  int // tokens of the prompt
}

// tuned tunes the process as unmask serve does, and returns the threads of models.
var tuned = sync.OnceValue(func() int {
	threads := runtime.GOMAXPROCS(0)
	server.TuneProcess()
	return threads
})

// opened serves the model until the benchmark's end.
func opened(b *testing.B, o server.Options, p backend.Precision) *site {
	s, threads := &site{}, tuned()
	runtime.GOMAXPROCS(threads + 1) // testing sets it anew for each benchmark
	var err error
	s.text, err = unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: threads, Precision: p})
	require.NoError(b, err)
	s.given = slices.Index(s.known(b), s.text.Spec().Mask)
	s.server, err = server.New(o)
	require.NoError(b, err)
	require.NoError(b, s.server.Add(server.Model{Name: "demo", Model: s.text, Precision: p}))
	h := httptest.NewServer(s.server.Handler())
	b.Cleanup(func() {
		h.Close()
		s.server.Close()
	})
	s.url = h.URL
	return s
}

// loadPrompt is what all texts begin with.
const loadPrompt = "Lily was a brave girl."

// known returns the tokens of the prompt and of masks up to the model's 256.
func (s *site) known(b *testing.B) []int32 {
	return knownOf(b, s.text, unmask.Request{Prompt: loadPrompt})
}

var loadClient = &http.Client{
	Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512}}

// fields are those of a request.
type fields map[string]any

// completion returns a request for a text of some tokens, the prompt's among them.
func (s *site) completion(rows, steps, seed int) fields {
	return fields{"model": "demo", "prompt": loadPrompt, "max_tokens": rows - s.given,
		"steps": steps, "seed": seed}
}

// post sends a request, reads all of its answer and returns its status and seconds.
func (s *site) post(ctx context.Context, f fields) (status int, seconds float64, err error) {
	began := time.Now()
	data, err := json.Marshal(f)
	if err != nil {
		return 0, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/completions", bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := loadClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, time.Since(began).Seconds(), err
}

// timed returns the seconds of a request that must be answered.
func (s *site) timed(b *testing.B, f fields) float64 {
	status, seconds, err := s.post(b.Context(), f)
	assert.NoError(b, err)
	assert.Equal(b, 200, status)
	return seconds
}

// quantile returns the value below which a share of the list is.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}

func BenchmarkLoad(b *testing.B) {
	for _, x := range []struct {
		name    string
		measure func(b *testing.B)
	}{{"OneClient", oneClient}, {"Sharing", sharing}, {"BesideLong", besideLong},
		{"Overload", overload}, {"Leaving", leaving}, {"Watchers", watchers}} {
		b.Run(x.name, x.measure)
	}
}

// oneClient compares a request with the library's call for the same work, in turn.
func oneClient(b *testing.B) {
	s := opened(b, server.Options{Cache: 1}, backend.F32)
	d, err := s.text.Defaults()
	require.NoError(b, err)
	d.Steps = 32
	known := s.known(b)
	var asked, library []float64
	for end, seed := time.Now().Add(*loadTime), 0; time.Now().Before(end); seed++ {
		asked = append(asked, s.timed(b, s.completion(256, 32, seed)))
		began := time.Now()
		run := generate.Options{Request: generate.Request{Recipe: d, Seed: uint64(seed), Known: known}}
		for step, err := range generate.Run(b.Context(), s.text.Denoiser, run) {
			require.NoError(b, err)
			if step.Done {
				_ = s.text.Text.Decode(step.Sequences[0].Tokens)
			}
		}
		library = append(library, time.Since(began).Seconds())
	}
	one, other := quantile(asked, 0.5), quantile(library, 0.5)
	b.ReportMetric(one/other, "HTTP/library") // want at most 1.02
	b.ReportMetric((one-0.002)/other, "less-2ms/library")
}

// sharing measures 8 equal clients against one after another, in turn.
func sharing(b *testing.B) {
	const clients = 8
	for _, x := range []struct {
		p           backend.Precision
		rows, steps int
		unit        string
	}{{backend.F32, 256, 16, "f32-256rows-gain"}, {backend.BF16, 48, 8, "bf16-48rows-gain"}} {
		s := opened(b, server.Options{Cache: 1}, x.p)
		var alone, shared time.Duration
		for end, seed := time.Now().Add(*loadTime), 0; time.Now().Before(end); seed += 2 * clients {
			began := time.Now()
			for c := range clients {
				s.timed(b, s.completion(x.rows, x.steps, seed+c))
			}
			alone += time.Since(began)
			began = time.Now()
			var all sync.WaitGroup
			for c := range clients {
				all.Go(func() { s.timed(b, s.completion(x.rows, x.steps, seed+clients+c)) })
			}
			all.Wait()
			shared += time.Since(began)
		}
		b.ReportMetric(alone.Seconds()/shared.Seconds(), x.unit) // want 1.0 and 1.1
	}
}

// longSteps are those of a long run: nearly one for each position.
const longSteps = 240

// besideLong measures short requests, one a while, beside a long run.
func besideLong(b *testing.B) {
	s := opened(b, server.Options{Cache: 1}, backend.F32)
	shorts := func(length time.Duration) (list []float64) {
		for end, seed := time.Now().Add(length), 1000; time.Now().Before(end); seed++ {
			list = append(list, s.timed(b, s.completion(48, 8, seed)))
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(100*time.Millisecond)))
		}
		return list
	}
	alone := shorts(*loadTime / 2)
	pass := s.timed(b, s.completion(256, longSteps, 1)) / longSteps
	ctx, cancel := context.WithCancel(b.Context())
	var long sync.WaitGroup
	long.Go(func() {
		for seed := 2; ctx.Err() == nil; seed++ {
			s.post(ctx, s.completion(256, longSteps, seed))
		}
	})
	beside := shorts(*loadTime)
	cancel()
	long.Wait()
	for _, q := range []float64{0.5, 0.99} { // in order of arrival: up to longSteps
		b.ReportMetric((quantile(beside, q)-quantile(alone, q))/pass,
			fmt.Sprintf("long-passes-more-p%.0f", 100*q))
	}
}

// overload sends four times the number of requests that the server can answer.
func overload(b *testing.B) {
	s := opened(b, server.Options{Cache: 1, Queue: 16}, backend.F32)
	seed := 0
	capacity := func() float64 { // answers a second to 16 clients
		var all sync.WaitGroup
		var mu sync.Mutex
		done, began := 0, time.Now()
		for range 16 {
			all.Go(func() {
				for time.Since(began) < *loadTime/4 {
					mu.Lock()
					seed++
					f := s.completion(64, 16, seed)
					mu.Unlock()
					if status, _, err := s.post(b.Context(), f); err == nil && status == 200 {
						mu.Lock()
						done++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		return float64(done) / time.Since(began).Seconds()
	}
	capacity() // which takes the memory of keys and values
	before, most, share := heap(), int64(0), 0.0
	var mu sync.Mutex
	var all sync.WaitGroup
	var refusals []float64
	failed := 0
	for range 4 { // in turn, as the machine may have other work
		at := capacity()
		answered, began := 0, time.Now()
		for time.Since(began) < *loadTime {
			seed++
			f := s.completion(64, 16, seed)
			all.Go(func() {
				status, took, err := s.post(b.Context(), f)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil || status != 200 && status != 429:
					failed++
				case status == 429:
					refusals = append(refusals, took)
				default:
					answered++
				}
			})
			time.Sleep(time.Duration(rand.ExpFloat64() / (4 * at) * float64(time.Second)))
		}
		mu.Lock()
		share += float64(answered) / time.Since(began).Seconds() / at / 4
		most = max(most, heap())
		mu.Unlock()
	}
	all.Wait()
	b.ReportMetric(share, "of-capacity") // want 0.95
	b.ReportMetric(quantile(refusals, 0.5)*1e3, "refusal-ms-p50")
	b.ReportMetric(quantile(refusals, 0.99)*1e3, "refusal-ms-p99") // want 10
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(float64(most-before)/1e6, "heap-MB") // want 64
}

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// passes returns how many passes the server has made, as Prometheus reads it.
func (s *site) passes() float64 {
	w := httptest.NewRecorder()
	s.server.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), "\nunmask_pass_seconds_count ")
	text, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.ParseFloat(text, 64) // 0 where it is not there
	return n
}

// leaving counts passes that are made for clients that went.
func leaving(b *testing.B) {
	s := opened(b, server.Options{Cache: 1}, backend.F32)
	most := 0.0
	for seed := range 20 {
		ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
		_, _, err := s.post(ctx, s.completion(256, longSteps, seed))
		cancel()
		require.Error(b, err, "a request of many steps was answered in 100 ms")
		at := s.passes()
		time.Sleep(200 * time.Millisecond)
		most = max(most, s.passes()-at)
	}
	b.ReportMetric(most, "passes-after") // want 1
}

// watchers compares throughput with 64 that watch the same work with throughput without.
func watchers(b *testing.B) {
	s := opened(b, server.Options{Cache: 1}, backend.F32)
	var without, with float64
	for end, seed := time.Now().Add(*loadTime), 0; time.Now().Before(end); seed += 2 {
		without += s.timed(b, s.completion(256, longSteps, seed))
		f := s.completion(256, longSteps, seed+1)
		f["stream"] = "events"
		began := time.Now()
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { s.timed(b, f) })
		}
		all.Wait()
		with += time.Since(began).Seconds()
	}
	b.ReportMetric(without/with, "of-throughput") // want 0.97
}

// BenchmarkClients measures what numbers of clients get: each asks for one text after the other,
// with other seeds, and after a 429 waits for as long as it is told.
func BenchmarkClients(b *testing.B) {
	for _, n := range []int{1, 8, 64, 500, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { manyClients(b, n) })
	}
}

func manyClients(b *testing.B, n int) {
	s := opened(b, server.Options{}, backend.F32)
	ctx, cancel := context.WithTimeout(b.Context(), *loadTime)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	var took []float64 // seconds, of answers
	refused, failed := 0, 0
	for c := range n {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				status, seconds, err := s.post(ctx, s.completion(64, 8, c<<20|i))
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				switch {
				case err == nil && status == http.StatusOK:
					took = append(took, seconds)
				case err == nil && status == http.StatusTooManyRequests:
					refused++
				default:
					failed++
				}
				mu.Unlock()
				if status == http.StatusTooManyRequests {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // the least that Retry-After says
					}
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(len(took))/loadTime.Seconds(), "answers/s")
	b.ReportMetric(quantile(took, 0.5)*1e3, "p50-ms")
	b.ReportMetric(quantile(took, 0.99)*1e3, "p99-ms")
	b.ReportMetric(float64(refused), "refused")
	b.ReportMetric(float64(failed), "failed")
}
