package server

import (
	"strconv"

	"unmask/generate/traces"
)

// startEvent is the header of a trace, and where the work stands.
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

func (w *work) start() startEvent {
	ahead, wait := w.model.engine.ahead(w)
	return startEvent{Header: w.header, Key: w.key, ID: w.id, First: w.first, Choices: len(w.members),
		Rows: w.rows, Ahead: ahead, Wait: round(wait)}
}

// round keeps three digits of a second.
func round(seconds float64) float64 { return float64(int64(seconds*1000+0.5)) / 1000 }

// events streams the native form from step from on: start, step, done or error. All data lines but
// the last are a trace that unmask replay shows.
func (s *stream) events(w *work, from int) error {
	if err := s.send("start", "", encode(w.start())); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	err := s.follow(w, from, func(n int, e event) error {
		return s.send("step", strconv.Itoa(n), encode(e.Step))
	})
	a, f, err := w.outcome(err)
	if err != nil {
		return err
	}
	if f != nil {
		s.fail("error", f)
		return nil
	}
	if err := s.send("done", "", a.body); err != nil {
		return err
	}
	return s.flush()
}
