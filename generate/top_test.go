package generate_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/generate"
	"unmask/param"
)

// The most probable tokens of each opened position are those of its own pass, and asking for them
// changes nothing else.
func TestTop(t *testing.T) {
	checks(t, "20")
	for name, d := range subjects(t, 2) {
		t.Run(name, func(t *testing.T) {
			outcomes, drawn := d.Spec().Outcomes, 0
			rapid.Check(t, func(t *rapid.T) {
				plain, other := drawRequest(t, d, 0), drawRequest(t, d, 1)
				asked := plain
				asked.Top = rapid.IntRange(1, generate.MaxTop).Draw(t, "top")
				p, err := generate.NewPool(d, generate.PoolOptions{Size: 3, Guided: guides(d)})
				require.NoError(t, err)
				var in []*generate.Sequence
				for _, r := range []generate.Request{other, asked, plain} {
					q, err := p.Add(r)
					require.NoError(t, err)
					in = append(in, q)
				}
				for a, b := in[1], in[2]; !b.Done; {
					_, err := p.Step(context.Background())
					require.NoError(t, err)
					require.Equal(t, b.Tokens, a.Tokens)
					for i, o := range a.Opened {
						require.Equal(t, math.Float64bits(b.Opened[i].LogP), math.Float64bits(o.LogP))
						require.Nil(t, b.Opened[i].Top)
						if o.Top == nil {
							continue
						}
						drawn++
						require.LessOrEqual(t, len(o.Top), min(asked.Top, outcomes))
						require.True(t, slices.IsSortedFunc(o.Top, func(x, y generate.TopToken) int {
							return -cmpLikely(x, y)
						}))
						at := slices.IndexFunc(o.Top, func(x generate.TopToken) bool { return x.Token == o.Token })
						if math.IsNaN(o.LogP) {
							continue
						}
						if at < 0 { // others are as probable
							require.Len(t, o.Top, asked.Top)
							require.LessOrEqual(t, o.LogP, o.Top[asked.Top-1].LogP+1e-5)
							continue
						}
						require.InDelta(t, o.LogP, o.Top[at].LogP, 1e-5, "%+v", asked)
					}
				}
			})
			require.Positive(t, drawn)
		})
	}
}

func cmpLikely(a, b generate.TopToken) int {
	switch {
	case a.LogP < b.LogP || a.LogP == b.LogP && a.Token > b.Token:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// All tokens that a filter leaves have probability 1 together, and the others are left out.
func TestTopOfFewTokens(t *testing.T) {
	for name, d := range subjects(t, 2) {
		r := generate.Request{Recipe: generate.Recipe{Sampler: parse(t, "moment"), Steps: 3, Cache: 1},
			Top: generate.MaxTop}
		r.Filter.TopK = 3
		p, err := generate.NewPool(d, generate.PoolOptions{})
		require.NoError(t, err)
		q, err := p.Add(r)
		require.NoError(t, err)
		for !q.Done {
			_, err := p.Step(context.Background())
			require.NoError(t, err)
			for _, o := range q.Opened {
				sum := 0.0
				for _, x := range o.Top {
					sum += math.Exp(x.LogP)
				}
				require.InDelta(t, 1, sum, 1e-6, name)
				require.GreaterOrEqual(t, len(o.Top), 3, name)
			}
		}
		for _, top := range []int{-1, generate.MaxTop + 1} {
			r.Top = top
			_, err := p.Add(r)
			e, ok := errors.AsType[*param.Error](err)
			require.True(t, ok)
			require.Equal(t, "top", e.Name)
		}
	}
}
