package outputs_test

import (
	"cmp"
	"context"
	"os"

	"unmask"
	"unmask/runs/outputs"
)

// Write samples to standard output.
func Example() {
	ctx := context.Background()
	m, err := unmask.Load(ctx, "oracle:markov:length=8,tokens=3", unmask.Options{})
	if err != nil {
		panic(err)
	}
	run, err := m.Check(unmask.Run{N: 2, Steps: 4, Seed: 1})
	if err != nil {
		panic(err)
	}
	texts, err := outputs.NewTexts(outputs.TextOptions{To: os.Stdout, Numbers: true})
	if err != nil {
		panic(err)
	}
	rest, err := texts.Begin(m, run, nil)
	if err != nil {
		panic(err)
	}
	err = outputs.Make(ctx, m, []unmask.Run{rest}, texts, outputs.Hooks{})
	if err := cmp.Or(err, texts.Close(err)); err != nil {
		panic(err)
	}
	// Output:
	// --- sample 0, seed 1
	// cccabbba
	// --- sample 1, seed 1
	// aaaabbbb
}
