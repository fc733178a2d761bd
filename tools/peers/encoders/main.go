// Command encoders times what tools/peers/encoders.py compares: passes of a masked encoder over
// many sequences, and whole infills of many variants. It prints the seconds of each call, one a
// line.
//
//	go run ./tools/peers/encoders -model DIR -rows FILE.json -as f32 [-infill 16]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"unmask"
	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
)

func main() {
	folder := flag.String("model", "", "the model's folder")
	file := flag.String("rows", "", "a JSON file with the tokens of each sequence, as many in each")
	as := flag.String("as", "f32", "precision: f32, bf16 or int8")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "threads")
	calls := flag.Int("calls", 3, "calls, after one that is not counted")
	steps := flag.Int("infill", 0, "steps that fill the masks by MaskGIT's rule; 0 times one pass")
	flag.Parse()
	if err := run(*folder, *file, *as, *threads, *calls, *steps); err != nil {
		fmt.Fprintln(os.Stderr, "encoders:", err)
		os.Exit(1)
	}
}

func run(folder, file, as string, threads, calls, steps int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var rows [][]int32
	if err := json.Unmarshal(data, &rows); err != nil {
		return err
	}
	precision, ok := backend.ParsePrecision(as)
	if !ok {
		return fmt.Errorf("as is %q, want f32, bf16 or int8", as)
	}
	m, err := unmask.Load(context.Background(), folder,
		unmask.Options{Backend: cpu.New(cpu.Options{Threads: threads}), Precision: precision})
	if err != nil {
		return err
	}
	call := func() error { return pass(m, rows) }
	if steps > 0 {
		call = func() error { return infill(m, rows, steps) }
	}
	for i := range calls + 1 {
		began := time.Now()
		if err := call(); err != nil {
			return err
		}
		if i > 0 {
			fmt.Println(time.Since(began).Seconds())
		}
	}
	return nil
}

// pass computes the logits of all rows.
func pass(m *unmask.Model, rows [][]int32) error {
	tokens := slices.Concat(rows...)
	all := make([]int32, len(tokens))
	for i := range all {
		all[i] = int32(i)
	}
	got, err := m.Denoiser.Forward(context.Background(),
		&model.Batch{Size: len(rows), Length: len(rows[0]), Tokens: tokens})
	if err != nil {
		return err
	}
	return got.Stats(all, &model.Stats{LogSum: make([]float64, len(all))})
}

// infill fills the masks of all rows.
func infill(m *unmask.Model, rows [][]int32, steps int) error {
	requests := make([]generate.Request, len(rows))
	for i, row := range rows {
		r := unmask.Request{Tokens: row, Seed: 1, Index: uint32(i), Overrides: generate.Overrides{
			"sampler": "maskgit", "steps": fmt.Sprint(steps)}}
		var err error
		if requests[i], err = m.Prepare(context.Background(), r); err != nil {
			return err
		}
	}
	for _, err := range generate.Each(context.Background(), m.Denoiser,
		generate.PoolOptions{Size: len(rows)}, slices.Values(requests)) {
		if err != nil {
			return err
		}
	}
	return nil
}
