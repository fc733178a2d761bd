package experiments

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// Exactness says how samplers are compared on a model whose truth is known: each at each number of
// steps, by the pairs of neighbouring tokens in its samples (Tang et al. 2026, arXiv 2602.19619).
type Exactness struct {
	Samplers []Point // with the fields of a method alone; nil means ExactnessSamplers
	Steps    []int   // nil means ExactnessSteps
	N        int     // samples of a point; 0 means ExactnessN
	Seed     uint64
}

// ExactnessModel is the model of unmask eval exactness.
const ExactnessModel = "oracle:letters:length=128"

// ExactnessSteps are the numbers of steps, up to one for each position.
var ExactnessSteps = []int{4, 8, 16, 32, 64, 128}

// ExactnessNParam is the number of samples of a point.
var ExactnessNParam = param.Param{
	Name:    "n",
	Min:     2,
	Max:     1 << 20,
	Default: "256",
	Help:    "samples of each point",
}

// otherModelRules are the rules for models of another kind: one that also predicts from left to
// right, and one that changes the number of positions.
var otherModelRules = []string{"self-speculation", "dreamon"}

// variants are the settings of a rule that are measured beside its defaults: the other temperature,
// or the published arithmetic.
var variants = map[string][]string{
	"vanilla":        {"vanilla(bits=32)"},
	"maskgit":        {"maskgit(alpha=1)"},
	"moment":         {"moment(alpha=1)"},
	"confidence":     {"confidence(temperature=1)"},
	"eb":             {"eb(budget=1)", "eb(random, budget=1)"},
	"threshold":      {"threshold(theta=0.5)"},
	"spaced":         {"spaced(eb(budget=4))"},
	"semi-ar":        {"semi-ar(random)"},
	"greedy":         {"greedy(random)"},
	"low-confidence": {"low-confidence(temperature=1)"},
	"dynamic":        {"dynamic(temperature=1)"},
	"apart":          {"apart(temperature=1)"},
	"fast-dllm-v2":   {"fast-dllm-v2(temperature=1)"},
	"wedlm":          {"wedlm(temperature=1)"},
	"p2":             {"p2(eta=0.1)"},
	"gibbs":          {"gibbs(k=8)"},
}

// cachedRules are the rules that are measured with an intermediate stage of partial caching too.
var cachedRules = []string{"random", "halton", "u-moment", "moment", "hybrid", "confidence"}

// ExactnessSamplers returns all rules that a model of text can use: at their defaults, at other
// settings and with a cache, and random at a lower temperature.
func ExactnessSamplers() (list []Point) {
	for _, info := range samplers.List() {
		if slices.Contains(otherModelRules, info.Name) || info.Name == fixedName {
			continue
		}
		list = append(list, Point{Sampler: info.Name})
		if slices.Contains(cachedRules, info.Name) {
			list = append(list, Point{Sampler: info.Name, Cache: 1})
		}
		if info.Name == "random" {
			list = append(list, Point{Sampler: info.Name, Extra: "temperature=0.8"})
		}
		for _, name := range variants[info.Name] {
			list = append(list, Point{Sampler: name})
		}
	}
	return list
}

// Points returns the points to measure: one of a rule that takes no steps, at the most steps.
func (e Exactness) Points() (points []Point) {
	steps := e.Steps
	if steps == nil {
		steps = ExactnessSteps
	}
	list := e.Samplers
	if list == nil {
		list = ExactnessSamplers()
	}
	for _, p := range Cross(list, steps) {
		p.N = e.N
		p.Seed = e.Seed
		p.Batch = min(e.N, 64)
		points = append(points, p)
	}
	return points
}

// Cross returns each method at each number of steps, once; a rule that takes no steps is at the
// largest.
func Cross(methods []Point, steps []int) (points []Point) {
	for _, p := range methods {
		counts := steps
		if isSelfPaced(p) {
			counts = []int{slices.Max(steps)}
		}
		for _, p.Steps = range counts {
			if !slices.Contains(points, p) {
				points = append(points, p)
			}
		}
	}
	return points
}

// isSelfPaced reports whether a point's rule is not affected by a number of steps.
func isSelfPaced(p Point) bool {
	s, err := samplers.Parse(p.Sampler)
	if err != nil {
		return false
	}
	_, ok := samplers.As[samplers.SelfPaced](s)
	return ok
}

// chartedRules are the rules in the figure of all samplers.
var chartedRules = []string{"random", "random+cache", "halton", "u-moment", "hybrid", "moment",
	"maskgit", "confidence", "low-confidence", "low-confidence(temperature=1)", "p2", "remdm",
	"semi-ar(random)", "theta-trapezoidal"}

// ExactnessChart draws the divergence of transitions against the full passes of a sample: of all
// methods in results if there are few, and otherwise of the best known. Where the interval has 0
// inside, its upper end is drawn.
func ExactnessChart(results []Result) Chart {
	t := Table{Kind: "text", Results: results}
	methods := t.methods()
	if len(methods) > len(chartedRules) {
		methods = slices.DeleteFunc(methods, func(p Point) bool {
			return !slices.Contains(chartedRules, p.Name())
		})
	}
	c := Chart{
		Name:       "exactness",
		Title:      "How far samples of an exact model are from the truth",
		X:          "full passes a sample",
		Y:          metricAxes["transition_kl"].label,
		LogX:       true,
		LogY:       true,
		SampleNote: t.sampleNote(),
	}
	for _, m := range methods {
		k := Curve{Name: m.Name(), Method: m}
		for _, steps := range t.stepCounts(m) {
			r := t.resultsAt(m, steps)[0]
			v, ok := r.Metrics["transition_kl"]
			if ok && v.Low <= 0 { // 0 has no place on the axis
				v = Measure{Value: v.High}
			}
			if ok {
				k.addPoint(steps, Measure{Value: r.Passes}, v)
			}
		}
		if len(k.X) > 0 {
			c.Curves = append(c.Curves, k)
		}
	}
	return c
}

// ExactnessTable returns results as Markdown. Rules with a number of steps have a table with the
// divergence of transitions at each number, and their other measures at the number nearest to 16.
// Rules that find their own number of steps have a table with one row each.
func ExactnessTable(results []Result) string {
	t := Table{Kind: "text", Results: results}
	var steps []int
	var stepped, selfPaced []Point
	for _, m := range t.methods() {
		if isSelfPaced(m) {
			selfPaced = append(selfPaced, m)
			continue
		}
		stepped = append(stepped, m)
		steps = append(steps, t.stepCounts(m)...)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	var b strings.Builder
	if len(stepped) > 0 {
		nearest := slices.MinFunc(steps, func(a, b int) int {
			return cmp.Compare(max(a, 16)-min(a, 16), max(b, 16)-min(b, 16))
		})
		cells := []string{"sampler"}
		for _, n := range steps {
			cells = append(cells, fmt.Sprintf("KL, %d steps", n))
		}
		cells = append(cells, fmt.Sprintf("TV, %d steps", nearest), "NLL", "duplicates", "passes")
		writeTableHead(&b, cells)
		for _, m := range stepped {
			cells = []string{"`" + m.Name() + "`"}
			for _, n := range steps {
				cells = append(cells, t.metricCell(m, n, "transition_kl"))
			}
			writeTableRow(&b, append(cells, t.otherCells(m, nearest)...))
		}
	}
	if len(selfPaced) > 0 {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		writeTableHead(&b, []string{"sampler with its own number of steps", "KL", "TV", "NLL",
			"duplicates", "passes"})
		for _, m := range selfPaced {
			n := t.stepCounts(m)[0]
			cells := []string{"`" + m.Name() + "`", t.metricCell(m, n, "transition_kl")}
			writeTableRow(&b, append(cells, t.otherCells(m, n)...))
		}
	}
	return b.String()
}

// otherCells returns the cells of a point beside its divergence.
func (t Table) otherCells(m Point, steps int) []string {
	passes := "-"
	if list := t.resultsAt(m, steps); len(list) > 0 {
		passes = fmt.Sprintf("%.3g", list[0].Passes)
	}
	return []string{t.metricCell(m, steps, "transition_tv"), t.metricCell(m, steps, "nll"),
		t.metricCell(m, steps, "duplicates"), passes}
}

// metricCell returns a metric of a point with half of its 95 % interval; "-" if it was not
// measured.
func (t Table) metricCell(m Point, steps int, name string) string {
	list := t.resultsAt(m, steps)
	if len(list) == 0 {
		return "-"
	}
	v, ok := list[0].Metrics[name]
	if !ok {
		return "-"
	}
	half := (v.High - v.Low) / 2
	switch {
	case len(v.LeaveOneOut) > 0:
		half = studentHalfWidth * v.Error()
	case name == "duplicates":
		return fmt.Sprintf("%.2f", v.Value)
	}
	return fmt.Sprintf("%.3f ± %.3f", v.Value, half)
}

// writeTableHead writes the head of a table of Markdown.
func writeTableHead(b io.Writer, cells []string) {
	writeTableRow(b, cells)
	fmt.Fprintf(b, "%s|\n", strings.Repeat("|---", len(cells)))
}

// writeTableRow writes a row of a table of Markdown.
func writeTableRow(b io.Writer, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// ParseMethods reads a list of samplers such as "moment(alpha=3), hybrid+cache" as points without
// steps: each as --sampler takes it, separated by commas.
func ParseMethods(list string) (methods []Point, err error) {
	depth := 0
	for _, name := range strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth <= 0
	}) {
		var r generate.Recipe
		if err := r.Set("sampler", strings.TrimSpace(name)); err != nil {
			return nil, err
		}
		methods = append(methods, Point{Sampler: samplers.Text(r.Sampler), Cache: max(r.Cache, 0)})
	}
	if len(methods) == 0 {
		return nil, param.Refuse("sampler", param.OutOfRange, "sampler is empty, want one or more")
	}
	return methods, nil
}
