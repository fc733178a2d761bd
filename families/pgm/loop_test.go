package pgm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
)

// inOrder opens positions in a given order.
type inOrder []int32

func (inOrder) Needs(int, int) samplers.Need { return samplers.Need{} }

func (o inOrder) Choose(v *samplers.View) (samplers.Opening, error) {
	var open samplers.Opening
	for _, p := range o {
		if len(open.Positions) < v.Quota && v.Tokens[p] == v.Mask {
			open.Positions = append(open.Positions, int(p))
		}
	}
	return open, nil
}

// run returns the tokens after each step of a run.
func run(t *testing.T, m model.Denoiser, r generate.Request) (steps [][]int32) {
	t.Helper()
	for step, err := range generate.Each(context.Background(), m, generate.PoolOptions{Guided: true},
		slices.Values([]generate.Request{r})) {
		require.NoError(t, err)
		steps = append(steps, slices.Clone(step.Sequences[0].Tokens))
	}
	return steps
}

// requireSteps requires that a run opened the pack's positions, in its order and so many a step.
func requireSteps(t *testing.T, p *parity.Pack, name string, start []int32, steps [][]int32) {
	t.Helper()
	want, _ := p.Ints("golden_" + name)
	order, _ := p.Ints("golden_" + name + "_order")
	counts, _ := p.Ints("golden_" + name + "_count")
	require.Len(t, steps, len(counts))
	tokens := slices.Clone(start)
	for i, n := range counts {
		for _, position := range order[:n] {
			tokens[position] = want[position]
		}
		order = order[n:]
		require.Equal(t, tokens, steps[i], "step %d", i)
	}
	require.Equal(t, want, tokens)
}

// The published loop of text at temperature 0 opens the reference's tokens, so many a step, in an
// order that was drawn, in Halton's and from the left, from nothing and around known tokens; so do
// confident runs.
func TestTextLoops(t *testing.T) {
	p, m := load(t, textPacks[0])
	for name, recipe := range map[string]string{
		"uniform":       "random schedule=pgm steps=4",
		"uniform_one":   "random schedule=pgm steps=23",
		"halton":        "halton schedule=pgm steps=6",
		"infill":        "random schedule=pgm steps=6",
		"infill_halton": "halton schedule=pgm steps=6",
		"infill_left":   "random schedule=pgm steps=18",
		"confident":     "confidence schedule=pgm steps=6",
		"confident_one": "confidence schedule=pgm steps=18",
	} {
		t.Run(name, func(t *testing.T) {
			start, _ := p.Ints("golden_" + name + "_prompt")
			order, _ := p.Ints("golden_" + name + "_order")
			r, err := generate.ParseRecipe(recipe + " temperature=0")
			require.NoError(t, err)
			if strings.HasPrefix(recipe, "random") {
				r.Sampler = inOrder(order)
			}
			requireSteps(t, p, name, start, run(t, m, generate.Request{Recipe: r, Known: start}))
		})
	}
}

// A step of the published loop opens k of m masked positions, all alike, each with a token of its
// own marginal.
func TestLawOfText(t *testing.T) {
	p, m := load(t, textPacks[0])
	all, shape := p.Ints("tokens")
	start := all[:shape[1]]
	rows, _ := p.Ints("law_rows")
	want, wantShape := p.Floats("law")
	count := m.Spec().CountMasked(start)
	r, err := generate.ParseRecipe("random schedule=pgm steps=2")
	require.NoError(t, err)
	const runs = 40_000
	requests := make([]generate.Request, runs)
	for i := range requests {
		requests[i] = generate.Request{Recipe: r, Index: uint32(i), Known: start}
	}
	k := samplers.OpenCount(samplers.ForPGM, 1, 2, count)
	columns := wantShape[1]
	expected := make([]float64, len(want))
	for i, x := range want {
		expected[i] = float64(x) * float64(k) / float64(count)
	}
	got := make([]float64, len(want))
	for step, err := range generate.Each(t.Context(), m, generate.PoolOptions{},
		slices.Values(requests)) {
		require.NoError(t, err)
		for _, q := range step.Sequences {
			if q.N > 1 {
				continue
			}
			for i, row := range rows {
				if token := q.Tokens[row]; token != m.Spec().Mask {
					got[i*columns+int(token)] += 1. / runs
				}
			}
		}
	}
	for i := range rows {
		require.Less(t, distance(expected[i*columns:][:columns], got[i*columns:][:columns]), 0.02)
	}
}

// The published loop of images: Halton's order, guidance that rises, and the token that opened last
// seen by nobody, or by all.
func TestImageLoops(t *testing.T) {
	p, hidden := load(t, imagePacks[0])
	_, seen := load(t, imagePacks[0], seenConfig...)
	const form = "halton-maskgit(warm=1,roll=off) schedule=arccos steps=%d guidance=%g " +
		"guidance-schedule=%s temperature=0"
	for name, c := range map[string]struct {
		m      *model.Loaded
		recipe string
	}{
		"halton":          {hidden, fmt.Sprintf(form, 6, 2., "ramp")},
		"halton_seen":     {seen, fmt.Sprintf(form, 6, 2., "ramp")},
		"halton_plain":    {hidden, "halton-maskgit(warm=1,roll=off) schedule=arccos steps=8 temperature=0"},
		"halton_constant": {seen, fmt.Sprintf(form, 6, 1., "constant")},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := generate.ParseRecipe(c.recipe)
			require.NoError(t, err)
			class, _ := p.Ints("golden_" + name + "_prompt")
			start := slices.Repeat([]int32{c.m.Spec().Mask}, c.m.Spec().Length())
			steps := run(t, c.m, generate.Request{Recipe: r,
				Condition: &model.Condition{Class: class[0]}})
			requireSteps(t, p, name, start, steps)
		})
	}
}

// late are the confident runs' counts as a schedule: 2, 4, 6, 8 and 12 of 32 cells.
type late struct{}

func (late) At(at float64, _, _ int) int { return []int{0, 2, 6, 12, 20, 32}[int(at)] }
func (late) String() string              { return "late" }

// ascending opens what another sampler does, in rising order: the reference's confident runs join
// known tokens so.
type ascending struct{ samplers.Sampler }

func (a ascending) Choose(v *samplers.View) (samplers.Opening, error) {
	o, err := a.Sampler.Choose(v)
	type opened struct {
		position int
		token    int32
		logP     float64
	}
	var list []opened
	for i, p := range o.Positions {
		list = append(list, opened{p, o.Tokens[i], o.LogP[i]})
	}
	slices.SortFunc(list, func(a, b opened) int { return a.position - b.position })
	for i, x := range list {
		o.Positions[i] = x.position
		o.Tokens[i] = x.token
		o.LogP[i] = x.logP
	}
	return o, err
}

// Confident runs of images around known cells.
func TestConfidentImages(t *testing.T) {
	p, hidden := load(t, imagePacks[0])
	_, seen := load(t, imagePacks[0], seenConfig...)
	for name, m := range map[string]*model.Loaded{"confident": hidden, "confident_seen": seen} {
		t.Run(name, func(t *testing.T) {
			prompt, _ := p.Ints("golden_" + name + "_prompt")
			r, err := generate.ParseRecipe("amused(tokens=likeliest) steps=5 guidance=2 " +
				"guidance-schedule=ramp temperature=0")
			require.NoError(t, err)
			r.Schedule = late{}
			r.Sampler = ascending{r.Sampler}
			steps := run(t, m, generate.Request{Recipe: r, Known: prompt[1:],
				Condition: &model.Condition{Class: prompt[0]}})
			requireSteps(t, p, name, prompt[1:], steps)
		})
	}
}
