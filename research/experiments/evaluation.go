package experiments

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Evaluation is the measured quality of samples.
type Evaluation struct {
	Samples int
	LeftOut int // samples too short to measure
	Metrics Metrics
	Classes []ClassMetrics // each class of pictures alone; nil unless asked for
}

// ClassMetrics are the metrics of one class of pictures.
type ClassMetrics struct {
	Class   string
	Samples int
	Metrics Metrics
}

// metricLines describe the metrics, in the order in which they are shown.
var metricLines = []struct {
	name string
	line string
}{
	{"perplexity", "generative perplexity, lower is better"},
	{"entropy", "nats over a sample's own tokens, higher is more diverse"},
	{"distinct2", "share of different token pairs, of the first 1000 samples"},
	{"self_bleu", "of the first 1000 samples, lower is more diverse"},
	{"contradictions", "share of a story's chances to contradict itself that it takes, lower is better"},
	{"slips", "doubled or unknown words, wrong marks, articles and capitals, a story"},
	{"transition_kl", "nats, of pairs of neighbouring tokens from the true ones, 0 is right"},
	{"transition_tv", "total variation of these pairs from the true ones, 0 is right"},
	{"nll", "nats a token by the truth: right is its own entropy, not less"},
	{"duplicates", "share of the first 1000 samples that equal an earlier one"},
	{"frechet", "Frechet distance to the reference, lower is better"},
	{"score", "Inception Score, higher is better"},
	{"precision", "share of samples among the reference"},
	{"recall", "share of the reference among the samples"},
}

// MarshalJSON returns an object: samples, left_out and classes if there are any, and metrics by
// name, each with its value and, where they are known, error and deviation.
func (e Evaluation) MarshalJSON() ([]byte, error) {
	type value struct {
		Value     float64 `json:"value"`
		Error     float64 `json:"error,omitempty"`
		Deviation float64 `json:"deviation,omitempty"`
	}
	type class struct {
		Class   string `json:"class"`
		Samples int    `json:"samples"`
		Frechet value  `json:"frechet"`
	}
	out := struct {
		Samples int              `json:"samples"`
		LeftOut int              `json:"left_out,omitempty"`
		Metrics map[string]value `json:"metrics"`
		Classes []class          `json:"classes,omitempty"`
	}{e.Samples, e.LeftOut, map[string]value{}, nil}
	for _, c := range e.Classes {
		m := c.Metrics["frechet"]
		out.Classes = append(out.Classes, class{c.Class, c.Samples, value{m.Value, m.Error(), 0}})
	}
	for name, m := range e.Metrics {
		out.Metrics[name] = value{m.Value, m.Error(), m.Deviation}
	}
	return json.Marshal(out)
}

// String returns a table: a line for each metric, with its standard error and what it is.
func (e Evaluation) String() string {
	width := 11 // of the names
	for name := range e.Metrics {
		width = max(width, len(name))
	}
	for _, c := range e.Classes {
		width = max(width, len(c.Class))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s %d\n", width, "samples", e.Samples)
	if e.LeftOut > 0 {
		fmt.Fprintf(&b, "%-*s %-18d samples of fewer than 2 tokens\n", width, "left out", e.LeftOut)
	}
	for _, l := range metricLines {
		m, ok := e.Metrics[l.name]
		if !ok {
			continue
		}
		number := fmt.Sprintf("%.4g", m.Value)
		if e := m.Error(); e > 0 {
			number += fmt.Sprintf(" ± %.2g", e)
		}
		if m.Deviation > 0 {
			number += fmt.Sprintf(" (dev. %.2g)", m.Deviation)
		}
		fmt.Fprintf(&b, "%-*s %-18s %s\n", width, l.name, number, l.line)
	}
	for _, c := range e.Classes {
		fmt.Fprintf(&b, "%-*s %-18.4g Frechet distance of its %d to the reference's\n", width, c.Class,
			c.Metrics["frechet"].Value, c.Samples)
	}
	return b.String()
}

// SettingsTable returns tried settings as a table with a heading.
func SettingsTable(list []Setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-8s %6s %6s %6s %10s  %s\n", "sampler", "schedule", "steps", "alpha",
		"cache", "s/sample", "metrics")
	for _, s := range list {
		var m []string
		for _, l := range metricLines {
			if v, ok := s.Metrics[l.name]; ok && l.name != "distinct2" && l.name != "self_bleu" {
				m = append(m, fmt.Sprintf("%s %.3g", l.name, v.Value))
			}
		}
		alpha := "-"
		if s.Point.Alpha > 0 {
			alpha = fmt.Sprintf("%g", s.Point.Alpha)
		}
		schedule := cmp.Or(strings.TrimPrefix(s.Point.Extra, "schedule="), "-")
		fmt.Fprintf(&b, "%-12s %-8s %6d %6s %6d %10.3g  %s\n", s.Point.Sampler, schedule, s.Point.Steps,
			alpha, s.Point.Cache, s.Seconds, strings.Join(m, ", "))
	}
	return b.String()
}
