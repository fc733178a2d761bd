package server

import (
	"math"

	"unmask/generate/traces"
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
		Ahead: ahead, Wait: math.Round(wait*1000) / 1000}
}
