package bench

import (
	"context"
	"fmt"
	"slices"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// languageMeasurements returns the measurements of LM12: full and partial passes in each precision,
// then the samplers and whole generations.
func languageMeasurements() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out,
			Measurement{"forward/lm12/" + p.String(),
				func(s *Suite) (work, error) { return s.measureForward("lm12", p, 1) }},
			Measurement{"partial32/lm12/" + p.String(),
				func(s *Suite) (work, error) { return s.measurePartial("lm12", p, 32) }})
	}
	return slices.Concat(out, samplerMeasurements(), generationMeasurements())
}

// measureForward measures a full pass with every position masked, and the head's log-sum-exp at
// each.
func (s *Suite) measureForward(name string, p backend.Precision, batch int) (work, error) {
	m, err := s.loadNetwork(name, p)
	if err != nil {
		return work{}, err
	}
	rows := batch * m.Spec().Length()
	passed := rows
	if m.Info.Sizes["grid"] > 0 {
		passed += batch // the class tokens
	}
	return work{run: fullPass(m, batch, model.Stats{LogSum: make([]float64, rows)}),
		cost: cost{ops: passOps(m.Info.Sizes, passed) + headOps(m.Info.Sizes, rows), precision: p}}, nil
}

// fullPass returns a full pass with every position masked, and the head's statistics at each.
func fullPass(m *model.Loaded, batch int, stats model.Stats) func() error {
	b := maskedBatch(m, batch)
	rows := nn.RowRange(0, len(b.Tokens))
	return func() error {
		marginals, err := m.Forward(context.Background(), b)
		if err != nil {
			return err
		}
		return marginals.Stats(rows, &stats)
	}
}

// maskedBatch returns a batch of sequences of which every position is masked.
func maskedBatch(m *model.Loaded, batch int) *model.Batch {
	spec := m.Spec()
	n := spec.Length()
	return &model.Batch{Size: batch, Length: n, Tokens: slices.Repeat([]int32{spec.Mask}, batch*n)}
}

// measurePartial recomputes a few rows spread over one sequence; the head does not run.
func (s *Suite) measurePartial(name string, p backend.Precision, count int) (work, error) {
	m, err := s.loadNetwork(name, p)
	if err != nil {
		return work{}, err
	}
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return work{}, fmt.Errorf("the model has no partial passes")
	}
	b := maskedBatch(m, 1)
	b.Cache = refiner.NewCache(1, b.Length)
	if _, err := refiner.Forward(context.Background(), b); err != nil {
		return work{}, err
	}
	rows := make([]int32, count)
	for i := range rows {
		rows[i] = int32(i * b.Length / count)
		b.Tokens[rows[i]] = int32(i)
	}
	return work{run: func() error {
		_, err := refiner.Refine(context.Background(), b, rows)
		return err
	}, cost: cost{
		ops:       passOps(m.Info.Sizes, count),
		precision: p,
		bytes:     weightBytes(m.Info.Sizes, p),
	}}, nil
}
