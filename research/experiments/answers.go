package experiments

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Answer is a model's answer to a task.
type Answer struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Right  *bool  `json:"right,omitempty"`  // nil where it was not checked
	Tokens int    `json:"tokens,omitempty"` // generated, with an end
	Passes int    `json:"full_passes,omitempty"`
}

// AnswerMetrics returns accuracy, the share of right answers among those that were checked, and
// answer_tokens, the mean length of those that were generated.
func AnswerMetrics(answers []Answer) Metrics {
	var right, tokens []float64
	for _, a := range answers {
		if a.Right != nil {
			right = append(right, float64(asInt(*a.Right)))
		}
		if a.Tokens > 0 {
			tokens = append(tokens, float64(a.Tokens))
		}
	}
	m := Metrics{}
	for name, values := range map[string][]float64{"accuracy": right, "answer_tokens": tokens} {
		if len(values) > 0 {
			m[name] = Measure{Value: mean(values)}
		}
	}
	return m
}

// asInt returns 1 for true and 0 for false.
func asInt(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

// Accuracy is how well a method at a number of steps answered tasks.
type Accuracy struct {
	// Method is the sampler with its parameters.
	Method string `json:"sampler"`
	Steps  int    `json:"steps"`

	// Right counts right answers, Checked those that were checked, and Answers all.
	Right   int `json:"right"`
	Checked int `json:"checked"`
	Answers int `json:"answers"`

	// Accuracy is Right/Checked. Low and High are the ends of its 95 % interval of Wilson.
	Accuracy float64 `json:"accuracy"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`

	// Passes are full passes per answer. PerPass are tokens per pass, 0 if nothing was generated.
	Passes    float64 `json:"full_passes"`
	PerPass   float64 `json:"tokens_per_pass"`
	PerSecond float64 `json:"tokens_per_second"`

	// AUP is computed of all points of the method, see SetAUP.
	AUP float64 `json:"aup"`

	// Kinds are the accuracies of each kind of task.
	Kinds map[string]float64 `json:"kinds"`

	methodPoint Point
}

// Wilson returns the ends of the 95 % interval of a share of n (Wilson 1927). Unlike that of the
// normal distribution it is right for few answers, and for shares near 0 and 1.
func Wilson(right, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = normalHalfWidth
	size := float64(n)
	p := float64(right) / size
	middle := (p + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	return max(0, middle-half), min(1, middle+half)
}

// Accuracies sums up results of tasks, one for each method and number of steps, in the order of
// their first points.
func Accuracies(results []Result) (list []Accuracy) {
	var totals []answerTotals
	for _, r := range results {
		index := slices.IndexFunc(list, func(a Accuracy) bool {
			return a.methodPoint == r.methodOnly() && a.Steps == r.Steps
		})
		if index < 0 {
			index = len(list)
			list = append(list, Accuracy{Method: r.Name(), Steps: r.Steps, methodPoint: r.methodOnly()})
			totals = append(totals, answerTotals{right: map[string]int{}, checked: map[string]int{}})
		}
		totals[index].add(&list[index], r)
	}
	for i := range list {
		totals[i].setMeans(&list[i])
	}
	SetAUP(list)
	return list
}

// answerTotals are the sums that the means of an Accuracy are computed of.
type answerTotals struct {
	// passes and tokens are those of generated answers, without those that were only chosen.
	passes float64
	tokens float64

	seconds float64

	// right and checked count answers by the kind of their task.
	right   map[string]int
	checked map[string]int
}

// add adds the answers of a result.
func (s *answerTotals) add(a *Accuracy, r Result) {
	for _, answer := range r.Answers {
		a.Answers++
		if right := answer.Right; right != nil {
			a.Checked++
			s.checked[answer.Kind]++
			a.Right += asInt(*right)
			s.right[answer.Kind] += asInt(*right)
		}
		a.Passes += float64(answer.Passes)
		if answer.Tokens > 0 {
			s.tokens += float64(answer.Tokens)
			s.passes += float64(answer.Passes)
		}
	}
	for _, seconds := range r.Seconds {
		s.seconds += seconds
	}
}

// setMeans sets the shares and means of an accuracy whose answers are all added.
func (s *answerTotals) setMeans(a *Accuracy) {
	a.Low, a.High = Wilson(a.Right, a.Checked)
	if a.Checked > 0 {
		a.Accuracy = float64(a.Right) / float64(a.Checked)
	}
	a.Passes /= float64(a.Answers)
	if s.passes > 0 {
		a.PerPass = s.tokens / s.passes
	}
	if s.seconds > 0 {
		a.PerSecond = s.tokens / s.seconds
	}
	a.Kinds = map[string]float64{}
	for kind, n := range s.checked {
		a.Kinds[kind] = float64(s.right[kind]) / float64(n)
	}
}

// SetAUP sets the accuracy under parallelism of each method (Qian et al. 2026, arXiv 2601.07568):
// the area under its accuracy, in percent, from 0 tokens a pass to the most. Beyond its slowest
// point, an accuracy y below the best one of the list counts as y exp(-3(1-y/best)), and points
// that lose more than 5 percent against the slowest one are left out.
func SetAUP(list []Accuracy) {
	best := 0.0
	methods := map[string][]Accuracy{}
	for _, a := range list {
		best = max(best, a.Accuracy)
		methods[a.Method] = append(methods[a.Method], a)
	}
	areas := map[string]float64{}
	for name, points := range methods {
		slices.SortFunc(points, func(a, b Accuracy) int { return cmp.Compare(a.PerPass, b.PerPass) })
		area := 0.0
		lastRate := 0.0 // of the point before, in tokens a pass
		lastHeight := 0.0
		for i, p := range points {
			if p.Accuracy == 0 || p.Accuracy < points[0].Accuracy-0.05 {
				continue
			}
			y := 100 * p.Accuracy * math.Exp(-3*(1-p.Accuracy/best))
			if i == 0 {
				area = 100 * p.Accuracy * p.PerPass
			} else {
				area += (p.PerPass - lastRate) * (y + lastHeight) / 2
			}
			lastRate = p.PerPass
			lastHeight = y
		}
		areas[name] = area
	}
	for i := range list {
		list[i].AUP = areas[list[i].Method]
	}
}

// AccuracyTable returns accuracies as Markdown, with a column for each kind if there are several.
func AccuracyTable(list []Accuracy) string {
	kinds := map[string]float64{}
	for _, a := range list {
		maps.Copy(kinds, a.Kinds)
	}
	names := slices.Sorted(maps.Keys(kinds))
	if len(names) < 2 { // one kind is all of them
		names = nil
	}
	var b strings.Builder
	head := []string{"sampler", "steps", "right", "accuracy", "95 %", "passes", "tokens a pass",
		"tokens a second", "AUP"}
	writeTableHead(&b, slices.Concat(head, names))
	for _, a := range list {
		cells := []string{"`" + a.Method + "`", fmt.Sprint(a.Steps),
			fmt.Sprintf("%d of %d", a.Right, a.Checked), fmt.Sprintf("%.3f", a.Accuracy),
			fmt.Sprintf("%.3f to %.3f", a.Low, a.High), fmt.Sprintf("%.4g", a.Passes),
			fmt.Sprintf("%.3g", a.PerPass), fmt.Sprintf("%.3g", a.PerSecond), fmt.Sprintf("%.3g", a.AUP)}
		for _, kind := range names {
			cell := "-"
			if v, ok := a.Kinds[kind]; ok {
				cell = fmt.Sprintf("%.3f", v)
			}
			cells = append(cells, cell)
		}
		writeTableRow(&b, cells)
	}
	return b.String()
}

// AccuracyChart draws accuracy against tokens a pass, a curve for each method. It has no curve if
// nothing was generated and checked.
func AccuracyChart(list []Accuracy) Chart {
	chart := Chart{
		Name:       "accuracy",
		Title:      "Accuracy against tokens a pass",
		X:          "tokens a pass",
		Y:          "accuracy, share of right answers",
		LogX:       true,
		BarMeaning: "95 % interval (Wilson)",
	}
	answers := 0
	for _, a := range list {
		if a.PerPass == 0 || a.Checked == 0 {
			continue
		}
		i := slices.IndexFunc(chart.Curves, func(curve Curve) bool { return curve.Name == a.Method })
		if i < 0 {
			i = len(chart.Curves)
			chart.Curves = append(chart.Curves, Curve{Name: a.Method, Method: a.methodPoint})
		}
		curve := &chart.Curves[i]
		curve.X = append(curve.X, a.PerPass)
		curve.Y = append(curve.Y, a.Accuracy)
		if a.Steps > 0 {
			curve.Steps = append(curve.Steps, a.Steps)
		}
		curve.Error = append(curve.Error, a.High-a.Accuracy)
		curve.ErrorBelow = append(curve.ErrorBelow, a.Accuracy-a.Low)
		answers = max(answers, a.Checked)
	}
	chart.SampleNote = fmt.Sprintf("%d answers", answers)
	return chart
}
