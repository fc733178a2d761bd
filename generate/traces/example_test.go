package traces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unmask/exact"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/samplers"
)

// Write a trace of an exact model's run, and replay it without the model.
func Example() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	m := exact.Product(4, 2, 30, 7)
	d, text := exact.NewDenoiser(m), exact.Symbols(m, "_")
	o, err := generate.Options{Recipe: generate.Recipe{Steps: 2,
		Sampler: samplers.ChooseThenSample{Order: samplers.Halton{}}}}.Check(d)
	if err != nil {
		panic(err)
	}

	name := filepath.Join(dir, "run.jsonl")
	w, err := traces.Create(name, traces.NewHeader(d.Spec(), o.Request(0), text, m.String(), "_"),
		text)
	if err != nil {
		panic(err)
	}
	defer w.Discard() // does nothing after Close
	for step, err := range generate.Run(context.Background(), d, o) {
		if err != nil {
			panic(err)
		}
		if err := w.Write(step); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	in, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer in.Close()
	err = traces.Read(in, func(r *traces.State, s *traces.Step) error {
		fmt.Println(s.Step, "of", s.Steps, "opens", len(s.Opened), "done", s.Done,
			r.Masked(s.Opened[0].Position))
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// 1 of 2 opens 2 done false false
	// 2 of 2 opens 2 done true false
}
