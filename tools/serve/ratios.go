package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"unmask/backend"
	"unmask/generate"
	"unmask/server"
)

// oneClient compares a request with the library's call for the same work, in turn.
func oneClient(each time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	known, err := s.known(256)
	if err != nil {
		return err
	}
	d, err := s.text.Defaults()
	if err != nil {
		return err
	}
	d.Steps = 32
	var http, library []float64
	for end, seed := time.Now().Add(each), 0; time.Now().Before(end); seed++ {
		t, err := s.timed(s.completion(256, 32, seed))
		if err != nil {
			return err
		}
		http = append(http, t)
		began := time.Now()
		run := generate.Options{Request: generate.Request{Recipe: d, Seed: uint64(seed), Known: known}}
		for step, err := range generate.Run(context.Background(), s.text.Denoiser, run) {
			if err != nil {
				return err
			}
			if step.Done {
				_ = s.text.Text.Decode(step.Sequences[0].Tokens)
			}
		}
		library = append(library, time.Since(began).Seconds())
	}
	a, b := quantile(http, 0.5), quantile(library, 0.5)
	fmt.Printf("one client: HTTP %.1f ms, library %.1f ms, ratio %.3f (want at most 1.02 and 2 ms: %.3f)\n",
		a*1e3, b*1e3, a/b, (a-0.002)/b)
	return nil
}

// together makes work with some clients at once, in turn with one after another, and returns the
// ratio of throughputs.
func together(each time.Duration, threads int, p backend.Precision,
	request func(s *site, seed int) fields) (float64, error) {
	s, err := open(server.Options{Cache: 1}, p, threads)
	if err != nil {
		return 0, err
	}
	defer s.close()
	const clients = 8
	var alone, shared float64
	seed := 0
	for end := time.Now().Add(each); time.Now().Before(end); {
		began := time.Now()
		for range clients {
			seed++
			if _, err := s.timed(request(s, seed)); err != nil {
				return 0, err
			}
		}
		alone += time.Since(began).Seconds()
		began = time.Now()
		var group sync.WaitGroup
		failed := make(chan error, clients)
		for range clients {
			seed++
			f := request(s, seed)
			group.Go(func() {
				if _, err := s.timed(f); err != nil {
					failed <- err
				}
			})
		}
		group.Wait()
		shared += time.Since(began).Seconds()
		select {
		case err := <-failed:
			return 0, err
		default:
		}
	}
	return alone / shared, nil
}

// sharing measures 8 equal clients against one after another.
func sharing(each time.Duration, threads int) error {
	full, err := together(each, threads, backend.F32, func(s *site, seed int) fields {
		return s.completion(256, 16, seed)
	})
	if err != nil {
		return err
	}
	short, err := together(each, threads, backend.BF16, func(s *site, seed int) fields {
		return s.completion(48, 8, seed)
	})
	if err != nil {
		return err
	}
	fmt.Printf("8 clients at once / one after another: f32 of 256 rows %.2f (want 1.0), "+
		"bf16 of 48 rows %.2f (want 1.1)\n", full, short)
	return nil
}

// longSteps are those of a long run: nearly one for each position.
const longSteps = 240

// besideLong measures short requests, one a while, beside a long run.
func besideLong(each time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	shorts := func(ctx context.Context) (list []float64, err error) {
		for seed := 0; ctx.Err() == nil; seed++ {
			t, err := s.timed(s.completion(48, 8, 1000+seed))
			if err != nil {
				return nil, err
			}
			list = append(list, t)
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(100*time.Millisecond)))
		}
		return list, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), each/2)
	alone, err := shorts(ctx)
	cancel()
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.timed(s.completion(256, longSteps, 1)); err != nil {
		return err
	}
	pass := time.Since(began).Seconds() / longSteps
	ctx, cancel = context.WithTimeout(context.Background(), each)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		for seed := 2; ctx.Err() == nil; seed++ {
			if _, _, err := s.post(ctx, "/v1/completions", s.completion(256, longSteps, seed)); err != nil {
				return
			}
		}
	})
	beside, err := shorts(ctx)
	group.Wait()
	if err != nil {
		return err
	}
	for _, q := range []float64{0.5, 0.99} {
		fmt.Printf("48 rows x 8 steps beside 256 x %d: p%.0f %.1f ms, alone %.1f ms: %.1f passes of the "+
			"long one more (in order of arrival: up to %[1]d)\n", longSteps, q*100, quantile(beside, q)*1e3,
			quantile(alone, q)*1e3, (quantile(beside, q)-quantile(alone, q))/pass)
	}
	return nil
}

// overload sends four times the number of requests that the server can answer.
func overload(each time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1, Queue: 16}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	// Capacity: 16 at once, without refusals.
	count := func(clients int) float64 {
		var group sync.WaitGroup
		var mu sync.Mutex
		done, seed := 0, 0
		began := time.Now()
		for range clients {
			group.Go(func() {
				for time.Since(began) < each/4 {
					mu.Lock()
					seed++
					f := s.completion(64, 16, seed)
					mu.Unlock()
					if _, err := s.timed(f); err == nil {
						mu.Lock()
						done++
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		return float64(done) / time.Since(began).Seconds()
	}
	count(16) // which takes the memory of keys and values
	before := heap()
	var sum overloaded
	for range 4 { // in turn, as the machine may have other work
		capacity := count(16)
		s.flood(&sum, capacity, each)
	}
	sum.Wait()
	fmt.Printf("4 times too many: answered %.2f of capacity (want 0.95), %d refused in p50 %.1f ms, "+
		"p99 %.1f ms (want 10), %d failed, heap +%.0f MB (want 64)\n", sum.share/4, len(sum.refusals),
		quantile(sum.refusals, 0.5)*1e3, quantile(sum.refusals, 0.99)*1e3, sum.failed,
		float64(sum.heap-before)/1e6)
	return nil
}

// overloaded counts what becomes of too many requests.
type overloaded struct {
	sync.Mutex
	sync.WaitGroup
	refusals []float64 // seconds
	failed   int
	seed     int
	share    float64 // of capacity, summed
	heap     int64   // the most
}

// flood sends 4 times the capacity, in requests a second, for a time.
func (s *site) flood(sum *overloaded, capacity float64, length time.Duration) {
	answered := 0
	began := time.Now()
	for time.Since(began) < length {
		sum.seed++
		f := s.completion(64, 16, 1<<20+sum.seed)
		sum.Go(func() {
			sent := time.Now()
			status, _, err := s.post(context.Background(), "/v1/completions", f)
			took := time.Since(sent).Seconds()
			sum.Lock()
			defer sum.Unlock()
			switch {
			case err != nil || status != 200 && status != 429:
				sum.failed++
			case status == 429:
				sum.refusals = append(sum.refusals, took)
			default:
				answered++
			}
		})
		time.Sleep(time.Duration(rand.ExpFloat64() / (4 * capacity) * float64(time.Second)))
	}
	sum.Lock()
	defer sum.Unlock()
	sum.share += float64(answered) / time.Since(began).Seconds() / capacity
	sum.heap = max(sum.heap, heap())
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
func leaving(_ time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	most := 0.0
	for seed := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, _, err := s.post(ctx, "/v1/completions", s.completion(256, longSteps, seed))
		cancel()
		if err == nil {
			return fmt.Errorf("a request of many steps was answered in 100 ms")
		}
		at := s.passes()
		time.Sleep(200 * time.Millisecond)
		most = max(most, s.passes()-at)
	}
	fmt.Printf("passes made after a client left: at most %.0f (want 1)\n", most)
	return nil
}

// watchers compares throughput with 64 that watch the same work with throughput without.
func watchers(each time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	var without, with float64
	for end, seed := time.Now().Add(each), 0; time.Now().Before(end); seed += 2 {
		t, err := s.timed(s.completion(256, longSteps, seed))
		if err != nil {
			return err
		}
		without += t
		f := s.completion(256, longSteps, seed+1)
		f["stream"] = "events"
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() { _, _, _ = s.post(context.Background(), "/v1/completions", f) })
		}
		began := time.Now()
		group.Wait()
		with += time.Since(began).Seconds()
	}
	fmt.Printf("throughput with 64 watchers / without: %.2f (want 0.97)\n", without/with)
	return nil
}
