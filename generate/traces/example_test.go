package traces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"unmask/exact"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/samplers"
)

// Write a trace of an exact model's run, and read its lines.
func Example() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	m := exact.Product(4, 2, 30, 7)
	d, text := exact.NewDenoiser(m), exact.Symbols(m, "_")
	o, err := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 2,
		Sampler: samplers.ChooseThenSample{Order: samplers.Halton{}}}}}.Check(d)
	if err != nil {
		panic(err)
	}

	name := filepath.Join(dir, "run.jsonl")
	w, err := traces.Create(name, traces.NewHeader(d.Spec(), o.Request, text, m.String(), "_"),
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

	data, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		var s traces.Step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			panic(err)
		}
		fmt.Println(s.Step, "of", s.Steps, "opens", len(s.Opened), "done", s.Done)
	}
	// Output:
	// 1 of 2 opens 2 done false
	// 2 of 2 opens 2 done true
}
