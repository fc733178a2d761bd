package generate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/backend/cpu"
	_ "unmask/dit"
	"unmask/exact"
	_ "unmask/families/llama"
	_ "unmask/families/titok"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
	_ "unmask/vit"
)

// subjects returns a text network, an image network and an exact model, all on the given number of
// threads.
func subjects(t *testing.T, threads int) map[string]model.Denoiser {
	out := map[string]model.Denoiser{"exact": exact.NewDenoiser(exactModel(t,
		"hmm:length=9,tokens=4,hidden=3"))}
	family, err := exact.NewConditional(exactModel(t, "hmm:length=9,tokens=4,hidden=3"),
		exactModel(t, "markov:length=9,tokens=4"),
		exactModel(t, "product:length=9,tokens=4"))
	require.NoError(t, err)
	out["classes"] = family
	for name, pack := range map[string]string{"dit": "sdtt-tiny", "vit": "mage-tiny",
		"titok": "titok-bert-tiny",
		"llada": "llada-tiny", "dream": "dream-tiny", "sdar": "sdar-tiny", "fast2": "fast-dllm-v2-tiny",
	} {
		l, err := model.Load(parity.Open(t, pack).Source,
			model.Options{Backend: cpu.New(cpu.Options{Threads: threads})})
		require.NoError(t, err)
		out[name] = l.Denoiser
	}
	return out
}

var poolRules = []string{"hybrid", "halton", "moment", "maskgit", "vanilla", "margin", "entropy",
	"eb", "klass", "info-gain",
	"semi-ar(moment,block=4)", "semi-ar(halton,block=4)", "threshold", "remdm", "gibbs(k=2)",
	"first-hitting", "temp", "dplm(resample=0.1)",
	"entropy-threshold(entropy=1)", "frechet(margin=-1)", "credit(theta=0.3)", "pc",
	"wino(wide=0.1,narrow=0.5,block=5)", "wino(wide=0.1,narrow=0.5,block=5,temperature=1)",
	"daedal(start=3,grow=2,low=0.4,high=0.3)", "rho-eos(start=4,unit=2)",
	"rho-eos(start=4,unit=2,cut=any)", "p2",
	"multi-block(entropy=1,block=4)", "draft", "semi-ar(draft(drafts=3),block=5)",
	"semi-ar(greedy(threshold(theta=0.1,relax=0.5)),block=4)",
	"dilated", "semi-ar(dilated(least=0.1),block=6)", "spaced(eb(budget=3))",
	"semi-ar(greedy(spaced(threshold(theta=0.1),stride=3)),block=6)"}

// blockRules are for models with blocks beside those.
var blockRules = []string{"dynamic(theta=0.05)", "edit(theta=0.05,edit=0.02,post=3)",
	"edit(theta=0.05,edit=0.01,post=3,temperature=1)",
	"fast-dllm-v2(theta=0.05,small=2,block=8)", "fast-dllm-v2(theta=0.05,small=4,block=8,cache=1)",
	"low-confidence", "greedy(threshold(theta=0.05))", "greedy(dilated(least=0.1))",
	"spaced(threshold(theta=0.05))", "s2d2(cost=0.5)", "s2d2(theta=0.1,cost=2)"}

// guides reports whether the tests guide this model: by classes or, for language models, by the
// known tokens.
func guides(d model.Denoiser) bool { return d.Spec().Classes > 0 || d.Spec().Block > 0 }

// drawRequest draws a random request that the model accepts.
func drawRequest(t *rapid.T, d model.Denoiser, index int) generate.Request {
	spec := d.Spec()
	r := generate.Request{Seed: uint64(rapid.IntRange(0, 2).Draw(t, "seed")), Index: uint32(index)}
	rules, reuses := poolRules, 3
	if spec.Block > 0 {
		rules, reuses = append(slices.Clone(rules), blockRules...), 4
	}
	for {
		sampler, err := samplers.Parse(rapid.SampledFrom(rules).Draw(t, "sampler"))
		if err != nil {
			t.Fatal(err)
		}
		r.Recipe = generate.Recipe{Sampler: sampler, Steps: rapid.IntRange(3, 7).Draw(t, "steps"),
			Cache: rapid.IntRange(0, 2).Draw(t, "cache"),
			Reuse: generate.Reuse(rapid.IntRange(0, reuses).Draw(t, "reuse"))}
		if _, ok := samplers.As[samplers.Pipeliner](sampler); ok && rapid.Bool().Draw(t, "finished") {
			r.Reuse = generate.Finished
		}
		if rapid.IntRange(0, 3).Draw(t, "windowed") == 0 {
			r.Window, r.WindowSigma = 3, rapid.SampledFrom([]float64{0, 2}).Draw(t, "sigma")
		}
		if r.Reuse == generate.Blocks {
			r.BlockSize = rapid.SampledFrom([]int{0, 2, 8}).Draw(t, "block-size")
		}
		if r.EndTokens = nil; rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
			r.EndTokens = []int32{int32(rapid.IntRange(0, spec.Outcomes-1).Draw(t, "end"))}
		}
		r.EndsWhereOpen = r.EndTokens != nil && rapid.Bool().Draw(t, "ends where open")
		if r.Reuse == generate.Delayed {
			r.Refresh = 3
		}
		if rapid.Bool().Draw(t, "filtered") {
			r.Filter = model.Filter{Temperature: 0.7, TopK: 3, Ban: []int32{1}}
		}
		if r.Known, r.Length = nil, 0; !spec.Fixed {
			r.Length = rapid.IntRange(8, 20).Draw(t, "length")
		}
		n := r.Length
		if n == 0 {
			n = spec.Length()
		}
		r.Condition, r.Guidance = nil, generate.Guidance{}
		if spec.Classes > 0 && rapid.Bool().Draw(t, "classed") {
			r.Condition = &model.Condition{Class: int32(rapid.IntRange(-1, spec.Classes-1).Draw(t, "class"))}
			if rapid.Bool().Draw(t, "guided") {
				r.Guidance = generate.Guidance{Scale: 2,
					Schedule: rapid.SampledFrom([]string{"", "linear", "cosine"}).Draw(t, "guidance")}
			}
		}
		if rapid.Bool().Draw(t, "known") {
			r.Known = slices.Repeat([]int32{spec.Mask}, n)
			r.Known[rapid.IntRange(0, n-1).Draw(t, "position")] = 0
			if spec.Block > 0 && rapid.Bool().Draw(t, "guided") {
				r.Guidance = generate.Guidance{Scale: 0.5}
			}
		}
		if _, err := r.Check(d); err == nil {
			return r
		}
	}
}

// alone returns what Run generates for a request.
func alone(t require.TestingT, d model.Denoiser, r generate.Request) (tokens []int32,
	work generate.Work) {
	o := generate.Options{Request: generate.Request{Recipe: r.Recipe, Seed: r.Seed, Index: r.Index,
		Length: r.Length,
		Known:  r.Known, Condition: r.Condition, EndTokens: r.EndTokens}}
	for q, err := range generate.Samples(context.Background(), d, o) {
		require.NoError(t, err)
		require.True(t, q.Done && q.Finished)
		tokens, work = slices.Clone(q.Tokens), q.Work
	}
	return tokens, work
}

// checks sets how many cases a test draws, of each subject.
func checks(t *testing.T, few string) {
	before := flag.Lookup("rapid.checks").Value.String()
	t.Cleanup(func() { require.NoError(t, flag.Set("rapid.checks", before)) })
	if os.Getenv("UNMASK_ISA") == "generic" { // it is a hundred times slower
		few = "2"
	}
	require.NoError(t, flag.Set("rapid.checks", few))
}

// A sequence has the bytes of its own run, whatever else is in the pool and whenever others come
// and go.
func TestASequenceInAPoolIsItsOwnRun(t *testing.T) {
	one := subjects(t, 1)
	checks(t, "20")
	for _, threads := range []int{1, 3} {
		for name, d := range subjects(t, threads) {
			t.Run(fmt.Sprint(name, threads), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					const size, most = 3, 6
					p, err := generate.NewPool(d, generate.PoolOptions{Size: size, Capacity: most,
						Guided: guides(d)})
					require.NoError(t, err)
					type entry struct {
						request generate.Request
						q       *generate.Sequence
						keeps   bool // keys and values
						steps   bool // now
					}
					var in []entry
					left, total := rapid.IntRange(1, 7).Draw(t, "requests"), 0
					for left > 0 || len(in) > 0 {
						for left > 0 && len(in) < most && rapid.Bool().Draw(t, "arrives") {
							r := drawRequest(t, d, total)
							q, err := p.Add(r)
							require.NoError(t, err)
							in, left, total = append(in, entry{request: r, q: q}), left-1, total+1
						}
						if len(in) == 0 {
							continue
						}
						// Some take a step, at least one and at most as many as there are places;
						// the others wait.
						places := size
						for i := range in {
							if in[i].steps = false; in[i].keeps {
								places--
							}
						}
						var only []*generate.Sequence
						for i := range in {
							e := &in[i]
							if e.keeps || places > 0 {
								if i < len(in)-1 && rapid.Bool().Draw(t, "waits") {
									continue
								}
								if !e.keeps {
									places--
								}
								e.steps, only = true, append(only, e.q)
							}
						}
						if len(only) == 0 {
							continue
						}
						moved, err := p.Step(context.Background(), only...)
						require.NoError(t, err)
						require.ElementsMatch(t, only, moved)
						for i := 0; i < len(in); i++ {
							e := &in[i]
							require.NoError(t, e.q.Err)
							require.Equal(t, e.steps && e.q.Done, e.q.Finished)
							e.keeps = e.keeps || e.steps && e.request.Reuse != generate.NoReuse
							gone := e.q.Done
							if gone {
								want, work := alone(t, one[name], e.request)
								require.Equal(t, want, e.q.Tokens, "%+v", e.request)
								require.Equal(t, work, e.q.Work, "%+v", e.request)
							} else if rapid.IntRange(0, 15).Draw(t, "leaves") == 0 {
								gone = true
							}
							if gone {
								p.Remove(e.q)
								in = slices.Delete(in, i, i+1)
								i--
							}
						}
						require.Equal(t, len(in), p.Len())
					}
				})
			})
		}
	}
}

// A step of more sequences than places is refused and changes none.
func TestMoreSequencesThanPlaces(t *testing.T) {
	p, err := generate.NewPool(newTable(8), generate.PoolOptions{Size: 1, Capacity: 2})
	require.NoError(t, err)
	r := generate.Request{Recipe: generate.Recipe{Sampler: parse(t, "moment"), Steps: 2, Cache: 1}}
	var all []*generate.Sequence
	for range 2 {
		q, err := p.Add(r)
		require.NoError(t, err)
		all = append(all, q)
	}
	_, err = p.Add(r)
	require.ErrorIs(t, err, generate.ErrFull)
	_, err = p.Step(t.Context())
	require.EqualError(t, err,
		"generate: 2 sequences take a step or keep keys and values, want at most 1")
	require.Zero(t, all[0].N+all[1].N)
	_, err = p.Step(t.Context(), all[1])
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 1}, [2]int{all[0].N, all[1].N})
	_, err = generate.NewPool(newTable(8), generate.PoolOptions{Size: 3, Capacity: 2})
	require.EqualError(t, err, "generate: capacity is 2, want 3 or more, the size")
}

// A fault of one sequence does not affect the others.
func TestFaultsOfOne(t *testing.T) {
	for name, d := range subjects(t, 2) {
		t.Run(name, func(t *testing.T) {
			request := func(sampler string, index uint32) generate.Request {
				return generate.Request{Recipe: generate.Recipe{Sampler: parse(t, sampler), Steps: 4},
					Index: index}
			}
			nan := request("moment", 1)
			nan.Adjust = func(position int, logits []float32) {
				if position == 3 {
					logits[2] = float32(math.NaN())
				}
			}
			edited := request("moment", 2)
			broken := errors.New("not this one")
			edited.Edit = func(q *generate.Sequence) error {
				if q.N == 2 {
					return broken
				}
				return nil
			}
			rude := request("moment", 3)
			rude.Edit = func(q *generate.Sequence) error { q.Tokens[0] = 1 << 20; return nil }
			wrong := request("moment", 4)
			wrong.Sampler = rule{samplers.Need{Entropy: true},
				func(v *samplers.View) (samplers.Opening, error) {
					return samplers.Opening{Positions: []int{-7}}, nil
				}}
			lost := request("moment", 5)
			lost.Sampler = rule{samplers.Need{},
				func(v *samplers.View) (samplers.Opening, error) { return samplers.Opening{}, broken }}
			well := []generate.Request{request("moment", 6), request("hybrid", 7), request("maskgit", 8)}

			p, err := generate.NewPool(d, generate.PoolOptions{Size: 8})
			require.NoError(t, err)
			var all []*generate.Sequence
			for _, r := range []generate.Request{well[0], nan, edited, well[1], rude, wrong, lost, well[2]} {
				q, err := p.Add(r)
				require.NoError(t, err)
				all = append(all, q)
			}
			_, err = p.Add(well[0])
			require.ErrorIs(t, err, generate.ErrFull)
			for range 4 {
				_, err := p.Step(t.Context())
				require.NoError(t, err)
			}
			require.EqualError(t, all[1].Err,
				"generate: step 1 of 4: sequence 1, position 3: a logit is NaN, want finite numbers or -Inf")
			require.Equal(t, 0, all[1].N)
			require.ErrorIs(t, all[2].Err, broken)
			require.EqualError(t, all[2].Err, "generate: step 2 of 4: sequence 2: edit: not this one")
			refusal.RequireText(t, all[4].Err,
				"step 1 of 4: sequence 3: edit: generate: token is 1048576 at position 0")
			require.ErrorContains(t, all[5].Err, "step 1 of 4: sequence 4: the sampler opens position -7")
			require.ErrorIs(t, all[6].Err, broken)
			for i, at := range []int{0, 3, 7} {
				require.NoError(t, all[at].Err)
				require.True(t, all[at].Done)
				want, _ := alone(t, d, well[i])
				require.Equal(t, want, all[at].Tokens)
			}
			moved, err := p.Step(t.Context())
			require.NoError(t, err)
			require.Empty(t, moved)
		})
	}
}

// picky is a table that fails if one of its sequences begins with a certain token.
type picky struct{ *table }

func (d picky) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	if err := d.refuses(b, -1); err != nil {
		return nil, err
	}
	return d.table.Forward(ctx, b)
}

func (d picky) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals, error) {
	for _, row := range rows {
		if err := d.refuses(b, int(row)/b.Length); err != nil {
			return nil, err
		}
	}
	return d.table.Refine(ctx, b, rows)
}

func (d picky) refuses(b *model.Batch, only int) error {
	for i := range b.Size {
		first := b.Tokens[i*b.Length]
		if first == 5 && only < 0 || first == 6 && only == i {
			return fmt.Errorf("no sequence may begin with %d", first)
		}
	}
	return nil
}

// If a pass over many fails it is repeated for each alone: full passes and those between stages.
func TestPassesThatFailForOne(t *testing.T) {
	d := picky{newTable(8)}
	p, err := generate.NewPool(d, generate.PoolOptions{})
	require.NoError(t, err)
	var all []*generate.Sequence
	request := func(first int32) generate.Request {
		known := slices.Repeat([]int32{9}, 8)
		known[0] = first
		return generate.Request{Recipe: generate.Recipe{Sampler: parse(t, "moment"), Steps: 2, Cache: 1},
			Known: known, Index: uint32(first)}
	}
	for first := range int32(7) {
		q, err := p.Add(request(first))
		require.NoError(t, err)
		all = append(all, q)
	}
	for range 2 {
		_, err := p.Step(t.Context())
		require.NoError(t, err)
	}
	require.EqualError(t, all[5].Err,
		"generate: step 1 of 2: sequence 5: no sequence may begin with 5")
	require.EqualError(t, all[6].Err,
		"generate: step 1 of 2: sequence 6: no sequence may begin with 6")
	for first, q := range all[:5] {
		require.NoError(t, q.Err)
		want, work := alone(t, d, request(int32(first)))
		require.Equal(t, want, q.Tokens)
		require.Equal(t, work, q.Work)
	}
}

func TestBadRequests(t *testing.T) {
	d := newTable(8)
	_, err := generate.NewPool(d, generate.PoolOptions{Length: 9})
	require.EqualError(t, err, "generate: length is 9, want 1 to 8")
	_, err = generate.NewPool(d, generate.PoolOptions{Size: -1})
	require.EqualError(t, err, "generate: size is -1, want 1 or more")
	p, err := generate.NewPool(d, generate.PoolOptions{Length: 4})
	require.NoError(t, err)
	for want, r := range map[string]generate.Request{
		"generate: length is 8, want 1 to 4 in this pool": {},
		"generate: length is 5, want 1 to 4 in this pool": {Length: 5},
		"generate: tokens are 2, want 3, the length": {Length: 3,
			Known: []int32{1, 1}},
		"generate: tokens are 0, want 1 to 8, or nil":     {Known: []int32{}},
		"generate: token is 8 at position 1, want 0 to 6": {Known: []int32{1, 8}},
		"generate: steps is 5, want 1 to 4": {Length: 4,
			Recipe: generate.Recipe{Steps: 5}},
		"generate: sequence 0: class is 3, want none: this model has no": {Length: 4,
			Condition: &model.Condition{Class: 3}},
		"generate: sequence 2: there is a prompt, want none: this model reads": {Length: 4, Index: 2,
			Condition: &model.Condition{Prompt: new(model.Prompt)}},
	} {
		_, err := p.Add(r)
		require.ErrorContains(t, err, want)
	}
	require.Zero(t, p.Len())
	q, err := p.Add(generate.Request{Known: []int32{1, 2}}) // nothing is masked
	require.NoError(t, err)
	moved, err := p.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, []*generate.Sequence{q}, moved)
	require.True(t, q.Done && q.Finished)
	require.Zero(t, q.N)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Step(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// Steps of a pool allocate nothing after its largest step.
func TestPoolStepsAllocateNothing(t *testing.T) {
	p, err := generate.NewPool(newTable(400), generate.PoolOptions{Size: 6})
	require.NoError(t, err)
	for i, name := range []string{"random", "halton", "moment", "u-moment", "hybrid", "moment"} {
		_, err := p.Add(generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name), Steps: 400},
			Index: uint32(i)})
		require.NoError(t, err)
	}
	step := func() {
		if _, err := p.Step(context.Background()); err != nil {
			panic(err)
		}
	}
	step()
	require.Zero(t, testing.AllocsPerRun(20, step))
}

// Concurrent runs on one model give what each gives alone.
func TestRunsAtOnce(t *testing.T) {
	for name, d := range subjects(t, 2) {
		t.Run(name, func(t *testing.T) {
			run := func(i int) [][]int32 {
				o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
					poolRules[i%3]),
					Steps: 4, Cache: i % 2}, Seed: uint64(i)}, N: 3, Batch: 2}
				var out [][]int32
				for q, err := range generate.Samples(context.Background(), d, o) {
					if err != nil {
						panic(err)
					}
					out = append(out, slices.Clone(q.Tokens))
				}
				return out
			}
			var want, got [6][][]int32
			for i := range want {
				want[i] = run(i)
			}
			var group sync.WaitGroup
			for i := range got {
				group.Go(func() { got[i] = run(i) })
			}
			group.Wait()
			require.Equal(t, want, got)
		})
	}
}

// Block-diffusion sequences finish at different steps, and their runs share a model too.
func TestSamplesOfBlocks(t *testing.T) {
	l, err := model.Load(parity.Open(t, "sdar-tiny").Source,
		model.Options{Backend: cpu.New(cpu.Options{Threads: 2})})
	require.NoError(t, err)
	r, err := generate.ParseRecipe("low-confidence schedule=llada steps=2 reuse=blocks block-size=4")
	require.NoError(t, err)
	run := func(seed uint64) (out [][]int32) {
		for q, err := range generate.Samples(context.Background(), l.Denoiser,
			generate.Options{Request: generate.Request{Recipe: r, Length: 12, Seed: seed}, N: 3, Batch: 2}) {
			if err != nil {
				panic(err)
			}
			out = append(out, slices.Clone(q.Tokens))
		}
		return out
	}
	var want, got [3][][]int32
	for i := range want {
		want[i] = run(uint64(i))
		require.Len(t, want[i], 3)
	}
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = run(uint64(i)) })
	}
	group.Wait()
	require.Equal(t, want, got)
}
