// Command serve measures the server under load, server and load in one process: how a request
// compares with the library's call, what sharing gives, what short requests wait for beside a long
// one, and what 4 times too many requests do.
//
//	go run ./tools/serve               ratios of one run
//	go run ./tools/serve --clients 1,8,64,500,1000
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"time"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/server"
)

func main() {
	seconds := flag.Float64("seconds", 20, "seconds of each measurement under load")
	threads := flag.Int("threads", 0, "processor cores of the models; 0 for all")
	clients := flag.String("clients", "", "numbers of clients at once, such as 1,8,64: what they get")
	flag.Parse()
	if *threads == 0 {
		*threads = runtime.GOMAXPROCS(0)
	}
	server.TuneProcess() // as unmask serve does
	each := time.Duration(*seconds * float64(time.Second))
	var list []int
	var err error
	if *clients != "" {
		list, err = parseClients(*clients)
	}
	switch {
	case err != nil:
	case list != nil:
		err = load(list, each, *threads)
	default:
		err = run(each, *threads)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(each time.Duration, threads int) error {
	for _, measure := range []func(each time.Duration, threads int) error{oneClient, sharing,
		besideLong,
		overload, leaving, watchers} {
		if err := measure(each, threads); err != nil {
			return err
		}
	}
	return nil
}

// site is a server with what asks it.
type site struct {
	url    string
	server *server.Server
	text   *unmask.Model
	given  int // tokens of the prompt
	close  func()
}

// known returns the tokens of the prompt and of masks up to a length, 0 for the model's.
func (s *site) known(length int) ([]int32, error) {
	q, err := s.text.Prepare(context.Background(), unmask.Request{Prompt: prompt, Length: length})
	return q.Known, err
}

// open serves the demo's model of text.
func open(o server.Options, p backend.Precision, threads int) (*site, error) {
	s := &site{}
	var err error
	load := unmask.Options{Threads: threads, Precision: p}
	if s.text, err = unmask.LoadFS(demo.Text(), "demo", load); err != nil {
		return nil, err
	}
	known, err := s.known(0)
	if err != nil {
		return nil, err
	}
	s.given = slices.Index(known, s.text.Spec().Mask)
	if s.server, err = server.New(o); err != nil {
		return nil, err
	}
	if err := s.server.Add(server.Model{Name: "demo", Model: s.text, Precision: p}); err != nil {
		return nil, err
	}
	listener := httptest.NewServer(s.server.Handler())
	s.url = listener.URL
	s.close = func() {
		listener.Close()
		s.server.Close()
	}
	return s, nil
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512}}

// post sends a request and reads all of its answer.
func (s *site) post(ctx context.Context, path string, request any) (status int, body []byte,
	err error) {
	data, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	body, err = io.ReadAll(a.Body)
	return a.StatusCode, body, err
}

// fields are those of a request.
type fields map[string]any

// prompt is what all texts begin with.
const prompt = "Lily was a brave girl."

// completion returns a request for a text of some tokens, the prompt's among them.
func (s *site) completion(rows, steps, seed int) fields {
	return fields{"model": "demo", "prompt": prompt, "max_tokens": rows - s.given, "steps": steps,
		"seed": seed}
}

// timed posts a completion and returns its seconds; an error is anything but 200.
func (s *site) timed(f fields) (float64, error) {
	began := time.Now()
	status, body, err := s.post(context.Background(), "/v1/completions", f)
	if err == nil && status != 200 {
		err = fmt.Errorf("%d: %s", status, body)
	}
	return time.Since(began).Seconds(), err
}

// quantile returns the value below which a share of the sorted list is.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
