package generate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
)

// causal is a run of reference_llm2.py, from golden.json.
type causal struct {
	Loop      string
	New       int
	Block     int
	Window    int
	Threshold float64
	Entropy   float64
	Penalty   float64
	Grow      []int
	LoRA      bool
	Stop      *int32
	Skippable int
	Alg       string
	Each      int
	Budget    int
	Spill     bool
	TopP      float64 `json:"top_p"`
	Expanded  int
	Deleted   int
}

// recipe returns the run's recipe in this program's syntax.
func (c causal) recipe() string {
	inside := "greedy(confidence)"
	if c.Threshold != 0 {
		inside = fmt.Sprintf("greedy(threshold(theta=%v))", c.Threshold)
	}
	switch c.Loop {
	case "ar_generate":
		return "greedy(confidence) reuse=causal block-size=1"
	case "diffusion_generate", "wedlm_block_generate":
		return fmt.Sprintf("%s schedule=llada steps=%d reuse=causal block-size=%d", inside, c.Block, c.Block)
	case "self_spec_generate":
		text := fmt.Sprintf("self-speculation(block=%d", c.Block)
		if c.Threshold != 0 {
			text += fmt.Sprintf(", theta=%v", c.Threshold)
		}
		if c.Grow != nil {
			text += fmt.Sprintf(", from=%d", c.Grow[0])
		}
		return text + ") reuse=causal"
	case "wedlm_window_generate":
		entropy := c.Entropy
		if entropy == 0 { // always the least alone
			entropy = 1e-9
		}
		return fmt.Sprintf("wedlm(entropy=%v, penalty=%v, window=%d) reuse=causal", entropy, c.Penalty,
			c.Window)
	}
	if c.Loop != "dreamon_generate" {
		panic(c.Loop)
	}
	order := map[string]string{"maskgit_plus": "confidence", "topk_margin": "margin",
		"entropy": "entropy"}[c.Alg]
	text := fmt.Sprintf("dreamon(greedy(%s), new=%d, each=%d", order, c.New, c.Each)
	if c.Budget > 0 {
		text += fmt.Sprintf(", budget=%d", c.Budget)
	}
	if c.Spill {
		text += ", spill=1"
	}
	text += ")"
	if c.TopP != 0 {
		text += fmt.Sprintf(" top-p=%v", c.TopP)
	}
	return text
}

func causals(t *testing.T, p *parity.Pack) map[string]causal {
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)
	var all map[string]causal
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// loaded loads a pack, without its adapter if plain is true.
func loaded(t testing.TB, p *parity.Pack, plain bool) model.Denoiser {
	src := *p.Source
	if plain {
		src.Files = fstest.MapFS{}
	}
	l, err := model.Load(&src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	return l.Denoiser
}

// Every loop of Nemotron-Labs-Diffusion and WeDLM gives the original's tokens in the original's
// passes, but for the last ones that give nothing.
func TestCausalLoops(t *testing.T) {
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-7b-tiny", "wedlm-8b-tiny"} {
		p := parity.Open(t, pack)
		for name, about := range causals(t, p) {
			t.Run(pack+"/"+name, func(t *testing.T) {
				prompt, _ := p.Ints("golden_" + name + "_prompt")
				want, _ := p.Ints("golden_" + name)
				counts, _ := p.Ints("golden_" + name + "_count")
				recipe, err := generate.ParseRecipe(about.recipe())
				require.NoError(t, err)
				d := loaded(t, p, about.Loop == "self_spec_generate" && !about.LoRA)
				o := generate.Options{Request: generate.Request{Recipe: recipe,
					Known: slices.Repeat([]int32{d.Spec().Mask},
						len(prompt)+about.New)}}
				copy(o.Known, prompt)
				if about.Stop != nil {
					o.EndTokens = []int32{*about.Stop}
				}
				var last generate.Sequence
				var took []int32
				for step, err := range generate.Run(context.Background(), d, o) {
					require.NoError(t, err)
					last = *step.Sequences[0].Sequence
					took = append(took, int32(len(last.Opened)))
				}
				require.Equal(t, want, last.Tokens[:len(want)])
				require.EqualValues(t, int(counts[0])-about.Skippable, last.N, "passes")
				if p.Has("golden_" + name + "_took") {
					want, _ := p.Ints("golden_" + name + "_took")
					var got []int32
					for _, n := range took[1:] { // the first is the prompt's
						if n > 0 {
							got = append(got, n)
						}
					}
					require.Equal(t, want[:len(want)-1], got[:len(got)-1], "tokens of each block")
				}
				if about.Loop == "diffusion_generate" && about.Stop == nil { // whole blocks, then a cut
					for n := about.New - 1; n > about.New-about.Block; n-- {
						o.Known = o.Known[:len(prompt)+n]
						got, _ := text(t, d, about.recipe(), o)
						require.Equal(t, want[:len(prompt)+n], got, "a reply of %d tokens", n)
					}
				}
			})
		}
	}
}

// DreamOn's loop gives the original's tokens and passes; what each step reports turns the tokens
// before it into those after it.
func TestGrowingLoop(t *testing.T) {
	p := parity.Open(t, "dreamon-tiny")
	d := loaded(t, p, false)
	mask := d.Spec().Mask
	for name, about := range causals(t, p) {
		t.Run(name, func(t *testing.T) {
			prompt, _ := p.Ints("golden_" + name + "_prompt")
			want, _ := p.Ints("golden_" + name)
			counts, _ := p.Ints("golden_" + name + "_count")
			recipe, err := generate.ParseRecipe(about.recipe())
			require.NoError(t, err)
			o := generate.Options{Request: generate.Request{Recipe: recipe, Known: prompt, Seed: 1}}
			shown := slices.Clone(prompt)
			expanded, deleted := 0, 0
			for step, err := range generate.Run(context.Background(), d, o) {
				require.NoError(t, err)
				q := *step.Sequences[0].Sequence
				shown = generate.ApplyResizes(shown, q.Resized, mask)
				for _, r := range q.Resized {
					if r.Into == 0 {
						deleted++
					} else {
						expanded++
					}
				}
				for _, o := range q.Opened {
					require.Equal(t, mask, shown[o.Position])
					shown[o.Position] = o.Token
				}
				require.Equal(t, q.Tokens, shown)
				if step.Done {
					require.Equal(t, want, q.Tokens)
					require.EqualValues(t, counts[0], q.N)
					require.EqualValues(t, counts[0], q.Work.Full)
				}
			}
			require.Equal(t, []int{about.Expanded, about.Deleted}, []int{expanded, deleted})
		})
	}
}

// twins checks the other passes of guidance: their tokens are the sequence's, with masks at the
// prompt, which is four tokens, and at the last one.
type twins struct {
	model.Denoiser
	t       *testing.T
	lengths map[int]bool
}

func (d *twins) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	require.Equal(d.t, 2, b.Size)
	want, n := slices.Clone(b.Tokens[:b.Length]), b.Length
	for _, p := range []int{0, 1, 2, 3, n - 1} {
		want[p] = d.Spec().Mask
	}
	require.Equal(d.t, want, b.Tokens[n:])
	d.lengths[n] = true
	return d.Denoiser.Forward(ctx, b)
}

// Guidance hides the given text from its other pass wherever the text has moved to, at each length
// of a hole that grows and shrinks.
func TestGuidedGrowth(t *testing.T) {
	d := &twins{loaded(t, parity.Open(t, "dreamon-tiny"), false), t, map[int]bool{}}
	known := slices.Concat([]int32{5, 6, 7, 8}, slices.Repeat([]int32{d.Spec().Mask}, 12), []int32{9})
	text(t, d, "dreamon(new=16) guidance=1.5", generate.Options{N: 4, Batch: 1,
		Request: generate.Request{Known: known, Adjust: func(_ int, logits []float32) {
			logits[d.Spec().Growth.Expand] += 30
		}}})
	require.True(t, d.lengths[16], "it shrinks")
	require.True(t, d.lengths[18], "it grows")
	r, err := generate.ParseRecipe("low-confidence steps=4 guidance=1.5")
	require.NoError(t, err)
	q := generate.Request{Known: known[:8], Recipe: r,
		Condition: &model.Condition{KnownPositions: []int32{9}}}
	for _, err := range generate.Run(t.Context(), d.Denoiser, generate.Options{Request: q}) {
		require.ErrorContains(t, err, "given position 0 is 9, want ascending ones of 0 to 7")
	}
}

// A block of one position is left-to-right decoding, not the window that is usual where no size is
// said. The tokens are those of wedlm_block_generate (reference_llm2.py) with blocks of 1.
func TestBlocksOfOne(t *testing.T) {
	d := loaded(t, parity.Open(t, "wedlm-7b-tiny"), false)
	known := append([]int32{15, 17, 33, 90, 22, 71, 44}, slices.Repeat([]int32{d.Spec().Mask}, 12)...)
	tokens, _ := text(t, d, "greedy(confidence) reuse=causal block-size=1",
		generate.Options{Request: generate.Request{Known: known}})
	require.Equal(t, []int32{88, 49, 49, 81, 67, 33, 33, 88, 49, 81, 81, 86}, tokens[7:])
}

// text returns the tokens of one sequence and its work.
func text(t *testing.T, d model.Denoiser, recipe string, o generate.Options) ([]int32,
	generate.Work) {
	t.Helper()
	r, err := generate.ParseRecipe(recipe)
	require.NoError(t, err)
	var last generate.Sequence
	o.Recipe = r
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err, recipe)
		last = *step.Sequences[0].Sequence
	}
	require.NotContains(t, last.Tokens, d.Spec().Mask, recipe)
	return slices.Clone(last.Tokens), last.Work
}

// starts returns token lists with a prompt, some with known tokens further on.
func starts(spec model.Spec, seed uint64, n int) (all [][]int32) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		tokens := slices.Repeat([]int32{spec.Mask}, 12+r.IntN(20))
		prompt := 1 + r.IntN(9)
		for p := range tokens {
			if p < prompt || i%3 == 2 && r.IntN(5) == 0 {
				tokens[p] = int32(12 + r.IntN(80))
			}
		}
		all = append(all, tokens)
	}
	return all
}

// Self-speculation gives exactly the text of left-to-right decoding: for packs, prompts, known
// tokens further on, sizes of drafts, drafts in one pass or several, with and without the adapter,
// at temperature 0 and above, with filters and with an end.
func TestSelfSpeculationIsLeftToRight(t *testing.T) {
	for pack, texts := range map[string]int{"nemotron-labs-tiny": 12, "nemotron-labs-tiny-bf16": 4} {
		p := parity.Open(t, pack)
		with, without := loaded(t, p, false), loaded(t, p, true)
		accepted := 0
		for i, tokens := range starts(with.Spec(), 5, texts) {
			o := generate.Options{Request: generate.Request{Known: tokens, Seed: uint64(i)}}
			if i%4 == 3 {
				o.EndTokens = []int32{20, 21, 22, 23}
			}
			more := [...]string{"", ", temperature=0.7", ""}[i%3]
			filter := [...]string{"", "", " top-p=0.8", " top-k=5"}[i%4]
			want, _ := text(t, with, "low-confidence("+strings.TrimPrefix(more, ", ")+
				") reuse=causal block-size=1"+filter, o)
			for _, draft := range []string{"block=1", "block=2", "block=3", "block=8", "block=32",
				"block=64", "block=8, theta=0.3", "block=32, from=4"} {
				for _, d := range []model.Denoiser{with, without} {
					got, work := text(t, d, "self-speculation("+draft+more+") reuse=causal"+filter, o)
					require.Equal(t, want, got, "%s, start %d, %s%s", pack, i, draft, more)
					accepted += work.Accepted
				}
			}
		}
		require.Positive(t, accepted, "some drafts are right")
	}
}

// Sequences of different recipes share passes and get the bytes that each gets alone, also in a
// pool whose requests may have guidance.
func TestCausalSequencesTogether(t *testing.T) {
	for pack, recipes := range map[string][]string{
		"nemotron-labs-tiny": {"self-speculation(block=4) reuse=causal", "low-confidence reuse=causal " +
			"block-size=1", "greedy(threshold(theta=0.2)) reuse=causal", "threshold reuse=causal block-size=4",
			"self-speculation(block=8, theta=0.2, temperature=0.8) reuse=causal", "random steps=4"},
		"wedlm-8b-tiny": {"wedlm(entropy=2, temperature=1) reuse=causal", "wedlm(window=4) reuse=causal",
			"greedy(confidence) reuse=causal block-size=8", "random steps=4 reuse=causal", "entropy steps=6"},
	} {
		p := parity.Open(t, pack)
		d := loaded(t, p, false)
		together(t, d, generate.PoolOptions{Size: 8, Length: 40}, recipes)
		together(t, d, generate.PoolOptions{Size: 8, Length: 40, Guided: true},
			append(recipes, "low-confidence steps=4 guidance=2"))
	}
}

// together checks that sequences of some recipes have the same bytes in one pool as alone.
func together(t *testing.T, d model.Denoiser, o generate.PoolOptions, recipes []string) {
	pool, err := generate.NewPool(d, o)
	require.NoError(t, err)
	all := starts(d.Spec(), 9, len(recipes))
	var members []*generate.Sequence
	for i, recipe := range recipes {
		r, err := generate.ParseRecipe(recipe)
		require.NoError(t, err)
		q, err := pool.Add(generate.Request{Recipe: r, Seed: 7, Index: uint32(i), Known: all[i]})
		require.NoError(t, err, recipe)
		members = append(members, q)
	}
	for range 200 {
		_, err := pool.Step(context.Background())
		require.NoError(t, err)
	}
	for i, recipe := range recipes {
		require.NoError(t, members[i].Err)
		require.True(t, members[i].Done, recipe)
		alone, _ := text(t, d, recipe, generate.Options{Request: generate.Request{Known: all[i],
			Seed: 7, Index: uint32(i)}})
		require.Equal(t, alone, members[i].Tokens, recipe)
	}
}

// What a model cannot run is refused by name.
func TestCausalRefusals(t *testing.T) {
	open := func(pack string) model.Denoiser { return loaded(t, parity.Open(t, pack), false) }
	nemotron, wedlm, dream := open("nemotron-labs-tiny"), open("wedlm-7b-tiny"), open("dreamon-tiny")
	for _, c := range []struct {
		d            model.Denoiser
		recipe, want string
	}{
		{dream, "confidence reuse=causal", "reuse is causal, want another one"},
		{wedlm, "self-speculation reuse=causal", "sampler is self-speculation, want one that does not draft"},
		{nemotron, "wedlm reuse=causal", "sampler is wedlm, want one without a window"},
		{wedlm, "wedlm reuse=causal block-size=4", "block-size is 4, want 0: the sampler has its own"},
		{nemotron, "confidence reuse=causal block-size=65", "block-size is 65, want 1 to 64"},
		{nemotron, "hybrid reuse=causal cache=1", "cache is 1, want 0 with reuse causal"},
		{nemotron, "hybrid reuse=causal guidance=2", "guidance is 2, want 0 with reuse causal"},
		{nemotron, "semi-ar reuse=causal", "sampler is semi-ar, want one without blocks"},
		{nemotron, "edit reuse=causal", "sampler is edit, want one that does not edit"},
		{nemotron, "info-gain reuse=causal", "sampler is info-gain, want one that does not look ahead"},
		{wedlm, "confidence reuse=dkv", "no partial passes"},
		{dream, "dreamon reuse=dkv", "reuse is dkv, want none with dreamon"},
	} {
		r, err := generate.ParseRecipe(c.recipe)
		require.NoError(t, err)
		_, err = generate.Options{Request: generate.Request{Recipe: r, Length: 8}}.Check(c.d)
		refusal.RequireText(t, err, c.want, c.recipe)
		require.NotContains(t, err.Error(), "\n")
	}
}

// A preset with blocks of one token stays left-to-right decoding under a user's settings.
func TestBlockSizeOfPreset(t *testing.T) {
	base, err := generate.ParseRecipe("low-confidence reuse=causal block-size=1")
	require.NoError(t, err)
	got, err := generate.Overrides{"temperature": "0"}.ApplyTo(base)
	require.NoError(t, err)
	require.Equal(t, 1, got.BlockSize)
	require.Equal(t, generate.Causal, got.Reuse)
}
