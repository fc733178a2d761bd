package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"unmask/backend"
	"unmask/server"
)

// maxClients bounds --clients: each one keeps a connection open.
const maxClients = 4096

// parseClients reads numbers of clients, such as 1,8,64.
func parseClients(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > maxClients {
			return nil, fmt.Errorf("clients is %q, want numbers of 1 to %d, such as 1,8,64", text,
				maxClients)
		}
		list = append(list, n)
	}
	return list, nil
}

// load prints, for each number of clients, what they get: each asks for one text after the other,
// with other seeds, and after a 429 waits for as long as it is told.
func load(list []int, each time.Duration, threads int) error {
	fmt.Println("clients  answers/s  p50 ms  p99 ms  refused  failed")
	for _, n := range list {
		s, err := open(server.Options{}, backend.F32, threads)
		if err != nil {
			return err
		}
		s.clients(n, each)
		s.close()
	}
	return nil
}

// clients measures n clients for a time, and prints a line.
func (s *site) clients(n int, each time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), each)
	defer cancel()
	var (
		mu      sync.Mutex
		took    []float64 // ms, of answers
		refused atomic.Int64
		failed  atomic.Int64
		all     sync.WaitGroup
	)
	for c := range n {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now()
				status, _, err := s.post(ctx, "/v1/completions", s.completion(64, 8, c<<20|i))
				switch {
				case ctx.Err() != nil:
					return
				case err != nil || status != http.StatusOK && status != http.StatusTooManyRequests:
					failed.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // the least that Retry-After says
					}
				default:
					mu.Lock()
					took = append(took, 1000*time.Since(began).Seconds())
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%7d  %9.1f  %6.0f  %6.0f  %7d  %6d\n", n, float64(len(took))/each.Seconds(),
		quantile(took, 0.5), quantile(took, 0.99), refused.Load(), failed.Load())
}
