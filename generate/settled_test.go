package generate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// run returns the steps of a request alone.
func run(t require.TestingT, d model.Denoiser, r generate.Request) (steps []generate.Sequence) {
	p, err := generate.NewPool(d, generate.PoolOptions{Size: 1, Guided: guides(d)})
	require.NoError(t, err)
	q, err := p.Add(r)
	require.NoError(t, err)
	for !q.Done {
		_, err := p.Step(t.(*rapid.T).Context())
		require.NoError(t, err)
		require.NoError(t, q.Err)
		step := *q
		step.Tokens = slices.Clone(q.Tokens)
		steps = append(steps, step)
	}
	return steps
}

// What is settled stays as it is, over all kinds of rules, caches and models, and becomes no less.
// In the end it is everything.
func TestSettledPositionsStay(t *testing.T) {
	all := subjects(t, 1)
	checks(t, "60")
	early := 0
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				steps := run(t, d, drawRequest(t, d, 0))
				final := steps[len(steps)-1]
				settled := 0
				for i, step := range steps {
					what := fmt.Sprintf("step %d of %d", i+1, len(steps))
					require.GreaterOrEqual(t, step.Settled, settled, what)
					settled = step.Settled
					require.NotContains(t, step.Tokens[:settled], d.Spec().Mask, what)
					require.Equal(t, final.Tokens[:settled], step.Tokens[:settled], what)
					if !step.Done && settled > 0 {
						early++
					}
				}
				require.Equal(t, len(final.Tokens), final.Settled)
			})
		})
	}
	require.Positive(t, early)
}

// An end token stops a run and changes nothing before it, also with rules that mask again, for
// which it has to be settled.
func TestEndsChangeNoText(t *testing.T) {
	all := subjects(t, 1)
	checks(t, "60")
	again := []string{"wino(wide=0.1,narrow=0.9,block=4)", "p2", "remdm", "gibbs(k=2)"}
	shorter := map[bool]int{} // by whether the rule masks again
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			if d.Spec().Outcomes < 10 { // where an end opens often
				checks(t, "500")
			}
			rapid.Check(t, func(t *rapid.T) {
				r := drawRequest(t, d, 0)
				if rapid.Bool().Draw(t, "masks again") {
					rule := rapid.SampledFrom(again).Draw(t, "rule")
					r.Recipe = generate.Recipe{Sampler: parsed(t, rule), Steps: 7}
					r.EndTokens = []int32{0}
				}
				isOther := samplers.Is[samplers.Resizer](r.Sampler) ||
					samplers.Is[samplers.EarlyEnder](r.Sampler) || r.EndsWhereOpen
				if isOther || r.EndTokens == nil {
					return
				}
				short := run(t, d, r)
				end := r.EndTokens[0]
				r.EndTokens = nil
				long := run(t, d, r)
				require.LessOrEqual(t, len(short), len(long))

				got := short[len(short)-1]
				want := long[len(long)-1]
				if end := endOf(r, got.Tokens, end); end >= 0 {
					require.Equal(t, want.Tokens[:end+1], got.Tokens[:end+1])
				} else {
					require.Equal(t, want.Tokens, got.Tokens)
				}
				if len(short) < len(long) {
					shorter[samplers.Is[samplers.Judge](r.Sampler)]++
				}
			})
		})
	}
	require.Positive(t, shorter[false])
	require.Positive(t, shorter[true])
}

// With end-at open nothing behind an open end is masked or another token, whatever is masked before
// it, and the run takes no step for what is behind.
func TestTextsEndWhereAnEndOpens(t *testing.T) {
	all := subjects(t, 1)
	checks(t, "60")
	ended := 0
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := drawRequest(t, d, 0)
				if r.EndTokens == nil {
					r.EndTokens = []int32{0}
				}
				r.EndsWhereOpen = true
				if _, err := r.Check(d); err != nil {
					return
				}
				steps := run(t, d, r)
				for _, step := range steps {
					end := endOf(r, step.Tokens, r.EndTokens[0])
					if end < 0 {
						continue
					}
					for p, token := range step.Tokens[end:] {
						isKnown := r.Known != nil && r.Known[end+p] != d.Spec().Mask
						require.True(t, isKnown || token == r.EndTokens[0], "%d %v", end, step.Tokens)
					}
					if slices.Contains(step.Tokens[:end], d.Spec().Mask) {
						ended++
					} else {
						require.True(t, step.Done)
					}
				}
			})
		})
	}
	require.Positive(t, ended)
}

// Ends are settled in the loops of papers, and a rule that may take an end back waits for that.
func TestEndAt(t *testing.T) {
	require.Equal(t, "settled", generate.ParamOf("end-at").Default)
	for _, rule := range []string{"p2", "remdm", "gibbs", "wino", "daedal"} {
		r := recipe(t, rule+" end-at=open")
		_, err := r.Complete(newTable(8), 8)
		require.Contains(t, refusal.Require(t, err, "end-at", "open").Want, rule)
	}
	own := recipe(t, "semi-ar(confidence,block=4) steps=8 end-at=open")
	named, err := generate.Overrides{"sampler": "confidence"}.ApplyTo(own)
	require.NoError(t, err)
	require.False(t, named.EndsWhereOpen)
	again, err := generate.Overrides{"steps": "4"}.ApplyTo(own)
	require.NoError(t, err)
	require.True(t, again.EndsWhereOpen)
}

func parsed(t require.TestingT, text string) samplers.Sampler {
	s, err := samplers.Parse(text)
	require.NoError(t, err)
	return s
}

// endOf returns the first position of an end token that the run has opened, -1 without one.
func endOf(r generate.Request, tokens []int32, end int32) int {
	for p, token := range tokens {
		if token == end && (r.Known == nil || r.Known[p] != token) {
			return p
		}
	}
	return -1
}

// How much is settled goes by the rule: all before the first mask, the finished blocks, or nothing
// before the last step; and so with what grows from a canvas.
func TestHowMuchIsSettled(t *testing.T) {
	d := pack(t, "llada-tiny")
	mask := d.Spec().Mask
	firstMask := func(tokens []int32) int {
		if i := slices.Index(tokens, mask); i >= 0 {
			return i
		}
		return len(tokens)
	}
	const known, block = 2, 5
	blockStart := func(tokens []int32) int {
		return known + (firstMask(tokens)-known)/block*block
	}
	start := func([]int32) int { return known }
	for rule, want := range map[string]func([]int32) int{
		"confidence steps=10":                firstMask,
		"semi-ar(random,block=5) steps=10":   firstMask,
		"threshold(theta=0.3)":               firstMask,
		"edit(theta=0.3)":                    firstMask, // without blocks it replaces nothing
		"wino(wide=0.1,narrow=0.9,block=5)":  blockStart,
		"wino(wide=0.1,narrow=0.9,block=24)": start,
		"p2 steps=10":                        start,
		"remdm steps=10":                     start,
		"gibbs steps=10":                     start,
		"dplm steps=10":                      start,
	} {
		r := generate.Request{Recipe: recipe(t, rule), Length: 12, MaxLength: 24, Seed: 3}
		r.Known = slices.Repeat([]int32{mask}, 12)
		r.Known[0] = 1
		r.Known[1] = 2
		r.HasEnd = func([]int32) bool { return false }
		p, err := generate.NewPool(d, generate.PoolOptions{Size: 1})
		require.NoError(t, err, rule)
		q, err := p.Add(r)
		require.NoError(t, err, rule)
		for !q.Done {
			before := len(q.Tokens)
			_, err := p.Step(t.Context())
			require.NoError(t, err, rule)
			require.NoError(t, q.Err, rule)
			switch {
			case q.Done:
				require.Equal(t, 24, q.Settled, rule)
			case len(q.Tokens) > before:
				require.Equal(t, before, q.Settled, rule)
			case before == 12:
				require.Equal(t, want(q.Tokens), q.Settled, rule)
			default:
				require.GreaterOrEqual(t, q.Settled, 12, rule)
			}
		}
	}
}

// A sampler of another module that does not say what it does cannot take back what is settled.
func TestNobodyTakesBackWhatIsSettled(t *testing.T) {
	choose := func(v *samplers.View) (samplers.Opening, error) {
		o := samplers.Opening{Positions: v.Masked[:1]}
		if v.Step > 1 {
			o.Close = []int{0}
		}
		return o, nil
	}
	opensThenCloses := rule{samplers.Need{Top: true}, choose}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: opensThenCloses,
		Steps: 3}}}
	var failed error
	for _, err := range generate.Run(t.Context(), newTable(4), o) {
		failed = err
	}
	require.ErrorContains(t, failed,
		"closes position 0, want one that this run opened and that is not settled")
}

// A caller that edits tokens may change any of them, so nothing is settled before the end.
func TestEditsSettleNothing(t *testing.T) {
	r := generate.Request{Recipe: generate.Recipe{Sampler: parse(t, "random"), Steps: 4}}
	r.Edit = func(q *generate.Sequence) error { return nil }
	for step, err := range generate.Run(t.Context(), newTable(8), generate.Options{Request: r}) {
		require.NoError(t, err)
		want := 0
		if step.Done {
			want = 8
		}
		require.Equal(t, want, step.Sequences[0].Settled)
	}
}
