package generate_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/families/llama"
	"unmask/generate"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
)

// pack loads a network of a parity pack.
func pack(t *testing.T, name string) model.Denoiser {
	l, err := model.Load(parity.Open(t, name).Source,
		model.Options{Backend: cpu.New(cpu.Options{Threads: 2})})
	require.NoError(t, err)
	return l.Denoiser
}

// recipe parses a recipe.
func recipe(t *testing.T, text string) generate.Recipe {
	r, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	return r
}

// last returns the last state of a run's only sequence.
func last(t *testing.T, d model.Denoiser, o generate.Options) (q generate.Sequence, steps int) {
	for step, err := range generate.Run(t.Context(), d, o) {
		require.NoError(t, err)
		q, steps = *step.Sequences[0].Sequence, step.N
	}
	require.True(t, q.Done)
	return q, steps
}

// A text ends once a token of Ends and everything before it are open. The tokens up to it are those
// of the run without Ends, and less is computed.
func TestEnds(t *testing.T) {
	const end, at, length = 3, 6, 24
	force := func(position int, logits []float32) {
		if position == at || position == at+9 {
			logits[end] += 1000
		}
		if position < at {
			logits[end] = float32(math.Inf(-1))
		}
	}
	for _, c := range []struct{ pack, recipe string }{
		{"llada-tiny", "semi-ar(low-confidence,block=4) schedule=llada steps=24"},
		{"llada-tiny", "semi-ar(greedy(threshold(theta=0.05)),block=4) reuse=dual steps=24"},
		{"dream-tiny", "entropy schedule=dream steps=24"},
		{"llada-tiny", "hybrid steps=6 cache=1"},
		{"llada-tiny", "semi-ar(hybrid,block=8) steps=12 reuse=prefix"},
		{"sdar-tiny", "dynamic(theta=0.9) schedule=llada steps=4 reuse=blocks"},
		{"fast-dllm-v2-tiny", "fast-dllm-v2(small=2,block=8) reuse=blocks block-size=8"},
		{"fast-dllm-v2-tiny", "fast-dllm-v2(small=4,block=8,cache=1) reuse=blocks block-size=8"},
	} {
		t.Run(c.pack+"/"+c.recipe, func(t *testing.T) {
			d := pack(t, c.pack)
			o := generate.Options{Request: generate.Request{Recipe: recipe(t, c.recipe), Length: length,
				Adjust: force}}
			all, long := last(t, d, o)
			o.EndTokens = []int32{1, end}
			q, short := last(t, d, o)
			require.Equal(t, all.Tokens[:at+1], q.Tokens[:at+1])
			require.NotContains(t, q.Tokens, d.Spec().Mask)
			require.LessOrEqual(t, short, long)
			if c.recipe[:7] == "semi-ar" || o.Reuse == generate.Blocks {
				require.Less(t, short, long)
				require.Less(t, q.Work.Partial+q.Work.Full*length,
					all.Work.Partial+all.Work.Full*length)
				require.Equal(t, slices.Repeat([]int32{end}, 4), q.Tokens[length-4:])
				require.Equal(t, length-1, q.Opened[len(q.Opened)-1].Position)
			}
		})
	}
	d := pack(t, "sdar-tiny")
	o := generate.Options{Request: generate.Request{Recipe: recipe(t,
		"edit(theta=0.9) reuse=blocks block-size=8"), Length: length, Adjust: force, EndTokens: []int32{end}}}
	q, _ := last(t, d, o) // an editor finishes the block
	o.EndTokens = nil
	all, _ := last(t, d, o)
	require.Equal(t, all.Tokens[:8], q.Tokens[:8])
	require.Equal(t, slices.Repeat([]int32{end}, length-8), q.Tokens[8:])
	o.EndTokens = []int32{int32(d.Spec().Outcomes)}
	_, err := o.Check(d)
	refusal.RequireText(t, err, "generate: end is ")
	p, err := generate.NewPool(d, generate.PoolOptions{})
	require.NoError(t, err)
	_, err = p.Add(generate.Request{EndTokens: []int32{-1}})
	refusal.RequireText(t, err, "generate: end is -1")
}

// After a caller changes tokens, these and all after them are computed again: the run continues
// like one that had them from the start.
func TestBlocksAfterAnEdit(t *testing.T) {
	d := pack(t, "sdar-tiny")
	r := recipe(t, "low-confidence schedule=llada steps=4 reuse=blocks block-size=4")
	mask := d.Spec().Mask
	p, err := generate.NewPool(d, generate.PoolOptions{})
	require.NoError(t, err)
	known := slices.Repeat([]int32{mask}, 16)
	q, err := p.Add(generate.Request{Recipe: r, Known: known, Edit: func(q *generate.Sequence) error {
		if q.N == 8 { // the second block is full
			for i := range 4 {
				q.Tokens[i] = int32(20 + i)
			}
		}
		return nil
	}})
	require.NoError(t, err)
	for !q.Done {
		_, err := p.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, q.Err)
	}
	o := generate.Options{Request: generate.Request{Recipe: r, Known: slices.Clone(known)}}
	copy(o.Known, q.Tokens[:8])
	want, _ := last(t, d, o)
	require.Equal(t, want.Tokens, q.Tokens)
	require.Equal(t, 16, q.N)

	// A block that is masked again opens again while steps are left.
	masked := false
	quick := recipe(t, "dynamic(theta=0.01) schedule=llada steps=4 reuse=blocks block-size=4")
	again, err := p.Add(generate.Request{Recipe: quick, Known: known,
		Edit: func(q *generate.Sequence) error {
			if q.Tokens[4] != mask && !masked {
				q.Tokens[1], q.Tokens[2], masked = mask, mask, true
			}
			return nil
		}})
	require.NoError(t, err)
	for !again.Done {
		_, err := p.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, again.Err)
	}
	require.NotContains(t, again.Tokens, mask)
	require.True(t, masked)
}

// A fault of one sequence does not affect the others.
func TestFaultsOfBlocks(t *testing.T) {
	d := pack(t, "sdar-tiny")
	p, err := generate.NewPool(d, generate.PoolOptions{Size: 3})
	require.NoError(t, err)
	r := recipe(t, "dynamic schedule=llada steps=4 reuse=blocks")
	well := generate.Request{Recipe: r, Length: 16, Seed: 4}
	first, err := p.Add(well)
	require.NoError(t, err)
	broken := well
	broken.Adjust = func(position int, logits []float32) {
		if position == 9 {
			logits[0] = float32(math.NaN())
		}
	}
	second, err := p.Add(broken)
	require.NoError(t, err)
	well.Index = 2
	well.BlockSize = 8
	third, err := p.Add(well)
	require.NoError(t, err)
	for p.Len() > 0 {
		moved, err := p.Step(t.Context())
		require.NoError(t, err)
		for _, q := range slices.Clone(moved) {
			if q.Done {
				p.Remove(q)
			}
		}
	}
	require.ErrorContains(t, second.Err, "position 9: a logit is NaN")
	require.NoError(t, first.Err)
	want, _ := alone(t, d, well)
	require.Equal(t, want, third.Tokens)

	for text, want := range map[string]string{
		"dynamic reuse=blocks block-size=3": "block-size is 3, want a power of two",
		"semi-ar reuse=blocks":              "no blocks reuse with this sampler: it has blocks of its own",
		"semi-ar(block=3) reuse=blocks":     "no blocks reuse with this sampler: it has blocks of its own",
		"hybrid reuse=blocks cache=1":       "cache is 1 with reuse blocks, want 0",
		"first-hitting reuse=blocks":        "no blocks reuse with this sampler: it has a clock of its own",
	} {
		_, err := p.Add(generate.Request{Recipe: recipe(t, text)})
		refusal.RequireText(t, err, want)
	}
	_, err = r.Complete(newTable(8), 8)
	refusal.RequireText(t, err, "its positions see all others")
}

// Samplers that look ahead see the current block and the blocks before it.
func TestBlocksLookAhead(t *testing.T) {
	d := pack(t, "sdar-tiny")
	o := generate.Options{Request: generate.Request{Recipe: recipe(t,
		"info-gain steps=2 reuse=blocks block-size=4"), Length: 12}}
	q, steps := last(t, d, o)
	require.Equal(t, 6, steps)
	require.NotContains(t, q.Tokens, d.Spec().Mask)
}

// LLaDA2.1's run takes a temperature: near 0 it is the run without, above it draws, also where
// tokens are replaced, and each seed has a text of its own.
func TestEditAtATemperature(t *testing.T) {
	d := pack(t, "llada2-moe-tiny")
	run := func(temperature string, seed uint64) (tokens []int32, replaced int) {
		base := recipe(t, "edit(theta=0.05,edit=0.03,post=4) reuse=blocks")
		r, err := generate.Overrides{"temperature": temperature}.ApplyTo(base)
		require.NoError(t, err)
		o := generate.Options{Request: generate.Request{Recipe: r, Length: 40, Seed: seed}}
		for step, err := range generate.Run(t.Context(), d, o) {
			require.NoError(t, err)
			q := step.Sequences[0]
			tokens, replaced = slices.Clone(q.Tokens), replaced+len(q.Replaced)
		}
		return tokens, replaced
	}
	greedy, _ := run("0", 1)
	cold, _ := run("0.001", 1)
	require.Equal(t, greedy, cold)
	first, replaced := run("1", 1)
	again, _ := run("1", 1)
	other, _ := run("1", 2)
	require.Positive(t, replaced)
	require.Equal(t, first, again)
	require.NotEqual(t, first, greedy)
	require.NotEqual(t, first, other)
}

// The end of a sequence does not change the text before it where the last block is whole.
func TestTheLastBlockIsWhole(t *testing.T) {
	for _, c := range []struct{ pack, recipe string }{
		{"sdar-tiny", "dynamic(theta=0.9) schedule=llada steps=4 reuse=blocks"},
		{"sdar-tiny", "low-confidence schedule=llada steps=2 reuse=blocks"},
		{"llada2-moe-tiny", "dynamic(theta=0.3) schedule=llada steps=8 reuse=blocks block-size=8"},
		{"llada2-moe-tiny", "edit(theta=0.05,edit=0.03,post=4) reuse=blocks block-size=8"},
		{"fast-dllm-v2-tiny", "fast-dllm-v2(small=4,block=8) reuse=blocks block-size=8"},
		{"llada-tiny", "low-confidence schedule=llada steps=8 reuse=blocks block-size=8"},
	} {
		t.Run(c.pack+"/"+c.recipe, func(t *testing.T) {
			d := pack(t, c.pack)
			o := generate.Options{Request: generate.Request{Recipe: recipe(t, c.recipe),
				Known: slices.Repeat([]int32{d.Spec().Mask}, 24)}}
			copy(o.Known, []int32{7, 21, 9})
			whole, _ := last(t, d, o)
			for n := 17; n < 24; n++ {
				o.Known = o.Known[:n]
				got, _ := last(t, d, o)
				require.Equal(t, whole.Tokens[:n], got.Tokens)
				require.NotContains(t, got.Tokens, d.Spec().Mask)
			}
		})
	}
}

// Parts of the model's blocks open one after the other, and the tokens are those of full passes
// with the same blocks: keys and values of finished blocks are exact. Parts of one position are
// SDAR's strategy sequential.
func TestPartsOfBlocks(t *testing.T) {
	d := pack(t, "sdar-tiny")
	for _, text := range []string{"semi-ar(low-confidence,block=1)", "semi-ar(low-confidence,block=2)",
		"semi-ar(entropy,block=1)"} {
		o := generate.Options{Request: generate.Request{Seed: 5,
			Known: slices.Repeat([]int32{d.Spec().Mask}, 24)}}
		copy(o.Known, []int32{7, 21, 9, 30})
		o.Recipe = recipe(t, text+" schedule=llada steps=20")
		want, _ := last(t, d, o)

		o.Recipe = recipe(t, text+" schedule=llada steps=4 reuse=blocks")
		opened := 4
		for step, err := range generate.Run(t.Context(), d, o) {
			require.NoError(t, err)
			for _, position := range step.Sequences[0].Opened {
				if strings.Contains(text, "block=1") {
					require.Equal(t, opened, position.Position)
				}
				opened++
			}
			if step.Sequences[0].Done && text != "semi-ar(entropy,block=1)" { // which draws by the step
				require.Equal(t, want.Tokens, step.Sequences[0].Tokens, text)
			}
		}
		require.Equal(t, 24, opened)
	}
}

// Blocks that begin with the answer: the tokens are those of dLLM's core/samplers/bd3lm.py over
// these weights in float64 (its steps are for all blocks).
func TestAnswerBlocks(t *testing.T) {
	p := parity.Open(t, "sdar-tiny")
	l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	m := l.Denoiser.(*llama.Model)
	m.ModelSpec.Blocks = model.AnswerBlocks
	for _, c := range []struct {
		name   string
		prompt int
		steps  int // of a block
		want   []int32
	}{
		{"one token", 1, 3, []int32{7, 54, 135, 34, 63, 54, 34, 135, 135, 135}},
		{"a block less one", 3, 2, []int32{7, 21, 99, 119, 119, 18, 18, 54, 54, 34, 34, 135}},
		{"a block and one", 5, 4, []int32{3, 1, 4, 15, 92, 34, 34, 34, 34, 54, 54, 34, 34, 34, 34}},
		{"a block and a half", 6, 4,
			[]int32{3, 1, 4, 15, 92, 65, 108, 108, 34, 34, 54, 34, 34, 34, 54, 54, 34, 34}},
		{"a whole block", 4, 3, []int32{3, 1, 4, 15, 54, 54, 54, 34, 54, 54, 34, 135, 135}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recipe(t, "low-confidence schedule=dllm reuse=blocks")
			r.Steps = c.steps
			o := generate.Options{Request: generate.Request{Recipe: r,
				Known: slices.Repeat([]int32{m.Spec().Mask}, len(c.want))}, N: 2}
			copy(o.Known, c.want[:c.prompt])
			for step, err := range generate.Run(t.Context(), m, o) {
				require.NoError(t, err)
				if q := step.Sequences[1]; q.Done {
					require.Equal(t, c.want, q.Tokens)
				}
			}
		})
	}
}
