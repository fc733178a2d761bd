package generate_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

func TestReuseFeedsWhatItSays(t *testing.T) {
	position := func(rows []int32) (out []int) {
		for _, row := range rows {
			out = append(out, int(row))
		}
		return out
	}
	span := func(from, to int) (out []int) {
		for p := from; p < to; p++ {
			out = append(out, p)
		}
		return out
	}
	for _, reuse := range []generate.Reuse{generate.Prefix, generate.Dual} {
		d := newTable(16)
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			"semi-ar(block=8,halton)"),
			Steps: 8, Reuse: reuse}}}
		n := 0
		for step, err := range generate.Run(context.Background(), d, o) {
			require.NoError(t, err)
			n = step.N
		}
		require.Equal(t, 8, n)
		require.Len(t, d.rows, 7) // the first pass is full
		for i, rows := range d.rows {
			want := span(0, 16)
			switch {
			case i < 3 && reuse == generate.Dual:
				want = span(0, 8)
			case i > 3:
				want = span(8, 16)
			}
			require.Equal(t, want, position(rows), "%s step %d", reuse, i+2)
		}
	}
	for _, c := range []struct {
		reuse            generate.Reuse
		refresh          int
		sampler          string
		full, start, all int // steps of a full pass and of the second block; positions of the first
	}{
		{generate.Delayed, 4, "random", 5, 0, 16},
		{generate.BlockDelayed, 0, "semi-ar(block=8,halton)", 0, 5, 8},
		{generate.BlockDelayed, 6, "semi-ar(block=8,halton)", 7, 5, 8},
	} {
		d := newTable(16)
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{
			Sampler: parse(t, c.sampler), Steps: 8, Reuse: c.reuse, Refresh: c.refresh}}}
		var opened []int
		masked := span(0, 16)
		for step, err := range generate.Run(context.Background(), d, o) {
			require.NoError(t, err)
			if step.N > 1 {
				want := slices.Concat(masked, opened)
				if c.start > 0 && step.N < c.start { // nothing behind the first block
					want = slices.DeleteFunc(want, func(p int) bool { return p >= c.all })
				}
				slices.Sort(want)
				if step.N == c.full {
					want = span(0, 16)
				}
				require.Equal(t, want, position(d.rows[step.N-2]), "%s step %d", c.reuse, step.N)
			}
			opened = opened[:0]
			for _, o := range step.Sequences[0].Opened {
				opened = append(opened, o.Position)
				masked = slices.DeleteFunc(masked, func(p int) bool { return p == o.Position })
			}
		}
	}
}

// Where partial passes are exact, as for the table and for exact models, reuse changes nothing, for
// any batch size and also with stages.
func TestReuseWithExactPartialPasses(t *testing.T) {
	for _, c := range []struct {
		reuse generate.Reuse
		name  string
		cache int
	}{
		{generate.Prefix, "semi-ar(block=5,moment)", 0}, {generate.Dual, "semi-ar(block=5,threshold)", 0},
		{generate.Dual, "semi-ar(block=5,hybrid)", 2},
		{generate.Delayed, "hybrid", 1}, {generate.Delayed, "eb", 0}, {generate.Delayed, "maskgit", 0},
		{generate.Delayed, "vanilla", 0}, {generate.Delayed, "info-gain", 0},
		{generate.BlockDelayed, "semi-ar(block=5,threshold)", 0},
		{generate.BlockDelayed, "semi-ar(block=5,hybrid)", 2},
		{generate.Dual, "semi-ar(block=5,dilated(least=0.3))", 0},
		{generate.Delayed, "dilated", 1},
		{generate.Delayed, "spaced(eb(budget=3))", 0},
		{generate.BlockDelayed, "semi-ar(block=10,spaced(threshold(theta=0.2)))", 2},
	} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			c.name), Steps: 6,
			Cache: c.cache}}, N: 5, Batch: 5}
		want := collect(t, newTable(20), o)
		o.Reuse = c.reuse
		for _, o.Batch = range []int{1, 3, 5} {
			require.Equal(t, want, collect(t, newTable(20), o), "%s %s", c.reuse, c.name)
		}
	}
	for want, o := range map[string]generate.Options{
		"generate: no dual reuse with this sampler: it has no blocks, such as those of semi-ar":        {Request: generate.Request{Recipe: generate.Recipe{Reuse: generate.Dual}}},
		"generate: no dkv reuse with this sampler: it masks positions again, so no key or value stays": {Request: generate.Request{Recipe: generate.Recipe{Reuse: generate.Delayed, Sampler: samplers.P2{}}}},
		"refresh is -1": {Request: generate.Request{Recipe: generate.Recipe{Refresh: -1}}},
		"samplers: dreamon around a sampler that masks again, want one that does not": {Request: generate.Request{Recipe: generate.Recipe{Sampler: samplers.DreamOn{Inside: samplers.P2{}}}}},
		"samplers: semi-ar around a sampler that masks again, want one that does not": {Request: generate.Request{Recipe: generate.Recipe{Sampler: samplers.SemiAR{Inside: samplers.P2{}}}}},
	} {
		for _, err := range generate.Run(context.Background(), newTable(20), o) {
			refusal.RequireText(t, err, want)
		}
	}
	for _, name := range []string{"none", "prefix", "dual", "dkv", "block-dkv"} {
		u, err := generate.ParseReuse(name)
		require.NoError(t, err)
		require.Equal(t, name, u.String())
	}
	_, err := generate.ParseReuse("all")
	require.EqualError(t, err,
		`generate: unknown reuse "all", want one of block-dkv, blocks, causal, dkv, dual, finished, none, prefix`)
}
