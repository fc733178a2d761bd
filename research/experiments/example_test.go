package experiments_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unmask/exact"
	"unmask/research/experiments"
)

// A sweep of an exact model, which judges itself: a journal takes each result as it is measured,
// and the same call goes on after an interruption.
func ExampleSweep() {
	m := exact.Markov(16, 4, 0.6, 2, 1)
	task := experiments.TextTask(exact.NewDenoiser(m), exact.Judge{Model: m}, nil)
	points := experiments.Plan{Samplers: []string{"random", "halton"}, Steps: []int{4, 16},
		Alpha: []float64{6}, Cache: []int{0}, Seeds: []uint64{0}, N: 32, Batch: 32}.Points()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	j, err := experiments.OpenJournal(filepath.Join(dir, "results.jsonl"),
		experiments.Settings{"model": "chain"})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	if err := experiments.Sweep(context.Background(), j, task, points, nil); err != nil {
		panic(err)
	}
	for _, r := range j.Results {
		fmt.Println(r.Recipe, r.Passes)
	}
	// Output:
	// sampler=random schedule=uniform steps=4 4
	// sampler=random schedule=uniform steps=16 16
	// sampler=halton schedule=uniform steps=4 4
	// sampler=halton schedule=uniform steps=16 16
}
