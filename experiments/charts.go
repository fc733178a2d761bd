package experiments

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"unmask/param"
)

// axes are the labels of the metrics, and whether a logarithmic axis shows them well.
var axes = map[string]struct {
	label string
	log   bool
}{
	"perplexity":     {"generative perplexity (lower is better)", true},
	"entropy":        {"entropy, nats (higher is more diverse)", false},
	"distinct2":      {"distinct pairs of tokens, share (higher is more diverse)", false},
	"self_bleu":      {"self-BLEU (lower is more diverse)", false},
	"contradictions": {"contradictions, share of chances (lower is better)", false},
	"frechet":        {"Fréchet distance (lower is better)", true},
	"score":          {"Inception Score (higher is better)", false},
	"precision":      {"precision (higher is better)", false},
	"recall":         {"recall (higher is more diverse)", false},
}

// axis returns the label of a metric, its name where it has none of its own.
func axis(metric string) (label string, log bool) {
	if a, ok := axes[metric]; ok {
		return a.label, a.log
	}
	return metric, false
}

// quality is a kind's main metric.
func quality(kind string) string {
	if kind == "image" {
		return "frechet"
	}
	return "perplexity"
}

// MetricNames returns the metrics that results have, sorted.
func MetricNames(results []Result) []string {
	all := map[string]bool{}
	for _, r := range results {
		for name := range r.Metrics {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Charts are the plots of a sweep's results: a metric against steps, against time and, for text,
// against entropy. The metric "" is perplexity of text and the Fréchet distance of images. Results
// without the metric have no chart.
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

// ChartsOf is Charts, with an error where there is nothing to draw.
func ChartsOf(results []Result, metric string) ([]Chart, error) {
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

// charts are those of one kind; prefix begins their names.
func (t Table) charts(prefix, metric string) (charts []Chart) {
	about, title := metric, metric
	if metric == "" {
		metric = quality(t.Kind)
		about, title = "quality", "quality"
	}
	label, log := axis(metric)
	diverse, _ := axis("entropy")
	steps := Chart{Name: prefix + about + "-steps", Title: capital(title) + " against steps",
		X: "steps", Y: label, LogX: true, LogY: log, Marks: true}
	time := Chart{Name: prefix + about + "-time", Title: capital(title) + " against time",
		X: "seconds a batch", Y: label, LogX: true, LogY: log}
	entropy := Chart{Name: prefix + metric + "-entropy", Title: capital(metric) + " against entropy",
		X: diverse, Y: label, LogY: log}
	for _, m := range t.methods() {
		all := t.steps(m)
		if c, ok := t.curve(m, all, metric); ok {
			steps.Curves = append(steps.Curves, c)
		}
		if c, ok := t.timed(m, all, metric); ok {
			time.Curves = append(time.Curves, c)
		}
		if metric == "entropy" {
			continue
		}
		if c, ok := t.against(m, all, "entropy", metric); ok {
			entropy.Curves = append(entropy.Curves, c)
		}
	}
	for _, c := range []Chart{steps, time, entropy} {
		if len(c.Curves) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
