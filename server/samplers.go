package server

import (
	"net/http"

	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// samplerList is the answer of GET /v1/samplers.
type samplerList struct {
	Object     string          `json:"object"`
	Data       []samplers.Info `json:"data"`
	Schedules  []string        `json:"schedules"`
	Parameters []param.Param   `json:"parameters"` // of all requests, with underscores in names
}

// listSamplers answers GET /v1/samplers.
func listSamplers(*http.Request) (any, *Fault) {
	out := samplerList{Object: "list", Data: samplers.List(), Parameters: generate.Params()}
	for _, schedule := range samplers.Schedules() {
		out.Schedules = append(out.Schedules, schedule.String())
	}
	return out, nil
}
