package bench

import (
	"context"
	"io/fs"
	"iter"

	"unmask"
	"unmask/demo"
	"unmask/generate"
)

// demos generate one sequence of the embedded models with the command's defaults.
func demos() []Measurement {
	return []Measurement{
		{"generate/text", func(s *Suite) (work, error) { return s.generate(demo.Text()) }},
		{"generate/image", func(s *Suite) (work, error) { return s.generate(demo.Image()) }},
	}
}

func (s *Suite) generate(files fs.FS) (work, error) {
	s.drop()
	m, err := unmask.LoadFS(files, "demo", unmask.Options{Backend: s.Device})
	if err != nil {
		return work{}, err
	}
	rows := m.Spec().Length()
	if m.Info.Sizes["grid"] > 0 {
		rows++
	}
	return whole(m.Info.Sizes, rows, func() iter.Seq2[*generate.Step, error] {
		return unmask.Generate(context.Background(), m, unmask.Run{})
	})
}

// whole returns runs of one sequence with so many rows; all take the same passes.
func whole(sizes map[string]int, rows int,
	generated func() iter.Seq2[*generate.Step, error]) (work, error) {
	var done generate.Evaluated
	run := func() error {
		for step, err := range generated() {
			if err != nil {
				return err
			}
			done = step.Sequences[0].Evaluated
		}
		return nil
	}
	err := run()
	ops := passOps(sizes, done.Full*rows+done.Partial) + headOps(sizes, done.Head)
	return work{run: run, cost: cost{ops: ops}}, err
}
