package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
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

// asked is a request of the mix with what every answer to it has.
type asked struct {
	path string
	fields
	want [sha256.Size]byte
}

// essence is the part of an answer that depends on the request alone.
func essence(body []byte) ([sha256.Size]byte, error) {
	var a struct {
		Choices []struct {
			Text   string
			Tokens []int32
		}
		Data []struct {
			B64 string `json:"b64_json"`
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return [sha256.Size]byte{}, err
	}
	for i := range a.Data {
		if _, err := base64.StdEncoding.DecodeString(a.Data[i].B64); err != nil {
			return [sha256.Size]byte{}, err
		}
	}
	data, err := json.Marshal(a)
	return sha256.Sum256(data), err
}

// mix returns requests of all kinds. What each is to be answered with is computed before there is
// any load; tests compare such answers with the command's.
func (s *site) mix() (list []asked, err error) {
	for i := range 24 {
		list = append(list, asked{path: "/v1/completions", fields: completion(10+7*i, 4+i, i)})
		rule := []string{"moment", "halton", "maskgit", "eb(margin)", "semi-ar(hybrid)", "remdm"}[i%6]
		list = append(list, asked{path: "/v1/infill", fields: fields{"parts": []any{"To be, ", 5 + i,
			" not ",
			4, "."}, "steps": 5, "seed": i, "sampler": rule, "n": 1 + i%3}})
		if i%3 == 0 {
			list = append(list, asked{path: "/v1/images/generations", fields: fields{"prompt": "", "seed": i,
				"steps": 4 + i%8, "n": 1 + i%2}})
		}
	}
	for i := range list {
		status, body, err := s.post(context.Background(), list[i].path, list[i].fields)
		if err != nil || status != 200 {
			return nil, fmt.Errorf("%v: %d %s %v", list[i].fields, status, body, err)
		}
		if list[i].want, err = essence(body); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// tally counts answers.
type tally struct {
	sync.Mutex
	right, wrong, refused, left, failed int
	lastFault                           string
}

// mixed sends a mix at about what the server can answer, some of which leave before their answer,
// and compares every answer.
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
	for i := range list { // a second time, for the rate of arrivals
		if _, _, err := s.post(context.Background(), list[i].path, list[i].fields); err != nil {
			return err
		}
	}
	gap := time.Since(began).Seconds() / float64(len(list)) / 1.2
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
			fmt.Printf("%2.0f min: %d right, %d wrong, %d refused, %d left, %d failed; resident %.0f MB, "+
				"heap %.1f MB\n", next.Minutes(), t.right, t.wrong, t.refused, t.left, t.failed,
				float64(used)/1e6, float64(heap())/1e6)
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
		got, err := essence(body)
		if err != nil || got != x.want {
			t.wrong++
			return
		}
		t.right++
	}
}

// resident returns the bytes of memory that the process has, 0 where that is not known.
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
