package parity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// Conditions returns the condition of sequence i of a pack; its Unconditional is the condition of
// guidance's other pass.
type Conditions func(p *Pack, i int) (with, without *model.Condition)

// CheckGuided compares a full pass of a model with guidance, and a partial one over the same
// tokens, with logits_guided. steps has the step of each sequence, or is nil.
func CheckGuided(t *testing.T, open func(t testing.TB, name string) *Pack, packs []string,
	conditions Conditions,
	guide func(m model.Denoiser) model.Denoiser) {
	runEachOpened(t, open, packs, func(t *testing.T, p *Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		size := shape[0]
		length := shape[1]
		want, wantShape := p.Floats("logits_guided")
		g := guide(m).(model.Refiner)
		b := &model.Batch{Size: size, Length: length, Tokens: tokens, Cache: g.NewCache(size, length)}
		for i := range size {
			with, without := conditions(p, i)
			c := *with
			c.Unconditional = without
			b.Conditions = append(b.Conditions, &c)
		}
		got, err := g.Forward(context.Background(), b)
		require.NoError(t, err)
		all := Count(size * length)
		RequireClose(t, want, Logits(t, got, all, wantShape[2]), tolerance)
		var rows []int32
		for _, r := range all {
			if r%5 < 2 {
				rows = append(rows, r)
			}
		}
		before := Logits(t, got, rows, wantShape[2])
		again, err := g.Refine(context.Background(), b, rows)
		require.NoError(t, err)
		RequireClose(t, before, Logits(t, again, rows, wantShape[2]), 1e-5+tolerance/100)
	})
}

// LabelConditions returns the classes of a pack's cases; with `without` all are no class.
func LabelConditions(p *Pack, i int) (with, without *model.Condition) {
	labels, _ := p.Ints("labels")
	return &model.Condition{Class: labels[i]}, nil
}

// CheckConditional compares full passes with logits_cond and logits_uncond, both in one batch,
// and a partial pass of all sequences with partial_logits_cond. It also checks that a partial
// pass over unchanged tokens gives the full pass's logits.
func CheckConditional(t *testing.T, open func(t testing.TB, name string) *Pack, packs []string,
	conditions Conditions) {
	runEachOpened(t, open, packs, func(t *testing.T, p *Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		size := shape[0]
		length := shape[1]
		with, wantShape := p.Floats("logits_cond")
		without, _ := p.Floats("logits_uncond")
		columns := wantShape[2]
		batch := &model.Batch{
			Size:       2 * size,
			Length:     length,
			Tokens:     append(append([]int32(nil), tokens...), tokens...),
			Conditions: make([]*model.Condition, 2*size),
		}
		for i := range size {
			batch.Conditions[i], batch.Conditions[size+i] = conditions(p, i)
		}
		got, err := m.Forward(context.Background(), batch)
		require.NoError(t, err)
		RequireClose(t, append(with, without...), Logits(t, got, Count(2*size*length), columns),
			tolerance)

		// Rows that nobody reads may be missing; the others have the same bytes.
		all := Logits(t, got, Count(2*size*length), columns)
		var read []int32
		var recorded []float32
		for row := range int32(2*size*length - length) { // none of the last sequence
			if row%3 == 1 {
				read = append(read, row)
				recorded = append(recorded, all[int(row)*columns:][:columns]...)
			}
		}
		batch.ReadRows = read
		got, err = m.Forward(context.Background(), batch)
		require.NoError(t, err)
		require.Equal(t, recorded, Logits(t, got, read, columns))

		rows, _ := p.Ints("partial_rows")
		partialTokens, _ := p.Ints("partial_tokens")
		want, _ := p.Floats("partial_logits_cond")
		b := &model.Batch{
			Size:       size,
			Length:     length,
			Tokens:     append([]int32(nil), tokens...),
			Conditions: batch.Conditions[:size],
			Cache:      m.NewCache(size+1, length),
		}
		for i := range size { // the first place stays empty
			b.Places = append(b.Places, size-i)
		}
		full, err := m.Forward(context.Background(), b)
		require.NoError(t, err)
		var refined []int32
		for s := range size {
			for _, row := range rows {
				refined = append(refined, int32(s*length)+row)
			}
		}
		fullLogits := Logits(t, full, refined, columns)
		refinedMarginals, err := m.Refine(context.Background(), b, refined)
		require.NoError(t, err)
		RequireClose(t, fullLogits, Logits(t, refinedMarginals, refined, columns), 1e-5+tolerance/100)

		b.Tokens = partialTokens
		part, err := m.Refine(context.Background(), b, refined)
		require.NoError(t, err)
		RequireClose(t, want, Logits(t, part, refined, columns), tolerance)
	})
}

// PromptConditions returns the texts of a pack's cases; with `without` all are the pack's empty
// text. numbers, when not nil, is the case with further inputs of each sequence.
func PromptConditions(numbers func(p *Pack, i int) []float64) Conditions {
	cached := map[*Pack][]*model.Condition{}
	return func(p *Pack, i int) (with, without *model.Condition) {
		if cached[p] == nil {
			states, shape := p.Floats("text_before_last")
			pooled, wide := p.Floats("text_pooled")
			none, _ := p.Floats("null_before_last")
			nonePooled, _ := p.Floats("null_pooled")
			size := shape[1] * shape[2] // of one text
			prompt := func(i int, states, pooled []float32) *model.Condition {
				c := &model.Condition{Prompt: &model.Prompt{
					Rows:   shape[1],
					Width:  shape[2],
					States: states,
					Pooled: pooled,
				}}
				if numbers != nil {
					c.Prompt.Numbers = numbers(p, i)
				}
				return c
			}
			for i := range shape[0] {
				cached[p] = append(cached[p], prompt(i, states[i*size:(i+1)*size],
					pooled[i*wide[1]:(i+1)*wide[1]]))
			}
			cached[p] = append(cached[p], prompt(0, none, nonePooled))
		}
		list := cached[p]
		return list[i], list[len(list)-1]
	}
}
