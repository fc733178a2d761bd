package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"unmask/backend"
	"unmask/server"
)

// passes returns how many passes the server has made.
func (s *site) passes() float64 { return s.metric("unmask_pass_seconds_count") }

// metric returns a number that Prometheus reads.
func (s *site) metric(name string) float64 {
	w := httptest.NewRecorder()
	s.server.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return x
			}
		}
	}
	return 0
}

// tally counts answers.
type tally struct {
	sync.Mutex
	right, wrong, refused, left, failed int
	lastFault                           string
}

// mixed sends a mix of requests at nine tenths of the rate that the server can answer and compares
// every answer. Some clients leave before their answer.
func mixed(length time.Duration, threads int) error {
	s, err := open(server.Options{Cache: 1}, backend.F32, threads)
	if err != nil {
		return err
	}
	defer s.close()
	list, err := s.mix()
	if err != nil {
		return err
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, x := range list { // all at once, for the rate that the server can answer
		all.Go(func() { _, _, _ = s.post(context.Background(), x.path, x.fields) })
	}
	all.Wait()
	const load = 0.9
	gap := time.Since(began).Seconds() / float64(len(list)) / load
	var t tally
	var group sync.WaitGroup
	began = time.Now()
	var first int64
	next := time.Minute
	for time.Since(began) < length {
		x := list[rand.IntN(len(list))]
		leaves := rand.IntN(10) == 0
		streams := x.path == "/v1/completions" && rand.IntN(4) == 0
		group.Go(func() { s.one(&t, x, leaves, streams) })
		time.Sleep(time.Duration(rand.ExpFloat64() * gap * float64(time.Second)))
		if time.Since(began) >= next {
			used := resident()
			if first == 0 {
				first = used
			}
			t.Lock()
			fmt.Printf("%2.0f min: %d right, %d wrong, %d refused, %d left, %d failed; %s\n", next.Minutes(),
				t.right, t.wrong, t.refused, t.left, t.failed, memory(used))
			t.Unlock()
			next += time.Minute
		}
	}
	group.Wait()
	fmt.Printf("%.1f requests a second for %.0f minutes: %d right, %d wrong, %d refused (429), %d left, "+
		"%d failed %s; resident memory %+.0f MB since the first minute\n", 1/gap, length.Minutes(),
		t.right,
		t.wrong, t.refused, t.left, t.failed, t.lastFault, float64(resident()-first)/1e6)
	if t.wrong+t.failed > 0 {
		return fmt.Errorf("%d wrong and %d failed, want none", t.wrong, t.failed)
	}
	return nil
}

// one sends a request of the mix and counts its answer.
func (s *site) one(t *tally, x asked, leaves, streams bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if leaves {
		time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, cancel)
	}
	f := fields{}
	for name, value := range x.fields {
		f[name] = value
	}
	if streams {
		f["stream"] = "events"
	}
	status, body, err := s.post(ctx, x.path, f)
	if streams && status == 200 {
		_, done, _ := strings.Cut(string(body), "event: done\ndata: ")
		body = []byte(done)
	}
	t.Lock()
	defer t.Unlock()
	switch {
	case err != nil && leaves:
		t.left++
	case err != nil:
		t.failed++
		t.lastFault = err.Error()
	case status == 429:
		t.refused++
	case status != 200:
		t.failed++
		t.lastFault = string(body)
	default:
		got, err := essenceOf(body)
		if err != nil || got != x.want {
			t.wrong++
			return
		}
		t.right++
	}
}

// memory tells what the process has of resident bytes, and what of the heap is in use now, after
// the last collection, and kept for later.
func memory(resident int64) string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	mb := func(bytes uint64) float64 { return float64(bytes) / 1e6 }
	return fmt.Sprintf("resident %.0f MB, heap in use %.0f, live %.0f, idle %.0f; %d goroutines",
		float64(resident)/1e6, mb(m.HeapInuse), mb(live()), mb(m.HeapIdle-m.HeapReleased),
		runtime.NumGoroutine())
}

// live returns the bytes of the heap that the last collection found in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// resident returns the bytes of memory that the process has, 0 if it is unknown.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	parts := strings.Fields(string(data))
	if len(parts) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
