package outputs_test

import (
	"cmp"
	"context"
	"os"

	"unmask"
	"unmask/generate"
	"unmask/runs/outputs"
)

// Write samples to standard output.
func Example() {
	ctx := context.Background()
	m, err := unmask.Load(ctx, "oracle:markov:length=8,tokens=3", unmask.Options{})
	if err != nil {
		panic(err)
	}
	request := unmask.Request{Seed: 1, Overrides: generate.Overrides{"steps": "4"}}
	job, err := outputs.Prepare(ctx, m, request, nil, 2, 0)
	if err != nil {
		panic(err)
	}
	texts, err := outputs.NewTexts(outputs.TextOptions{To: os.Stdout, Numbers: true})
	if err != nil {
		panic(err)
	}
	rest, err := texts.Begin(job, nil)
	if err != nil {
		panic(err)
	}
	err = outputs.MakeSamples(ctx, job, rest, texts, outputs.Hooks{})
	if err := cmp.Or(err, texts.Close(err)); err != nil {
		panic(err)
	}
	// Output:
	// --- sample 0, seed 1
	// bbbbbbba
	// --- sample 1, seed 1
	// aaaabbbb
}
