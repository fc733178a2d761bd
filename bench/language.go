package bench

import (
	"context"
	"fmt"
	"slices"

	"unmask/backend"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// language is LM12: in each precision the full pass and the partial one, then the samplers.
func language() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out,
			Measurement{"forward/lm12/" + p.String(), func(s *Suite) (work, error) { return s.forward("lm12", p, 1) }},
			Measurement{"partial32/lm12/" + p.String(), func(s *Suite) (work, error) { return s.partial("lm12", p, 32) }})
	}
	for _, info := range samplers.List() {
		sampler, err := samplers.Parse(info.Name, samplers.Options{})
		if err != nil {
			panic("bench: " + err.Error())
		}
		if _, looks := samplers.As[samplers.Lookahead](sampler); looks {
			continue // its time is that of the passes it asks for
		}
		out = append(out, Measurement{"sampler/" + info.Name, func(s *Suite) (work, error) { return s.sampler(sampler) }})
	}
	return out
}

// forward is a full pass with every position masked, and the head's log-sum-exp at each.
func (s *Suite) forward(name string, p backend.Precision, batch int) (work, error) {
	m, err := s.load(name, p)
	if err != nil {
		return work{}, err
	}
	b := masked(m, batch)
	rows := make([]int32, len(b.Tokens))
	for i := range rows {
		rows[i] = int32(i)
	}
	stats := model.Stats{LogSum: make([]float64, len(rows))}
	sizes := m.Info.Sizes
	passed := len(rows)
	if sizes["grid"] > 0 {
		passed += batch // the class tokens
	}
	return work{func() error {
		got, err := m.Forward(context.Background(), b)
		if err != nil {
			return err
		}
		return got.Stats(rows, &stats)
	}, cost{ops: passOps(sizes, passed) + headOps(sizes, len(rows)), as: p}}, nil
}

func masked(m *model.Loaded, batch int) *model.Batch {
	spec := m.Spec()
	n := spec.Length()
	return &model.Batch{Size: batch, Length: n, Tokens: slices.Repeat([]int32{spec.Mask}, batch*n)}
}

// partial recomputes a few rows of one sequence, spread over it; the head is not run.
func (s *Suite) partial(name string, p backend.Precision, count int) (work, error) {
	m, err := s.load(name, p)
	if err != nil {
		return work{}, err
	}
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return work{}, fmt.Errorf("the model has no partial passes")
	}
	b := masked(m, 1)
	b.Cache = refiner.NewCache(1, b.Length)
	if _, err := refiner.Forward(context.Background(), b); err != nil {
		return work{}, err
	}
	rows := make([]int32, count)
	for i := range rows {
		rows[i] = int32(i * b.Length / count)
		b.Tokens[rows[i]] = int32(i)
	}
	return work{func() error {
		_, err := refiner.Refine(context.Background(), b, rows)
		return err
	}, cost{ops: passOps(m.Info.Sizes, count), as: p, bytes: weightBytes(m.Info.Sizes, p)}}, nil
}

// sampler is the first of 16 steps with half of LM12's positions masked. The hidden states are
// given, so the time is that of the head at the rows that the sampler wants and of its rule.
func (s *Suite) sampler(sampler samplers.Sampler) (work, error) {
	m, err := s.load("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	b := masked(m, 1)
	for i := 0; i < len(b.Tokens); i += 2 {
		b.Tokens[i] = int32(i)
	}
	frozen := &given{Denoiser: m}
	o := generate.Options{Sampler: sampler, Steps: 16, Tokens: b.Tokens}
	var rows int
	run := func() error {
		for step, err := range generate.Run(context.Background(), frozen, o) {
			if err != nil {
				return err
			}
			rows = step.Sequences[0].Evaluated.Head
			break
		}
		return nil
	}
	if err := run(); err != nil { // tells the rows, too
		return work{}, err
	}
	return work{run, cost{ops: headOps(m.Info.Sizes, rows), as: backend.F32}}, nil
}

// given is a network whose every pass but the first is free: its hidden states stay.
type given struct {
	model.Denoiser
	marginals model.Marginals
}

func (g *given) Forward(ctx context.Context, b *model.Batch) (m model.Marginals, err error) {
	if g.marginals == nil {
		g.marginals, err = g.Denoiser.Forward(ctx, b)
	}
	return g.marginals, err
}
