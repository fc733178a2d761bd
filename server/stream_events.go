package server

import (
	"strconv"

	"unmask/generate/traces"
	"unmask/server/engine"
)

// startEvent is the header of a trace, and where the call stands.
type startEvent struct {
	traces.Header
	Key     string  `json:"key"`
	ID      string  `json:"id"`
	First   int     `json:"first"`
	Choices int     `json:"choices"`
	Rows    int64   `json:"rows"` // of all steps, at most
	Ahead   int     `json:"ahead"`
	Wait    float64 `json:"wait_seconds"`
}

func (c *call) start() startEvent {
	ahead, wait := c.Ahead()
	return startEvent{Header: c.header(), Key: c.Key, ID: c.id(),
		First: int(c.sequences[0].Index), Choices: len(c.Members), Rows: c.Rows,
		Ahead: ahead, Wait: round(wait)}
}

// round keeps three digits of a second.
func round(seconds float64) float64 { return float64(int64(seconds*1000+0.5)) / 1000 }

// events streams the native form: start, step, done or error. All data lines but the last are a
// trace.
func (s *stream) events(w *call) error {
	if err := s.send("start", "", encode(w.start())); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	err := s.follow(w, func(n int, e engine.Event) error {
		return s.send("step", strconv.Itoa(n), encode(e.Step))
	})
	return s.finish(w, err, s.ended)
}

// ended sends the last event: the answer or the fault.
func (s *stream) ended(a *answer, f *Fault) error {
	if f != nil {
		return s.send("error", "", f.JSON())
	}
	return s.send("done", "", a.body)
}
