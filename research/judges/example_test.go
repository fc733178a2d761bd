package judges_test

import (
	"context"
	"fmt"
	"strings"

	"unmask"
	"unmask/research/experiments"
	"unmask/research/judges"
)

// Measure how well a sampler draws from an exact model, which judges itself: tokens drawn one per
// step have the model's entropy.
func ExampleNewTask() {
	ctx := context.Background()
	const name = "oracle:markov:length=16,tokens=4"
	m, err := unmask.Load(ctx, name, unmask.Options{})
	if err != nil {
		panic(err)
	}
	task, settings, err := judges.NewTask(ctx, m, judges.Measure{Judge: name}, judges.Options{})
	if err != nil {
		panic(err)
	}
	points := experiments.Plan{Samplers: []string{"random"}, Steps: []int{1, 16}, Alpha: []float64{6},
		Cache: []int{0},
		Seeds: []uint64{0}, N: 64, Batch: 64}.Points()
	var perplexity []float64
	for _, p := range points {
		r, err := experiments.MeasurePoint(ctx, task, p, nil)
		if err != nil {
			panic(err)
		}
		perplexity = append(perplexity, r.Metrics["perplexity"].Value)
	}
	fmt.Println(settings["judge"], perplexity[1] < perplexity[0])
	// Output: oracle:markov:length=16,tokens=4 true
}

// Measure samples by the probabilities of their exact model.
func ExampleEvalText() {
	ctx := context.Background()
	judge, err := judges.LoadTextJudge(ctx, "oracle:markov:length=4,tokens=3", judges.Options{})
	if err != nil {
		panic(err)
	}
	lines := `{"id":0,"ids":[0,1,2,0],"text":"abca"}
{"id":1,"ids":[2,2,2,2],"text":"cccc"}
`
	e, err := judges.EvalText(ctx, judge, nil, false, strings.NewReader(lines), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Samples, e.Metrics["perplexity"].Value > 1, e.Metrics["entropy"].Value > 0)
	// Output: 2 true true
}
