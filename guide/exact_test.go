package guide_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/exact"
	_ "unmask/families/llama"
	"unmask/generate"
	"unmask/guide"
	"unmask/kvcache"
	"unmask/model"
	"unmask/research/theory"
	"unmask/samplers"
	"unmask/testkit/parity"
)

func exactModel(t testing.TB, text string) *exact.Model {
	m, err := exact.Parse(text)
	require.NoError(t, err)
	return m
}

// family returns an exact model of two classes.
func family(t testing.TB, texts ...string) *exact.Denoiser {
	var all []*exact.Model
	for _, text := range texts {
		all = append(all, exactModel(t, text))
	}
	d, err := exact.NewConditional(all[0], all[1:]...)
	require.NoError(t, err)
	return d
}

// headed is an exact model with an output head: its logits are the head's inputs, and the head is
// the identity.
type headed struct {
	*exact.Denoiser
	b         backend.Backend
	rows      *tensor.Dense
	marginals model.HeadMarginals
	refined   int
}

func newHeaded(d *exact.Denoiser, b backend.Backend) *headed {
	n := d.Tokens()
	h := &headed{Denoiser: d, b: b}
	w := b.Pack(n, n, backend.F32, func(i int, dst []float32) { clear(dst); dst[i] = 1 })
	h.marginals = model.HeadMarginals{Backend: b, Head: backend.Head{W: w, Outcomes: n},
		Length: d.Length(), Project: func(rows []int32) *tensor.Dense {
			x := b.New(len(rows), n)
			b.Gather(x, h.rows, rows)
			return x
		}}
	return h
}

func (h *headed) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	m, err := h.Denoiser.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	h.rows = h.b.New(b.Size*b.Length, h.Tokens())
	return &h.marginals, m.Visit(parity.Count(b.Size*b.Length),
		func(i int, l []float32) { h.b.Write(h.rows, i, l) })
}

func (h *headed) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	h.refined++
	return h.Forward(ctx, b)
}

// subjects returns the family itself, and as a network with a head on every device.
func subjects(t *testing.T, texts ...string) map[string]model.Refiner {
	out := map[string]model.Refiner{"rows": family(t, texts...)}
	for _, d := range parity.Devices {
		if d.Precision == backend.F32 {
			out[d.Name] = newHeaded(family(t, texts...), d.New(t))
		}
	}
	return out
}

// guided returns log p of the distribution with logits c + w(c-u).
func guided(c, u []float64, w float64) []float64 {
	out, sum := make([]float64, len(c)), 0.0
	for i := range c {
		out[i] = math.Pow(c[i], 1+w) * math.Pow(u[i], -w)
		sum += out[i]
	}
	for i := range out {
		out[i] = math.Log(out[i] / sum)
	}
	return out
}

var hidden = []string{"hmm:length=6,tokens=4,hidden=3,seed=1",
	"hmm:length=6,tokens=4,hidden=2,seed=2", "markov:length=6,tokens=4,seed=3"}

// The marginals equal the closed form: for every row and any known positions, in full and partial
// passes, with a scale for each sequence, and also after a filter.
func TestMarginalsOfTheClosedForm(t *testing.T) {
	models := []*exact.Model{exactModel(t, hidden[1]), exactModel(t, hidden[2]),
		exactModel(t, hidden[0])}
	x := []int32{4, 2, 4, 4, 1, 4}
	scales := []float64{1.5, 0, -0.5, 3, -1, 2}
	classes := []int32{0, 1, 1, 0, 1, model.NoClass}
	for name, d := range subjects(t, hidden...) {
		t.Run(name, func(t *testing.T) {
			scale := func(i int, _ model.Progress) (float64, bool) { return scales[i], true }
			g := guide.NewPerSequence(d, scale).(model.Refiner)
			for _, lasts := range []bool{false, true} {
				b := &model.Batch{Size: 6, Length: 6, Tokens: slices.Repeat(x, 6), Cache: g.NewCache(6, 6),
					CacheReused: lasts}
				for _, c := range classes {
					b.Conditions = append(b.Conditions, &model.Condition{Class: c})
				}
				full, err := g.Forward(context.Background(), b)
				require.NoError(t, err)
				check := func(m model.Marginals) {
					for row := range 36 {
						i, pos := row/6, row%6
						c, u := make([]float64, 24), make([]float64, 24)
						class := models[2]
						if classes[i] >= 0 {
							class = models[classes[i]]
						}
						class.Conditionals(c, x)
						models[2].Conditionals(u, x)
						want := guided(c[4*pos:4*pos+4], u[4*pos:4*pos+4], scales[i])
						sum, top, arg := make([]float64, 1), make([]float64, 1), make([]int32, 1)
						require.NoError(t, m.Stats([]int32{int32(row)}, &model.Stats{LogSum: sum, P1: top, Arg: arg}))
						require.NoError(t, m.Visit([]int32{int32(row)}, func(_ int, l []float32) {
							for k := range 4 {
								require.InDelta(t, want[k], float64(l[k])-sum[0], 1e-4, "row %d", row)
							}
						}))
						require.InDelta(t, math.Exp(slices.Max(want)), top[0], 1e-4)
						f := &model.Filtered{Base: m, Outcomes: 4,
							Filter: &model.Filter{Temperature: 0.5, TopK: 2, Ban: []int32{3}}}
						require.NoError(t, f.Stats([]int32{int32(row)}, &model.Stats{P1: top}))
						sorted := slices.Sorted(slices.Values(want[:3]))
						require.InDelta(t, 1/(1+math.Exp(2*(sorted[1]-sorted[2]))), top[0], 1e-3)
					}
				}
				check(full)
				part, err := g.Refine(context.Background(), b, parity.Count(36))
				require.NoError(t, err)
				check(part)
			}
		})
	}
}

// If positions are independent, whole sequences have a closed form too. Every unbiased rule draws
// from it: with partial caching, with a scale per step where that gives the same distribution, and
// on a device that chooses.
func TestSequencesOfTheClosedForm(t *testing.T) {
	texts := []string{"product:length=3,tokens=3,seed=1", "product:length=3,tokens=3,seed=2",
		"product:length=3,tokens=3,seed=3"}
	const w = 0.8
	c, u := make([]float64, 9), make([]float64, 9)
	x := []int32{3, 3, 3}
	exactModel(t, texts[2]).Conditionals(c, x)
	exactModel(t, texts[0]).Conditionals(u, x)
	want := make([]float64, 27)
	for i := range want {
		p := 1.0
		for pos, token := range []int{i / 9, i / 3 % 3, i % 3} {
			p *= math.Exp(guided(c[3*pos:3*pos+3], u[3*pos:3*pos+3], w)[token])
		}
		want[i] = p
	}
	for name, d := range subjects(t, texts...) {
		for i, rule := range []string{"random", "halton", "u-moment", "hybrid", "vanilla", "entropy"} {
			n := 3000
			if name != "rows" {
				if n = 300; i != 0 && i != 3 { // an emulated device is slow
					continue
				}
			}
			t.Run(name+"/"+rule, func(t *testing.T) {
				sampler, err := samplers.Parse(rule)
				require.NoError(t, err)
				for cache := range 2 {
					r := generate.Recipe{Sampler: sampler, Steps: 2, Cache: cache,
						Guidance: generate.Guidance{Scale: w}}
					if samplers.CacheRefusal(sampler) != "" {
						r.Cache = 0
					}
					count := make([]float64, 27)
					o := generate.Options{Request: generate.Request{Recipe: r, Seed: 9,
						Condition: &model.Condition{Class: 1}}, N: n, Batch: n}
					for q, err := range generate.Samples(t.Context(), d, o) {
						require.NoError(t, err)
						count[9*q.Tokens[0]+3*q.Tokens[1]+q.Tokens[2]]++
					}
					chi, bound := theory.ChiSquare(count, theory.Scale(want, float64(n)))
					require.Less(t, chi, bound, "cache %d", cache)
				}
			})
		}
	}
}

// A device chooses from guided marginals what the host chooses.
func TestDevicesChooseGuided(t *testing.T) {
	run := func(d model.Denoiser, rule string, filter model.Filter) (out [][]int32) {
		sampler, err := samplers.Parse(rule)
		require.NoError(t, err)
		requests := make([]generate.Request, 6)
		for i := range requests {
			requests[i] = generate.Request{Recipe: generate.Recipe{Sampler: sampler, Steps: 3,
				Filter: filter, Guidance: generate.Guidance{Scale: 2, Schedule: "linear"}}, Seed: 4,
				Index: uint32(i), Condition: &model.Condition{Class: int32(i%3) - 1}}
		}
		for step, err := range generate.Each(t.Context(), d, generate.PoolOptions{Guided: true},
			slices.Values(requests)) {
			require.NoError(t, err)
			for _, q := range step.Sequences {
				if q.Finished {
					out = append(out, slices.Clone(q.Tokens))
				}
			}
		}
		return out
	}
	for name, d := range subjects(t, hidden...) {
		for _, rule := range []string{"moment", "hybrid", "maskgit", "halton"} {
			for _, filter := range []model.Filter{{}, {TopK: 3}} {
				require.Equal(t, run(family(t, hidden...), rule, filter), run(d, rule, filter), "%s %s", name,
					rule)
			}
		}
	}
}

// spy fails if a partial pass finds no keys and values of an earlier full pass.
type spy struct {
	*exact.Denoiser
	filled map[int]bool
	passes []int
}

func (s *spy) NewCache(batch, length int) *kvcache.Cache {
	return s.Denoiser.NewCache(batch, length)
}

func (s *spy) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	s.passes = append(s.passes, b.Size)
	for i := range b.Size {
		s.filled[b.Place(i)] = b.Cache != nil
	}
	return s.Denoiser.Forward(ctx, b)
}

func (s *spy) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals, error) {
	for _, row := range rows {
		if at := b.Place(int(row) / b.Length); !s.filled[at] {
			return nil, fmt.Errorf("nothing is at place %d", at)
		}
	}
	return s.Denoiser.Refine(ctx, b, rows)
}

// A step of scale 0 is one pass, unless later steps read the keys and values of both passes.
func TestOnePassWhereItSuffices(t *testing.T) {
	for _, c := range []struct {
		recipe string
		class  int32
		passes []int
	}{
		{"random steps=3 guidance=2 guidance-schedule=linear", 1, []int{1, 2, 2}},
		{"random steps=3 cache=1 guidance=2 guidance-schedule=linear", 1, []int{1, 2, 2}},
		{"random steps=3 reuse=dkv refresh=9 guidance=2 guidance-schedule=linear", 1, []int{2}},
		{"semi-ar(random,block=2) steps=3 reuse=prefix guidance=2 guidance-schedule=linear", 1, []int{2}},
		{"random steps=3", 1, []int{1, 1, 1}},
		{"random steps=3 guidance=2", model.NoClass, []int{1, 1, 1}}, // the other pass would be the same
	} {
		r, err := generate.ParseRecipe(c.recipe)
		require.NoError(t, err)
		s := &spy{family(t, hidden...), map[int]bool{}, nil}
		p, err := generate.NewPool(s, generate.PoolOptions{Size: 2, Guided: true})
		require.NoError(t, err)
		q, err := p.Add(generate.Request{Recipe: r, Condition: &model.Condition{Class: c.class}})
		require.NoError(t, err)
		for !q.Done {
			_, err := p.Step(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, q.Err, c.recipe)
		require.Equal(t, c.passes, s.passes, c.recipe)
	}
}

// A language model is guided by its given tokens: the other pass sees masks in place of the prompt
// (Nie et al. 2025, LLaDA, generate.py, cfg_scale).
func TestTokensGuide(t *testing.T) {
	m := exactModel(t, hidden[0])
	g := guide.New(exact.NewDenoiser(m), func(model.Progress) float64 { return 1.5 })
	x := []int32{1, 4, 4, 2, 4, 4}
	b := &model.Batch{Size: 1, Length: 6, Tokens: x,
		Conditions: []*model.Condition{{Class: model.NoClass, KnownPositions: []int32{0}}}}
	got, err := g.Forward(context.Background(), b)
	require.NoError(t, err)
	c, u := make([]float64, 24), make([]float64, 24)
	m.Conditionals(c, x)
	m.Conditionals(u, []int32{4, 4, 4, 2, 4, 4})
	want := guided(c[4:8], u[4:8], 1.5)
	top := make([]float64, 1)
	require.NoError(t, got.Stats([]int32{1}, &model.Stats{P1: top}))
	require.InDelta(t, math.Exp(slices.Max(want)), top[0], 1e-5)

	sampler, err := samplers.Parse("random")
	require.NoError(t, err)
	r := generate.Recipe{Sampler: sampler, Steps: 2, Guidance: generate.Guidance{Scale: 1.5}}
	_, err = generate.Options{Request: generate.Request{Recipe: r}}.Check(exact.NewDenoiser(m))
	require.EqualError(t, err,
		"generate: guidance is 1.5, want 0: this model takes no condition, and no token is known")
	s := &spy{exact.NewDenoiser(m), map[int]bool{}, nil}
	for _, err := range generate.Samples(t.Context(), s,
		generate.Options{Request: generate.Request{Recipe: r, Known: x}}) {
		require.NoError(t, err)
	}
	require.Equal(t, []int{2, 2}, s.passes)
}

// For language models the head's inputs are mixed, shifted or not: the logits equal those of two
// passes, and a reduction writes no row of logits.
func TestLanguageModelsGuided(t *testing.T) {
	for _, pack := range []string{"llada-tiny", "dream-tiny"} {
		l, err := model.Load(parity.Open(t, pack).Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		mask, n := l.Spec().Mask, 7
		x := []int32{3, 5, mask, mask, 7, mask, mask}
		blind := slices.Clone(x)
		blind[0], blind[1] = mask, mask
		rows := []int32{2, 3, 5, 6}
		logits := func(d model.Denoiser, x []int32, c *model.Condition) [][]float32 {
			m, err := d.Forward(t.Context(),
				&model.Batch{Size: 1, Length: n, Tokens: x, Conditions: []*model.Condition{c}, ReadRows: rows})
			require.NoError(t, err)
			_, ok := m.(interface{ AsHeadMarginals() *model.HeadMarginals })
			require.True(t, ok)
			out := make([][]float32, len(rows))
			require.NoError(t, m.Visit(rows, func(i int, l []float32) { out[i] = slices.Clone(l) }))
			return out
		}
		c, u := logits(l.Denoiser, x, nil), logits(l.Denoiser, blind, nil)
		got := logits(guide.New(l.Denoiser, func(model.Progress) float64 { return 1.5 }), x,
			&model.Condition{Class: model.NoClass, KnownPositions: []int32{0, 1}})
		for i := range rows {
			for k, v := range got[i] {
				if want := float64(c[i][k]) + 1.5*(float64(c[i][k])-float64(u[i][k])); !math.IsNaN(want) &&
					!math.IsInf(want, 0) {
					require.InDelta(t, want, v, 1e-3, "%s row %d", pack, rows[i])
				} else {
					require.True(t, math.IsInf(float64(v), -1)) // the mask
				}
			}
		}
	}
}

// placed notes at which places of the cache the sequences of its passes are.
type placed struct {
	*exact.Denoiser
	places [][]int
}

func (p *placed) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	p.places = append(p.places, slices.Clone(b.Places))
	return p.Denoiser.Forward(ctx, b)
}

// The keys and values of the other passes have places of their own, behind those of the sequences.
func TestPlacesOfOtherPasses(t *testing.T) {
	d := &placed{family(t, hidden...), nil}
	g := guide.New(d, func(model.Progress) float64 { return 1.5 }).(model.Refiner)
	b := &model.Batch{Size: 3, Length: 6, Tokens: slices.Repeat([]int32{4, 2, 4, 4, 1, 4}, 3),
		Cache: g.NewCache(3, 6), CacheReused: true, Places: []int{2, 0, 1}}
	for class := range int32(3) {
		b.Conditions = append(b.Conditions, &model.Condition{Class: class % 2})
	}
	_, err := g.Forward(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, [][]int{{2, 0, 1, 5, 3, 4}}, d.places)
}
