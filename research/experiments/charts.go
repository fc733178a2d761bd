package experiments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"unmask/param"
)

// axes maps metrics to axis labels, and to whether a logarithmic axis suits them.
var axes = map[string]struct {
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

// axis returns the label of a metric: its own name if it is not in axes.
func axis(metric string) (label string, log bool) {
	if a, ok := axes[metric]; ok {
		return a.label, a.log
	}
	return metric, false
}

// quality returns the main metric of a kind of model.
func quality(kind string) string {
	if kind == "image" {
		return "frechet"
	}
	return "perplexity"
}

// MetricNames returns the names of the metrics in results, sorted.
func MetricNames(results []Result) []string {
	all := map[string]Measure{}
	for _, r := range results {
		maps.Copy(all, r.Metrics)
	}
	return slices.Sorted(maps.Keys(all))
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
		charts = append(charts, Table{Kind: kind, Results: results}.charts(prefix, metric)...)
	}
	return charts
}

// RequireCharts is Charts, with an error if there is nothing to draw.
func RequireCharts(results []Result, metric string) ([]Chart, error) {
	charts := Charts(results, metric)
	switch names := MetricNames(results); {
	case len(charts) > 0:
		return charts, nil
	case len(results) == 0:
		return nil, errors.New("no results yet")
	case metric == "":
		return nil, fmt.Errorf("results have %s, want perplexity or frechet, or the name of another "+
			"metric", strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("metric is %s, want one of %s", param.Quote(metric),
			strings.Join(names, ", "))
	}
}

// charts returns the charts of one kind; prefix begins their names.
func (t Table) charts(prefix, metric string) (charts []Chart) {
	about := metric
	title := metric
	if metric == "" {
		metric = quality(t.Kind)
		about = "quality"
		title = "quality"
	}
	label, log := axis(metric)
	diverse, _ := axis("entropy")
	methods := t.methods()
	steps := Chart{
		Name:          prefix + about + "-steps",
		Title:         capital(title) + " against steps",
		X:             "steps",
		Y:             label,
		LogX:          true,
		LogY:          log,
		TicksAtValues: true,
	}.
		draws(t, methods, nil, metric, stepsOf)
	time := Chart{
		Name:  prefix + about + "-time",
		Title: capital(title) + " against time",
		X:     "seconds a batch",
		Y:     label,
		LogX:  true,
		LogY:  log,
	}.draws(t, methods, nil, metric, t.time)
	entropy := Chart{
		Name:  prefix + metric + "-entropy",
		Title: capital(metric) + " against entropy",
		X:     diverse,
		Y:     label,
		LogY:  log,
	}
	if metric != "entropy" {
		entropy = entropy.draws(t, methods, nil, metric, t.other("entropy"))
	}
	for _, c := range []Chart{steps, time, entropy} {
		if c.SampleNote = t.of(); len(c.Curves) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
