package experiments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"unmask/param"
)

// metricAxes maps metrics to axis labels, and to whether a logarithmic axis suits them.
var metricAxes = map[string]struct {
	label string
	log   bool
}{
	"perplexity":     {"generative perplexity (lower is better)", true},
	"entropy":        {"entropy, nats (higher is more diverse)", false},
	"distinct2":      {"distinct pairs of tokens, share (higher is more diverse)", false},
	"self_bleu":      {"self-BLEU (lower is more diverse)", false},
	"contradictions": {"contradictions, share of chances (lower is better)", false},
	"slips":          {"slips a sample (lower is better)", false},
	"transition_kl":  {"KL of transitions, nats (0 is right)", true},
	"transition_tv":  {"total variation of transitions (0 is right)", true},
	"nll":            {"NLL, nats a token", false},
	"duplicates":     {"duplicates, share of samples", false},
	"accuracy":       {"accuracy, share of right answers", false},
	"answer_tokens":  {"tokens of an answer", false},
	"frechet":        {"Fréchet distance (lower is better)", true},
	"score":          {"Inception Score (higher is better)", false},
	"precision":      {"precision (higher is better)", false},
	"recall":         {"recall (higher is more diverse)", false},
}

// axisLabel returns the label of a metric: its own name if it is not in axes.
func axisLabel(metric string) (label string, log bool) {
	if a, ok := metricAxes[metric]; ok {
		return a.label, a.log
	}
	return metric, false
}

// mainMetric returns the main metric of a kind of model.
func mainMetric(kind string) string {
	if kind == "image" {
		return "frechet"
	}
	return "perplexity"
}

// MetricNames returns the names of the metrics in results, sorted.
func MetricNames(results []Result) []string {
	union := map[string]Measure{}
	for _, r := range results {
		maps.Copy(union, r.Metrics)
	}
	return slices.Sorted(maps.Keys(union))
}

// Charts plots a sweep's results: a metric against steps, against time and, for text, against
// entropy. metric "" means perplexity for text and the Fréchet distance for images. There is no
// chart of results without the metric.
func Charts(results []Result, metric string) []Chart {
	var charts []Chart
	for _, kind := range []string{"text", "image"} {
		prefix := ""
		if kind == "image" {
			prefix = "image-"
		}
		charts = append(charts, Table{Kind: kind, Results: results}.metricCharts(prefix, metric)...)
	}
	return charts
}

// RequireCharts is Charts, with an error if there is nothing to draw.
func RequireCharts(results []Result, metric string) ([]Chart, error) {
	charts := Charts(results, metric)
	if len(charts) > 0 {
		return charts, nil
	}
	if len(results) == 0 {
		return nil, errors.New("no results yet")
	}

	names := MetricNames(results)
	if metric == "" {
		return nil, fmt.Errorf("results have %s, want perplexity or frechet, or the name of another "+
			"metric", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("metric is %s, want one of %s", param.Quote(metric),
		strings.Join(names, ", "))
}

// metricCharts returns the charts of one kind; prefix begins their names. A metric of "" is the
// main one of the kind.
func (t Table) metricCharts(prefix, metric string) (metricCharts []Chart) {
	about := metric
	title := metric
	if metric == "" {
		metric = mainMetric(t.Kind)
		about = "quality"
		title = "quality"
	}
	label, log := axisLabel(metric)
	diverse, _ := axisLabel("entropy")
	methods := t.methods()
	steps := Chart{
		Name:          prefix + about + "-steps",
		Title:         capitalize(title) + " against steps",
		X:             "steps",
		Y:             label,
		LogX:          true,
		LogY:          log,
		TicksAtValues: true,
	}.
		withCurves(t, methods, nil, metric, atSteps)
	time := Chart{
		Name:  prefix + about + "-time",
		Title: capitalize(title) + " against time",
		X:     "seconds a batch",
		Y:     label,
		LogX:  true,
		LogY:  log,
	}.withCurves(t, methods, nil, metric, t.atTime)
	entropy := Chart{
		Name:  prefix + metric + "-entropy",
		Title: capitalize(metric) + " against entropy",
		X:     diverse,
		Y:     label,
		LogY:  log,
	}
	if metric != "entropy" {
		entropy = entropy.withCurves(t, methods, nil, metric, t.atMetric("entropy"))
	}
	for _, c := range []Chart{steps, time, entropy} {
		c.SampleNote = t.sampleNote()
		if len(c.Curves) > 0 {
			metricCharts = append(metricCharts, c)
		}
	}
	return metricCharts
}

// capitalize returns a text with its first letter in upper case.
func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
