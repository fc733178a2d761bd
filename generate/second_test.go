package generate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// recorder keeps the tokens of each full pass.
type recorder struct {
	*table
	passes [][]int32
	fails  bool // passes that begin with 5
}

func (r *recorder) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	r.passes = append(r.passes, slices.Clone(b.Tokens))
	for at := 0; at < len(b.Tokens); at += b.Length {
		if r.fails && b.Tokens[at] == 5 {
			return nil, errors.New("no pass may begin with 5")
		}
	}
	return r.table.Forward(ctx, b)
}

// asks opens position 1 with the most probable token of a second pass over other tokens.
func asks(other []int32) rule {
	return rule{samplers.Need{Logits: true}, func(v *samplers.View) (samplers.Opening, error) {
		second := &samplers.Second{Tokens: other}
		second.Choose = func(v *samplers.View) (o samplers.Opening, err error) {
			err = v.Visit([]int{1}, func(_ int, logits []float32) {
				best := slices.Index(logits, slices.Max(logits[:v.Outcomes]))
				o = samplers.Opening{Positions: []int{1, 2}, Tokens: []int32{int32(best), 3}}
			})
			return o, err
		}
		return samplers.Opening{Second: second}, nil
	}}
}

// A second pass is one over the tokens that the sampler gives. Alternatives are those of the pass
// that predicted a position.
func TestSecondPass(t *testing.T) {
	d := &recorder{table: newTable(3)}
	known, other := []int32{1, 9, 9}, []int32{2, 9, 4}
	p, err := generate.NewPool(d, generate.PoolOptions{})
	require.NoError(t, err)
	q, err := p.Add(generate.Request{Recipe: generate.Recipe{Sampler: asks(other), Steps: 1},
		Known: known, Top: 1})
	require.NoError(t, err)
	_, err = p.Step(t.Context())
	require.NoError(t, err)
	require.NoError(t, q.Err)

	best := func(tokens []int32, at int) int32 {
		logits := make([]float32, 7)
		for token := range logits {
			logits[token] = d.logits(tokens, at, token)
		}
		return int32(slices.Index(logits, slices.Max(logits)))
	}
	require.NotEqual(t, best(known, 1), best(other, 1))
	require.Equal(t, [][]int32{known, other}, d.passes)
	require.Equal(t, []float64{2.0 / 3, 1.0 / 3}, d.times)
	require.Equal(t, []int32{1, best(other, 1), 3}, q.Tokens)
	require.Equal(t, 2, q.Work.Full)
	require.Equal(t, best(other, 1), q.Opened[0].Top[0].Token)
	require.Equal(t, best(known, 2), q.Opened[1].Top[0].Token)
}

func TestSecondPassesThatAreRefused(t *testing.T) {
	third := asks([]int32{1, 9, 9})
	third.choose = func(*samplers.View) (samplers.Opening, error) {
		return samplers.Opening{Second: &samplers.Second{Tokens: []int32{1, 9, 9}, Choose: third.choose}},
			nil
	}
	first := asks([]int32{1, 9, 9})
	first.need = samplers.Need{}
	outside := asks([]int32{1, 9, 9})
	outside.choose = func(*samplers.View) (samplers.Opening, error) {
		return samplers.Opening{Second: &samplers.Second{Tokens: []int32{1, 9, 9},
			Choose: func(v *samplers.View) (samplers.Opening, error) {
				return samplers.Opening{}, v.Visit([]int{0}, func(int, []float32) {})
			}}}, nil
	}
	for want, r := range map[string]rule{
		"asks for a third pass, want two at most":                     third,
		"asks for a second pass, want a Need of the first":            first,
		"reads logits of position 0, want one of View.Masked or Open": outside,
	} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: r, Steps: 1},
			Known: []int32{1, 9, 9}}}
		seen := false
		for _, err := range generate.Run(t.Context(), newTable(3), o) {
			if err != nil {
				require.ErrorContains(t, err, want)
				seen = true
			}
		}
		require.True(t, seen, want)
	}
}

// A second pass that fails for one sequence fails for no other.
func TestSecondPassThatFailsForOne(t *testing.T) {
	d := &recorder{table: newTable(3), fails: true}
	p, err := generate.NewPool(d, generate.PoolOptions{})
	require.NoError(t, err)
	var all []*generate.Sequence
	for i, s := range []samplers.Sampler{asks([]int32{5, 9, 9}), asks([]int32{2, 9, 9}),
		parse(t, "random")} {
		q, err := p.Add(generate.Request{Recipe: generate.Recipe{Sampler: s, Steps: 1},
			Known: []int32{1, 9, 9}, Index: uint32(i)})
		require.NoError(t, err)
		all = append(all, q)
	}
	_, err = p.Step(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, all[0].Err, "step 1 of 1: sequence 0: no pass may begin with 5")
	for i, q := range all[1:] {
		require.NoError(t, q.Err)
		require.True(t, q.Done)
		require.Equal(t, 2-i, q.Work.Full)
	}
}

// Where one token has more than a quarter of the positions, dplm makes a second pass in which these
// are masked and the others have their draws.
func TestDPLMPassesAgain(t *testing.T) {
	d := &recorder{table: newTable(8)}
	d.table.logits = func(_ []int32, at, token int) float32 {
		if favourite := max(at-4, 0); token == favourite { // 0 at five of eight positions
			return 40
		}
		return 0
	}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
		"dplm"), Steps: 1}}}
	out := collect(t, d, o)
	require.Equal(t, [][]int32{slices.Repeat([]int32{9}, 8), {9, 9, 9, 9, 9, 1, 2, 3}}, d.passes)
	require.Equal(t, []int32{0, 0, 0, 0, 0, 1, 2, 3}, out[0])

	d.passes = nil
	o.Sampler = parse(t, "dplm(resample=1)")
	require.Equal(t, out, collect(t, d, o))
	require.Len(t, d.passes, 1)
}
