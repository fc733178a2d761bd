package server

import (
	"container/list"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"unmask/param"
)

// Bounds of what jobs keep, in memory.
const (
	maxJobs     = 1000
	maxJobBytes = 256 << 20
	jobTime     = time.Hour
)

// job is a call that outlives its client.
type job struct {
	id      string
	owner   string // the name of the client's key
	made    time.Time
	call    *call
	deleted bool
	place   *list.Element
}

// jobs are kept by id, the oldest first.
type jobs struct {
	byID  map[string]*job
	order list.List // of *job
}

// jobStatus is the JSON that describes a job.
type jobStatus struct {
	ID     string          `json:"id"`
	Object string          `json:"object"`
	Kind   string          `json:"kind"`
	Key    string          `json:"key"`
	Status string          `json:"status"` // queued, running, done, failed or cancelled
	Ahead  int             `json:"ahead"`
	Wait   float64         `json:"wait_seconds"`
	Step   int             `json:"step"`
	Steps  int             `json:"steps"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// readers read the requests of jobs by their kind.
func (s *Server) readers() map[string]reader {
	return map[string]reader{"completions": s.completions, "chat": s.chats, "infill": s.infill,
		"images": s.generations}
}

// newJob answers POST /v1/jobs.
func (s *Server) newJob(w http.ResponseWriter, r *http.Request, f *fields) {
	readers := s.readers()
	kinds := sortedKeys(readers)
	if !f.has("kind") {
		f.fail(missing("kind", param.Either(kinds)))
	}
	kind := f.word("kind", kinds...)
	raw := f.value("request")
	inner := &fields{}
	if f.fault == nil && (raw == nil || json.Unmarshal(raw, &inner.object) != nil) {
		f.fail(missing("request", "an object: that of the route"))
	}
	if fault := f.end(); fault != nil {
		fault.write(w)
		return
	}
	q, st := readers[kind](r, inner)
	if st.form != "" {
		inner.fail(bad("unsupported_parameter", "stream",
			"stream is given, want it left out: a job's steps are at /v1/jobs/{id}/events"))
	}
	if fault := inner.end(); fault != nil {
		if fault.Param != "" {
			fault.Param = "request." + fault.Param
		}
		fault.write(w)
		return
	}
	j, fault := s.start(q, keyName(r))
	if fault != nil {
		fault.write(w)
		return
	}
	n := note(r)
	n.rows, n.call = j.call.Rows, j.call
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Location", "/v1/jobs/"+j.id)
	w.WriteHeader(http.StatusAccepted)
	status := j.status()
	status.Result = nil
	writeJSON(w, encode(status))
}

// start begins a job.
func (s *Server) start(q query, owner string) (*job, *Fault) {
	made, _, fault := s.begin(q, owner)
	if fault != nil {
		return nil, fault
	}
	j := &job{id: "job-" + rand.Text(), owner: owner, made: time.Now(), call: made}
	s.mu.Lock()
	if s.jobs.byID == nil {
		s.jobs.byID = map[string]*job{}
	}
	s.jobs.byID[j.id], j.place = j, s.jobs.order.PushBack(j)
	lost := s.jobs.sweep()
	s.mu.Unlock()
	for _, old := range lost {
		s.unwatch(old.call, "deleted")
	}
	return j, nil
}

// sweep forgets jobs that are too old, and the oldest where there are too many or too large ones.
// It returns those whose calls may still run. The lock is held.
func (k *jobs) sweep() (lost []*job) {
	drop := func(j *job) {
		delete(k.byID, j.id)
		k.order.Remove(j.place)
		if !j.deleted {
			lost = append(lost, j)
		}
	}
	bytes := int64(0)
	var next *list.Element
	for at := k.order.Back(); at != nil; at = next {
		next = at.Prev()
		j := at.Value.(*job)
		bytes += j.call.Size()
		if j.old() || bytes > maxJobBytes && j.done() {
			drop(j)
		}
	}
	for len(k.byID) > maxJobs {
		drop(k.order.Front().Value.(*job))
	}
	return lost
}

// done reports whether the job's call is done.
func (j *job) done() bool {
	_, done, _ := j.call.Since(0)
	return done
}

// old reports whether a job that is done has been kept for as long as jobs are.
func (j *job) old() bool { return time.Since(j.made) > jobTime && j.done() }

// job returns a job of the client. The fault is the same for another client's job and for no job.
func (s *Server) job(r *http.Request, id string) (*job, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs.byID[id]
	if j == nil || j.owner != keyName(r) || j.old() {
		return nil, fault(http.StatusNotFound, "job_not_found", "there is no such job")
	}
	return j, nil
}

// status returns how far a job is.
func (j *job) status() jobStatus {
	c := j.call
	st := jobStatus{ID: j.id, Object: "job", Kind: j.call.kind, Key: c.Key, Status: "queued"}
	st.Step, st.Steps = c.Progress()
	_, done, _ := c.Since(0)
	a, f := c.result()
	switch {
	case j.deleted:
		st.Status = "cancelled"
	case !done:
		if c.Begun() {
			st.Status = "running"
		}
		st.Ahead, st.Wait = c.Ahead()
		st.Wait = round(st.Wait)
	case f != nil:
		st.Status = "failed"
		var body struct{ Error json.RawMessage }
		_ = json.Unmarshal(f.JSON(), &body) // it is our own
		st.Error = body.Error
	default:
		st.Status, st.Result = "done", a.body
	}
	return st
}

// oneJob answers GET /v1/jobs/{id}.
func (s *Server) oneJob(w http.ResponseWriter, r *http.Request) {
	j, fault := s.job(r, r.PathValue("id"))
	if fault != nil {
		fault.write(w)
		return
	}
	s.mu.Lock()
	status := j.status()
	s.mu.Unlock()
	writeJSON(w, encode(status))
}

// deleteJob answers DELETE /v1/jobs/{id}. A second DELETE of a job changes nothing.
func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) {
	j, fault := s.job(r, r.PathValue("id"))
	if fault != nil {
		fault.write(w)
		return
	}
	s.mu.Lock()
	first := !j.deleted
	j.deleted = true
	s.mu.Unlock()
	if first {
		s.unwatch(j.call, "deleted")
	}
	w.WriteHeader(http.StatusNoContent)
}

// jobEvents answers GET /v1/jobs/{id}/events, and /v1/jobs/events?ids=a,b for two in one stream.
func (s *Server) jobEvents(w http.ResponseWriter, r *http.Request) {
	ids, fault := jobIDs(r)
	var list []*job
	for _, id := range ids {
		if fault != nil {
			break
		}
		var j *job
		if j, fault = s.job(r, id); fault == nil {
			list = append(list, j)
		}
	}
	if fault != nil {
		fault.write(w)
		return
	}
	from, fault := lastEvents(r.Header.Get("Last-Event-ID"), list)
	if fault != nil {
		fault.write(w)
		return
	}
	if !s.opens() {
		tooManyStreams().write(w)
		return
	}
	defer s.closes()
	out := s.newStream(w, r, false)
	var err error
	if len(list) == 1 {
		j := list[0]
		if pictures, ok := j.call.form.(pictureForm); ok {
			err = out.pictures(j.call, pictures, true, from[0])
		} else {
			err = out.events(j.call, from[0])
		}
	} else {
		err = out.merged(list, from)
	}
	note(r).gone = err != nil
}
