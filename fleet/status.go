package fleet

import (
	"fmt"
	"io"
	"time"
)

// Status describes the progress of a run.
type Status struct {
	Done    int            `json:"done"` // outputs that are there
	N       int            `json:"n"`
	Rate    float64        `json:"rate"`         // outputs a second since the hub began
	Left    float64        `json:"seconds_left"` // -1 where it is not known
	Workers []WorkerStatus `json:"workers"`
	Counts
}

// WorkerStatus is a worker as the hub sees it.
type WorkerStatus struct {
	Name     string  `json:"name"`
	Device   string  `json:"device"`
	Made     int     `json:"made"`
	Rate     float64 `json:"rate"`      // outputs a second, by its own clock
	Seen     float64 `json:"last_sign"` // seconds ago
	Expelled string  `json:"expelled,omitempty"`
}

// Counts are the numbers of events besides outputs.
type Counts struct {
	Copies     int `json:"copies"`     // of late jobs
	Duplicates int `json:"duplicates"` // outputs that were there already
	Damaged    int `json:"damaged"`    // results that arrived with other bytes than were sent
	Dropped    int `json:"dropped"`    // messages that were none, or not asked for
	Refused    int `json:"refused"`    // requests to join
	Expelled   int `json:"expelled"`   // workers
}

// String is one line.
func (s Status) String() string {
	line := fmt.Sprintf("%d of %d, %.3g/s", s.Done, s.N, s.Rate)
	if s.Left >= 0 {
		line += fmt.Sprintf(", %s left", (time.Duration(s.Left) * time.Second).String())
	}
	workers := 0
	for _, w := range s.Workers {
		if w.Expelled == "" {
			workers++
		}
	}
	line += fmt.Sprintf(", %d workers:", workers)
	const shown = 6
	for i, w := range s.Workers {
		if i == shown {
			line += fmt.Sprintf(" and %d more", len(s.Workers)-shown)
			break
		}
		if w.Expelled != "" {
			line += fmt.Sprintf(" %s expelled", w.Name)
			continue
		}
		line += fmt.Sprintf(" %s %.3g/s", w.Name, w.Rate)
		if w.Seen > 20 {
			line += fmt.Sprintf(" (silent for %.0f s)", w.Seen)
		}
	}
	return line
}

// Metrics writes the state in the text format of Prometheus.
func (s Status) Metrics(w io.Writer) error {
	var err error
	put := func(name, kind, help string, value float64) {
		if err == nil {
			_, err = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %g\n", name, help, name, kind, name,
				value)
		}
	}
	put("unmask_fleet_outputs", "gauge", "Outputs that are there.", float64(s.Done))
	put("unmask_fleet_outputs_wanted", "gauge", "Outputs of the run.", float64(s.N))
	put("unmask_fleet_rate", "gauge", "Outputs a second since the hub began.", s.Rate)
	put("unmask_fleet_seconds_left", "gauge", "Estimate, -1 where not known.", s.Left)
	put("unmask_fleet_copies_total", "counter", "Copies of late jobs.", float64(s.Copies))
	put("unmask_fleet_duplicates_total", "counter", "Outputs made twice.", float64(s.Duplicates))
	put("unmask_fleet_damaged_total", "counter", "Results damaged on the way.", float64(s.Damaged))
	put("unmask_fleet_dropped_total", "counter", "Messages dropped.", float64(s.Dropped))
	put("unmask_fleet_refused_total", "counter", "Hellos refused.", float64(s.Refused))
	put("unmask_fleet_expelled_total", "counter", "Workers expelled.", float64(s.Expelled))
	for _, m := range []struct {
		name, help string
		of         func(WorkerStatus) float64
	}{{"unmask_fleet_worker_rate", "Outputs a second of a worker.",
		func(w WorkerStatus) float64 { return w.Rate }},
		{"unmask_fleet_worker_last_sign_seconds", "Seconds since a worker was heard.",
			func(w WorkerStatus) float64 { return w.Seen }},
		{"unmask_fleet_worker_outputs", "Outputs of a worker.",
			func(w WorkerStatus) float64 { return float64(w.Made) }}} {
		if err == nil {
			_, err = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		}
		for _, p := range s.Workers {
			if err == nil {
				_, err = fmt.Fprintf(w, "%s{worker=%q} %g\n", m.name, p.Name, m.of(p))
			}
		}
	}
	return err
}
