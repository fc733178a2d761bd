package bench

import (
	"context"
	"io/fs"

	"unmask"
	"unmask/demo"
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
	var c cost
	run := func() error {
		for step, err := range unmask.Generate(context.Background(), m, unmask.Run{}) {
			if err != nil {
				return err
			}
			done, rows := step.Sequences[0].Evaluated, m.Spec().Length()
			if m.Info.Sizes["grid"] > 0 {
				rows++
			}
			c.ops = passOps(m.Info.Sizes, done.Full*rows+done.Partial) + headOps(m.Info.Sizes, done.Head)
		}
		return nil
	}
	err = run()
	return work{run: run, cost: c}, err
}
