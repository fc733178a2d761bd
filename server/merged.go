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

// maxMerged is the largest number of jobs that one stream may follow.
const maxMerged = 2

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
	if n := len(ids); n < 1 || n > maxMerged {
		return nil, outOfRange("ids", fmt.Sprintf("%d jobs", n), fmt.Sprintf("1 to %d", maxMerged))
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
		events, _, _ := list[i].call.Since(0)
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

// merging is a stream of the native events of several jobs. Each event's data begins with its job.
type merging struct {
	*stream
	jobs  []*job
	sent  []int  // [jobs] steps that the client has
	ended []bool // [jobs] the last event was sent
}

// merged streams the native events of several jobs as they come, each from its step from on.
func (s *stream) merged(list []*job, from []int) error {
	m := &merging{s, list, slices.Clone(from), make([]bool, len(list))}
	for _, j := range list {
		if err := m.send(j, "start", "", encode(j.call.start())); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(s.times.beat)
	defer ticker.Stop()
	for {
		waits, err := m.more()
		if err != nil {
			return err
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
			if err := s.write(s.dialect.beat); err != nil {
				return err
			}
		}
	}
}

// send sends an event of a job.
func (m *merging) send(j *job, name, id string, data []byte) error {
	data = append([]byte(fmt.Sprintf(`{"job":%q,`, j.id)), bytes.TrimPrefix(data, []byte("{"))...)
	return m.stream.send(name, id, data)
}

// more sends the events since the last call. It returns, for each job that goes on, the channel
// that is closed when there are further ones.
func (m *merging) more() (waits []<-chan struct{}, err error) {
	for i, j := range m.jobs {
		if m.ended[i] {
			continue
		}
		events, done, changed := j.call.Since(m.sent[i])
		done = done || j.call.Forgot()
		for k := range events {
			m.sent[i]++
			if err := m.send(j, "step", m.id(), encode(events[k].Step)); err != nil {
				return nil, err
			}
		}
		if !done {
			waits = append(waits, changed)
			continue
		}
		m.ended[i] = true
		if err := m.last(j); err != nil {
			return nil, err
		}
	}
	return waits, nil
}

// id returns how many steps of each job were sent, such as 3.5; lastEvents reads it.
func (m *merging) id() string {
	var parts []string
	for _, n := range m.sent {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// last sends a job's answer or its fault.
func (m *merging) last(j *job) error {
	a, f := j.call.result()
	if a == nil && f == nil { // the call dropped its steps
		f = fault(http.StatusInternalServerError, "too_many_steps", "there are too many steps")
	}
	if f != nil {
		return m.send(j, "error", "", f.JSON())
	}
	return m.send(j, "done", "", a.body)
}

// tooManyStreams is the fault of a stream beyond maxStreams.
func tooManyStreams() *Fault {
	f := fault(http.StatusTooManyRequests, "too_many_streams", "%d streams are open, want at most %d",
		maxStreams, maxStreams)
	f.Retry = 1
	return f
}
