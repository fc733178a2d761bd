package generate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/kvcache"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
)

// table is a Denoiser whose logits are a fixed function of position and number of open positions.
// It records the rows it is asked for.
type table struct {
	spec   model.Spec
	logits func(tokens []int32, position, token int) float32
	dense  model.Dense
	full   int
	rows   [][]int32
	times  []float64
	cancel func()
}

func newTable(shape ...int) *table {
	t := &table{spec: model.Spec{Shape: shape, Outcomes: 7, Mask: 9}}
	t.logits = func(tokens []int32, position, token int) float32 {
		return float32(math.Sin(float64(3*position+5*token) + float64(sum(tokens))))
	}
	return t
}

func sum(x []int32) (n int32) {
	for _, v := range x {
		n += v
	}
	return n
}

func (t *table) Spec() model.Spec { return t.spec }

func (t *table) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	if t.cancel != nil && t.full == 2 {
		t.cancel()
		return nil, ctx.Err()
	}
	t.full++
	t.times = append(t.times, b.Time[0])
	t.dense.Columns, t.dense.Outcomes, t.dense.Logits = 10, t.spec.Outcomes, t.dense.Logits[:0]
	for row := range b.Tokens {
		seq := row / b.Length
		for x := range 10 {
			t.dense.Logits = append(t.dense.Logits,
				t.logits(b.Tokens[seq*b.Length:(seq+1)*b.Length], row%b.Length, x))
		}
	}
	return &t.dense, nil
}

func (t *table) NewCache(batch, length int) *kvcache.Cache {
	return &kvcache.Cache{Batch: batch, Length: length}
}

func (t *table) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals, error) {
	t.rows = append(t.rows, slices.Clone(rows))
	t.full--
	return t.Forward(ctx, b)
}

func parse(t *testing.T, text string) samplers.Sampler {
	s, err := samplers.Parse(text)
	require.NoError(t, err)
	return s
}

// collect runs to the end and returns the tokens of each sequence.
func collect(t *testing.T, d model.Denoiser, o generate.Options) [][]int32 {
	var out [][]int32
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err)
		for _, s := range step.Sequences {
			if step.Done {
				require.NotContains(t, s.Tokens, d.Spec().Mask)
				out = append(out, slices.Clone(s.Tokens))
			}
		}
	}
	return out
}

func TestOutputDependsOnSeedAndSequenceAlone(t *testing.T) {
	for _, info := range samplers.List() {
		t.Run(info.Name, func(t *testing.T) {
			name := info.Name
			switch name { // they take the most probable tokens by default
			case "low-confidence", "dynamic", "apart", "fast-dllm-v2", "wedlm", "self-speculation", "edit",
				"wino":
				name += "(temperature=1)"
			case "greedy":
				name += "(random)"
			}
			o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
				name), Steps: 6}, Seed: 3}, N: 5, Batch: 5}
			all := collect(t, newTable(4, 5), o)
			require.Len(t, all, 5)
			for _, batch := range []int{1, 2, 3} {
				o.Batch = batch
				require.Equal(t, all, collect(t, newTable(4, 5), o))
			}
			o.Index, o.N = 3, 2
			require.Equal(t, all[3:], collect(t, newTable(4, 5), o))
			o.Seed = 4
			switch name { // nothing is drawn
			case "credit", "daedal", "rho-eos", "draft", "s2d2":
				return
			}
			require.NotEqual(t, all[3:], collect(t, newTable(4, 5), o))
		})
	}
}

func TestStepsOpenWhatTheScheduleSays(t *testing.T) {
	for _, c := range []struct {
		schedule samplers.Schedule
		opened   []int
	}{
		{samplers.Uniform, []int{3, 2, 3, 3, 2, 3}},
		{samplers.Cosine, []int{1, 1, 3, 3, 4, 4}},
	} {
		n := 0
		for step, err := range generate.Run(context.Background(), newTable(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 6,
				Schedule: c.schedule, Sampler: parse(t,
					"halton")}}}) {
			require.NoError(t, err)
			require.Equal(t, n+1, step.N)
			require.Len(t, step.Sequences[0].Opened, c.opened[n])
			n++
		}
		require.Equal(t, 6, n)
	}
}

// Every position that was masked opens once with every sampler, and no known one does. A position
// that is masked again opens once more.
func TestEveryPositionOpensOnce(t *testing.T) {
	start := slices.Repeat([]int32{9}, 20)
	start[3], start[11] = 1, 2
	for _, info := range samplers.List() {
		open := map[int]int{}
		closed := 0
		for step, err := range generate.Run(t.Context(), newTable(4, 5),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 6, Sampler: parse(t,
				info.Name)},
				Known: start}}) {
			require.NoError(t, err, info.Name)
			for _, o := range step.Sequences[0].Opened {
				open[o.Position]++
				require.Equal(t, 1, open[o.Position], "%s, step %d, position %d", info.Name, step.N, o.Position)
			}
			for _, p := range step.Sequences[0].Closed {
				open[p]--
				closed++
				require.Zero(t, open[p], "%s, step %d, position %d", info.Name, step.N, p)
			}
		}
		require.NotContains(t, open, 3, info.Name)
		require.NotContains(t, open, 11, info.Name)
		opened := 0
		for _, n := range open {
			opened += n
		}
		require.Equal(t, 18, opened, info.Name)
		_, remasks := samplers.As[samplers.Remasker](parse(t, info.Name))
		require.True(t, remasks || closed == 0, info.Name)
	}
}

func TestPositionFirstOrdersTouchChosenRowsOnly(t *testing.T) {
	for name, head := range map[string]int{"halton": 16, "random": 16, "temp": 16, "vanilla": 16,
		"moment": 16 + 16 + 13 + 11 + 8 + 5} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 6,
			Sampler: parse(t, name)}}}
		var last generate.Work
		for step, err := range generate.Run(context.Background(), newTable(16), o) {
			require.NoError(t, err)
			last = step.Sequences[0].Work
		}
		if name == "vanilla" { // its step of most probable tokens may compute the head again
			require.LessOrEqual(t, last.Head, head+1, name)
			continue
		}
		require.Equal(t, head, last.Head, name)
		require.Equal(t, 6, last.Full, name)
	}
}

func TestPartialCaching(t *testing.T) {
	d := newTable(16)
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4, Cache: 1,
		Sampler: parse(t,
			"halton")}}, N: 2}
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err)
		rows := d.rows[step.N-1]
		require.Len(t, rows, 8)
		for i, s := range step.Sequences {
			require.Equal(t, 4*step.N, s.Work.Partial)
			for j, opened := range s.Opened {
				require.Equal(t, int32(16*i+opened.Position), rows[4*i+j])
				require.Equal(t, j/2, opened.Stage)
			}
		}
	}
	d = newTable(16)
	o.Cache = 3
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err)
		for j, opened := range step.Sequences[1].Opened {
			require.Equal(t, j, opened.Stage)
		}
	}
	require.Len(t, d.rows, 12)
	for _, name := range []string{"maskgit", "vanilla"} {
		o.Sampler = parse(t, name)
		for _, err := range generate.Run(context.Background(), d, o) {
			require.ErrorContains(t, err, "no cache with this sampler: "+name)
		}
	}
}

func TestKnownPositionsStay(t *testing.T) {
	start := slices.Repeat([]int32{9}, 16)
	start[0], start[7] = 3, 4
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
		"moment"), Steps: 5},
		Known: start}, N: 3}
	for _, s := range collect(t, newTable(16), o) {
		require.Equal(t, int32(3), s[0])
		require.Equal(t, int32(4), s[7])
	}
	o.Known = make([]int32, 16)
	o.Steps = 0
	require.Equal(t, o.Known, collect(t, newTable(16), o)[0])
}

func TestFilters(t *testing.T) {
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
		"random"), Steps: 4}}, N: 8}
	o.Filter = model.Filter{Ban: []int32{0, 1, 2}, Bias: map[int32]float32{3: float32(math.Inf(-1))}}
	for _, s := range collect(t, newTable(16), o) {
		for _, token := range s {
			require.Greater(t, token, int32(3))
		}
	}
	o.Filter = model.Filter{TopK: 1}
	o.Steps = 1
	all := collect(t, newTable(16), o)
	require.Equal(t, all[0], all[7])
	o.Filter = model.Filter{}
	o.Adjust = func(position int, logits []float32) {
		for x := range logits {
			if x != (3+position)%7 {
				logits[x] = float32(math.Inf(-1))
			}
		}
	}
	o.Steps, o.Batch = 4, 3
	for _, s := range collect(t, newTable(16), o) {
		for p, token := range s {
			require.Equal(t, int32((3+p)%7), token)
		}
	}
}

func TestEdit(t *testing.T) {
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4,
		Sampler: parse(t, "halton")}}}
	o.Edit = func(q *generate.Sequence) error {
		if q.N == 2 {
			q.Tokens[q.Opened[0].Position] = 9
		}
		return nil
	}
	collect(t, newTable(16), o)
	o.Edit = func(q *generate.Sequence) error { q.Tokens[3] = 8; return nil }
	for _, err := range generate.Run(context.Background(), newTable(16), o) {
		require.EqualError(t, err,
			"generate: step 1 of 4: sequence 0: edit: generate: token is 8 at position 3, want 0 to 6 or "+
				"the mask 9")
	}
	change := func(q *generate.Sequence) error {
		if q.N == 2 {
			q.Tokens[q.Opened[0].Position], q.Tokens[5] = 9, 2
		}
		return nil
	}
	o.Edit = change
	want := collect(t, newTable(16), o)
	o.Edit = func(q *generate.Sequence) error {
		q.Tokens = slices.Clone(q.Tokens) // the changes are made in another slice
		return change(q)
	}
	require.Equal(t, want, collect(t, newTable(16), o))
	for _, other := range [][]int32{nil, make([]int32, 15), make([]int32, 17)} {
		o.Edit = func(q *generate.Sequence) error { q.Tokens = other; return nil }
		for _, err := range generate.Run(context.Background(), newTable(16), o) {
			require.EqualError(t, err, fmt.Sprintf(
				"generate: step 1 of 4: sequence 0: edit: generate: tokens are %d, want 16", len(other)))
		}
	}
	broken := errors.New("no")
	o.Edit = func(*generate.Sequence) error { return broken }
	for _, err := range generate.Run(context.Background(), newTable(16), o) {
		require.ErrorIs(t, err, broken)
	}
}

func TestCancelledRunKeepsTheFinishedStep(t *testing.T) {
	for _, within := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		d := newTable(16)
		if within {
			d.cancel = cancel
		}
		var before []int32
		steps := 0
		for step, err := range generate.Run(ctx, d,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 8, Sampler: parse(t,
				"halton")}}}) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, 2, step.N)
				require.Equal(t, before, step.Sequences[0].Tokens)
				steps++
				continue
			}
			before = slices.Clone(step.Sequences[0].Tokens)
			if steps++; steps == 2 && !within {
				cancel()
			}
		}
		require.Equal(t, 3, steps)
		cancel()
	}
}

// The last index of a seed is one like others.
func TestLastIndex(t *testing.T) {
	o := generate.Options{Request: generate.Request{Index: math.MaxUint32 - 1}, N: 2}
	require.Len(t, collect(t, newTable(16), o), 2)
}

func TestBadOptions(t *testing.T) {
	fixed := newTable(16)
	fixed.spec.Fixed = true
	for _, c := range []struct {
		want string
		d    *table
		o    generate.Options
	}{
		{"generate: steps is 17, want 1 to 16: each opens one position at least", newTable(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 17}}}},
		{"steps is -1", newTable(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: -1}}}},
		{"generate: length is 17,", newTable(16),
			generate.Options{Request: generate.Request{Length: 17}}},
		{"generate: length is 8, want 16: this model has no other", fixed,
			generate.Options{Request: generate.Request{Length: 8}}},
		{"generate: tokens are 2, want 3, the length", newTable(16),
			generate.Options{Request: generate.Request{Length: 3, Known: []int32{1, 2}}}},
		{"generate: tokens are 0, want 1 to 16, or nil for none known", newTable(16),
			generate.Options{Request: generate.Request{Known: []int32{}}}},
		{"generate: tokens are 0, want 1 to 16, or nil for none known", newTable(16),
			generate.Options{Request: generate.Request{Length: 3, Known: []int32{}}}},
		{"generate: token is 7 at position 1,", newTable(16),
			generate.Options{Request: generate.Request{Known: []int32{1, 7}}}},
		{"generate: n is -1, want 1 or more", newTable(16), generate.Options{N: -1}},
		{"generate: sequences are 4294967295 to 4294967296,", newTable(16),
			generate.Options{Request: generate.Request{Index: math.MaxUint32}, N: 2}},
		{"temperature is -1", newTable(16),
			generate.Options{Request: generate.Request{
				Recipe: generate.Recipe{Filter: model.Filter{Temperature: -1}}}}},
		{"top-p is 2", newTable(16),
			generate.Options{Request: generate.Request{
				Recipe: generate.Recipe{Filter: model.Filter{TopP: 2}}}}},
		{"generate: ban is 7, want tokens 0 to 6", newTable(16),
			generate.Options{Request: generate.Request{
				Recipe: generate.Recipe{Filter: model.Filter{Ban: []int32{7}}}}}},
		{"generate: ban is all 7 tokens, want one that may be drawn", newTable(16),
			generate.Options{Request: generate.Request{
				Recipe: generate.Recipe{Filter: model.Filter{Ban: []int32{0, 1, 2, 3, 4, 5},
					Bias: map[int32]float32{6: float32(math.Inf(-1))}}}}}},
		{"cache is 65", newTable(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Cache: 65}}}},
	} {
		for step, err := range generate.Run(context.Background(), c.d, c.o) {
			require.Nil(t, step)
			refusal.RequireText(t, err, c.want)
		}
	}
}

func TestLogitsThatAreNoNumbers(t *testing.T) {
	for _, filter := range []model.Filter{{}, {Temperature: 2}} {
		d := newTable(16)
		finite := d.logits
		d.logits = func(tokens []int32, position, token int) float32 {
			if position == 5 && token == 2 {
				return float32(math.NaN())
			}
			return finite(tokens, position, token)
		}
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			"moment"), Steps: 4,
			Filter: filter}, Index: 10}, N: 2}
		for _, err := range generate.Run(context.Background(), d, o) {
			require.EqualError(t, err,
				"generate: step 1 of 4: sequence 10, position 5: a logit is NaN, want finite numbers or -Inf")
		}
	}
}

func TestTimeIsTheMaskedFraction(t *testing.T) {
	d := newTable(16)
	collect(t, d, generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4,
		Sampler: parse(t, "halton")}}})
	require.Equal(t, []float64{1, 0.75, 0.5, 0.25}, d.times)
}

func TestStepsAllocateNothing(t *testing.T) {
	for _, name := range []string{"random", "halton", "moment", "u-moment", "hybrid", "maskgit",
		"vanilla"} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			name)}}, N: 9, Batch: 1}
		d := newTable(16)
		run := func(steps int) float64 {
			o.Steps = steps
			return testing.AllocsPerRun(5, func() {
				for _, err := range generate.Run(context.Background(), d, o) {
					require.NoError(t, err)
				}
			})
		}
		eight, sixteen := run(8), run(16)
		require.LessOrEqual(t, sixteen-eight, 2.0, name) // 72 more steps
	}
}

// peaked returns a table in which position p is more certain the larger (7*p)%length is.
func peaked(length int) *table {
	d := newTable(length)
	d.logits = func(_ []int32, position, token int) float32 {
		if token == 3 {
			return 1 + float32(7*position%length)/2
		}
		return float32(token) / 20
	}
	return d
}

func TestTheMostCertainOpenFirst(t *testing.T) {
	for _, name := range []string{"confidence", "margin", "entropy", "threshold(theta=1)",
		"factor(f=1e-9)", "eb(budget=1e-9)", "eb(confidence)", "klass"} {
		certain := 16
		for step, err := range generate.Run(context.Background(), peaked(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
				Steps: 16}}}) {
			require.NoError(t, err)
			for _, o := range step.Sequences[0].Opened {
				require.Less(t, 7*o.Position%16, certain, name)
				if name != "klass" {
					certain = 7 * o.Position % 16
				}
			}
		}
	}
}

func TestAdaptiveSamplersOpenWhatTheyMay(t *testing.T) {
	opened := func(name string) (sizes []int) {
		for step, err := range generate.Run(context.Background(), peaked(16),
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
				Steps: 8}}}) {
			require.NoError(t, err)
			sizes = append(sizes, len(step.Sequences[0].Opened))
		}
		return sizes
	}
	p := func(rank int) float64 { // the confidence of the position with this rank, from 0
		e, rest := math.Exp(1+float64(15-rank)/2), 0.0
		for _, token := range []float64{0, 1, 2, 4, 5, 6} {
			rest += math.Exp(token / 20)
		}
		return e / (e + rest)
	}
	confident, factor := 0, 1
	for confident < 16 && p(confident) >= 0.9 {
		confident++
	}
	for factor < 16 && p(factor) >= 1-1/float64(factor+2) {
		factor++
	}
	require.Greater(t, confident, 3)
	require.Less(t, confident, 16)
	require.Equal(t, confident, opened("threshold")[0])
	require.Len(t, opened("threshold"), 1+16-confident)
	require.Equal(t, factor, opened("factor")[0])
	require.Greater(t, opened("eb")[0], 1)
	require.Greater(t, opened("eb(budget=1)")[0], opened("eb")[0])
	require.Len(t, opened("eb(budget=100)"), 1)
	require.Len(t, opened("first-hitting"), 16)
	// The marginals are constant: from the third step on all confident positions open.
	require.Equal(t, []int{2, 2, confident - 4}, opened("klass")[:3])
}

func TestBlocksOpenLeftToRight(t *testing.T) {
	start := slices.Repeat([]int32{9}, 16)
	start[2] = 1
	for _, name := range []string{"semi-ar(block=4)", "semi-ar(block=4,hybrid)",
		"semi-ar(block=4,maskgit)", "semi-ar(block=4,threshold)", "semi-ar(block=4,eb)"} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
			Steps: 8},
			Known: start}, N: 2}
		for step, err := range generate.Run(context.Background(), newTable(16), o) {
			require.NoError(t, err)
			for _, s := range step.Sequences {
				first := slices.Index(s.Tokens, 9)
				for _, opened := range s.Opened {
					// Free positions 0, 1, 3 and 4..7, 8..11, 12..15 are the blocks.
					require.True(t, first < 0 || opened.Position/4 <= first/4, "%s: %d opened before %d", name,
						opened.Position, first)
				}
			}
		}
	}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
		"semi-ar(block=4)"), Steps: 3}}}
	for _, err := range generate.Run(context.Background(), newTable(16), o) {
		refusal.RequireText(t, err, "generate: steps is 3")
	}
}

func TestRemaskersKeepWhatIsKnown(t *testing.T) {
	start := slices.Repeat([]int32{9}, 16)
	start[0], start[9] = 5, 6
	for _, name := range []string{"p2(eta=3)", "remdm(eta=0.3)", "remdm(strategy=loop,eta=0.3)",
		"gibbs(k=4)", "gibbs(k=4,by=past)"} {
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
			Steps: 12},
			Known: start}, N: 3}
		closed := 0
		for step, err := range generate.Run(context.Background(), newTable(16), o) {
			require.NoError(t, err)
			for _, s := range step.Sequences {
				closed += len(s.Closed)
				require.Equal(t, []int32{5, 6}, []int32{s.Tokens[0], s.Tokens[9]})
				for _, p := range s.Closed {
					require.Equal(t, int32(9), s.Tokens[p])
				}
				if name[0] == 'p' {
					masked := 0
					for _, token := range s.Tokens {
						if token == 9 {
							masked++
						}
					}
					require.Equal(t, 14-samplers.OpenCount(samplers.Uniform, float64(step.N), 12, 14), masked)
				}
				require.Equal(t, step.Done, !slices.Contains(s.Tokens, 9) && step.N == step.Steps)
			}
		}
		require.Positive(t, closed, name)
	}
}

func TestFirstHittingTellsTheTime(t *testing.T) {
	d := newTable(16)
	collect(t, d,
		generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			"first-hitting")}}})
	require.Len(t, d.times, 16)
	require.True(t, slices.IsSortedFunc(d.times, func(a, b float64) int {
		if a > b {
			return -1
		}
		return 1
	}))
	require.Less(t, d.times[0], 1.0)
	require.Greater(t, d.times[15], 0.0)
}

// Where nothing is known, a sequence begins with the tokens that the model has around every text.
func TestTokensAroundEveryText(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	p.Config = bytes.Replace(p.Config, []byte(`"vocab_size"`),
		[]byte(`"bos_token_id": 7, "vocab_size"`), 1)
	d := loaded(t, p, true)
	spec := d.Spec()
	require.Equal(t, []int32{7, spec.Mask, spec.Mask}, spec.BlankTokens(3))
	require.Equal(t, []int32{spec.Mask}, spec.BlankTokens(1))
	made := func(o generate.Options) []int32 {
		o.Recipe, o.Seed = generate.Recipe{Sampler: samplers.Vanilla{}, Steps: 4}, 3
		var tokens []int32
		for step, err := range generate.Run(t.Context(), d, o) {
			require.NoError(t, err)
			tokens = slices.Clone(step.Sequences[0].Tokens)
		}
		return tokens
	}
	got := made(generate.Options{Request: generate.Request{Length: 12}})
	require.Equal(t, int32(7), got[0])
	require.NotContains(t, got, spec.Mask)
	require.Equal(t, made(generate.Options{Request: generate.Request{Known: spec.BlankTokens(12)}}),
		got)
}
