package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unmask/experiments"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure samples: text by a judge, images against a reference",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEvalText(), newEvalImage())
	return cmd
}

// evaluation is the result of an evaluation.
type evaluation struct {
	samples int
	metrics experiments.Metrics
	leftOut int // samples too short to measure
}

// metricLines say what the numbers are.
var metricLines = []struct{ name, line string }{
	{"perplexity", "generative perplexity, lower is better"},
	{"entropy", "nats over a sample's own tokens, higher is more diverse"},
	{"distinct2", "share of different token pairs, of the first 1000 samples"},
	{"self_bleu", "of the first 1000 samples, lower is more diverse"},
	{"contradictions", "share of a story's chances to contradict itself that it takes, lower is better"},
	{"frechet", "Frechet distance to the reference, lower is better"},
	{"score", "Inception Score, higher is better"},
	{"precision", "share of samples among the reference"},
	{"recall", "share of the reference among the samples"},
}

func (r evaluation) print(asJSON bool) error {
	if asJSON {
		type value struct {
			Value     float64 `json:"value"`
			Error     float64 `json:"error,omitempty"`
			Deviation float64 `json:"deviation,omitempty"`
		}
		out := struct {
			Samples int              `json:"samples"`
			LeftOut int              `json:"left_out,omitempty"`
			Metrics map[string]value `json:"metrics"`
		}{r.samples, r.leftOut, map[string]value{}}
		for name, m := range r.metrics {
			out.Metrics[name] = value{m.Value, m.Error(), m.Deviation}
		}
		line, err := json.Marshal(out)
		if err != nil {
			return err
		}
		return standardOutput(fmt.Sprintf("%s\n", line))
	}
	width := 11 // of the names
	for name := range r.metrics {
		width = max(width, len(name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s %d\n", width, "samples", r.samples)
	if r.leftOut > 0 {
		fmt.Fprintf(&b, "%-*s %-18d samples of fewer than 2 tokens\n", width, "left out", r.leftOut)
	}
	for _, l := range metricLines {
		m, ok := r.metrics[l.name]
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
	return standardOutput(b.String())
}
