package server

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mostMerged is the largest number of jobs that one stream may follow.
const mostMerged = 2

// jobIDs returns the jobs that a request for events names.
func jobIDs(r *http.Request) ([]string, *Fault) {
	ids := []string{}
	if id := r.PathValue("id"); id != "" {
		ids = append(ids, id)
	}
	if more := r.URL.Query().Get("ids"); more != "" {
		for id := range strings.SplitSeq(more, ",") {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if n := len(ids); n < 1 || n > mostMerged {
		return nil, outOfRange("ids", fmt.Sprintf("%d jobs", n), fmt.Sprintf("1 to %d", mostMerged))
	}
	return ids, nil
}

// lastEvents reads Last-Event-ID: the number of steps of each job that the client has.
func lastEvents(text string, list []*job) ([]int, *Fault) {
	from := make([]int, len(list))
	if text == "" {
		return from, nil
	}
	parts := strings.Split(text, ".")
	for i := range from {
		events, _, _ := list[i].work.since(0)
		n := -1
		if len(parts) == len(from) && isWhole(parts[i]) {
			if v, err := strconv.Atoi(parts[i]); err == nil {
				n = v
			}
		}
		if n < 0 || n > len(events) {
			return nil, outOfRange("Last-Event-ID", cut(text), fmt.Sprintf("0 to %d", len(events)))
		}
		from[i] = n
	}
	return from, nil
}

// merged streams the native events of several jobs as they come. Each event's data begins with its
// job; id is how many steps of each have come, such as 3.5.
func (s *stream) merged(list []*job, from []int) error {
	sent := slices.Clone(from)
	of := func(j *job, data []byte) []byte {
		return append([]byte(fmt.Sprintf(`{"job":%q,`, j.id)), bytes.TrimPrefix(data, []byte("{"))...)
	}
	for _, j := range list {
		if err := s.send("start", "", of(j, encode(j.work.start()))); err != nil {
			return err
		}
	}
	ended := make([]bool, len(list))
	ticker := time.NewTicker(s.times.beat)
	defer ticker.Stop()
	for {
		var waits []<-chan struct{}
		for i, j := range list {
			if ended[i] {
				continue
			}
			events, done, changed := j.work.since(sent[i])
			done = done || j.work.forgot()
			for k := range events {
				sent[i]++
				id := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(sent)), "."), "[]")
				if err := s.send("step", id, of(j, encode(events[k].Step))); err != nil {
					return err
				}
			}
			if !done {
				waits = append(waits, changed)
				continue
			}
			ended[i] = true
			a, f := j.work.result()
			name, data := "done", []byte(nil)
			if a == nil && f == nil {
				f = fault(http.StatusInternalServerError, "too_many_steps", "there are too many steps")
			}
			if f != nil {
				name, data = "error", f.JSON()
			} else {
				data = a.body
			}
			if err := s.send(name, "", of(j, data)); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
		if len(waits) == 0 {
			return nil
		}
		other := waits[0]
		if len(waits) > 1 {
			other = waits[1]
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-waits[0]:
		case <-other:
		case <-ticker.C:
			if err := s.write(": still here\n\n"); err != nil {
				return err
			}
		}
	}
}

// tooManyStreams is the fault of a stream beyond mostStreams.
func tooManyStreams() *Fault {
	f := fault(http.StatusTooManyRequests, "too_many_streams", "%d streams are open, want at most %d",
		mostStreams, mostStreams)
	f.Retry = 1
	return f
}
