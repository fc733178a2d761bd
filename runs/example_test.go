package runs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unmask/exact"
	"unmask/generate"
	"unmask/runs"
	"unmask/runs/outputs"
)

// Make 3 of 6 samples, stop, and continue: the file has each once, and Verify confirms it.
func Example() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "samples.jsonl")
	m := exact.Markov(8, 3, 0.5, 1, 1)
	d := exact.NewDenoiser(m)
	begin := func(n int) {
		o, err := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4},
			Seed: 1}, N: n}.Check(d)
		if err != nil {
			panic(err)
		}
		settings := outputs.NewSettings(m.String(), "f32", o.Request)
		l, err := runs.OpenLines(name, settings, runs.Shard{}, 0)
		if err != nil {
			panic(err)
		}
		defer l.Close()
		rest := l.Missing(n)
		if o.Index, o.N = uint32(rest.First), rest.N; o.N == 0 {
			return
		}
		for step, err := range generate.Run(context.Background(), d, o) {
			if err != nil {
				panic(err)
			}
			for _, s := range step.Sequences {
				if !step.Done {
					continue
				}
				if err := l.Put(s.Index, o.Seed, fmt.Appendf(nil, "%v", s.Tokens)); err != nil {
					panic(err)
				}
			}
		}
		fmt.Println(l.Done(), "are there")
	}
	begin(3)
	begin(6)
	r, err := runs.Verify(name)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Outputs, "outputs,", len(r.Faults), "faults")
	// Output:
	// 3 are there
	// 6 are there
	// 6 outputs, 0 faults
}
