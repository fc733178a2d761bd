package generate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	_ "unmask/families/encoders"
	_ "unmask/families/llama"
	"unmask/generate"
	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"
)

// published is a run of a model's original program, from golden.json.
type published struct {
	Loop      string
	New       int
	Block     int
	Small     int
	Steps     int
	Threshold float64
	Factor    float64
	CFG       float64
	Dual      bool
	Alg       string
	TopP      float64 `json:"top_p"`
	Edit      float64
	Post      int
	Published bool
	Cache     bool
	Gamma     float64
	Tail      int32
	Stop      int32
	Cold      float64 `json:"entropy_temperature"`
}

// recipe returns the run's recipe in this program's syntax.
func (p published) recipe() string {
	inside := "confidence"
	switch {
	case p.Threshold != 0:
		inside = fmt.Sprintf("threshold(theta=%v)", p.Threshold)
	case p.Factor != 0:
		inside = fmt.Sprintf("factor(f=%v)", p.Factor)
	}
	switch p.Loop {
	case "llada_generate":
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d) schedule=llada steps=%d", inside, p.Block,
			p.Steps)
	case "fast_generate":
		reuse := "prefix"
		if p.Dual {
			reuse = "dual"
		}
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d) schedule=llada steps=%d reuse=%s", inside,
			p.Block, p.Steps, reuse)
	case "dream_generate":
		order := map[string]string{"maskgit_plus": "confidence", "topk_margin": "margin",
			"entropy": "entropy"}[p.Alg]
		text := fmt.Sprintf("greedy(%s) schedule=dream steps=%d", order, p.Steps)
		if p.TopP != 0 {
			text += fmt.Sprintf(" top-p=%v", p.TopP)
		}
		return text
	}
	switch p.Loop {
	case "rnd1_generate":
		if p.Gamma != 0 {
			return fmt.Sprintf("greedy(eb(confidence, budget=%v))", p.Gamma)
		}
		return fmt.Sprintf("greedy(entropy) schedule=floor steps=%d", p.Steps)
	case "p2_generate":
		return fmt.Sprintf("p2(by=draws) schedule=floor steps=%d temperature=0", p.Steps)
	case "chat_generate": // ceil(steps/blocks) in each block
		blocks := (p.New + p.Block - 1) / p.Block
		return fmt.Sprintf("semi-ar(low-confidence, block=%d) schedule=dllm steps=%d", p.Block,
			(p.Steps+blocks-1)/blocks*blocks)
	}
	blocks := fmt.Sprintf(" reuse=blocks block-size=%d", p.Block)
	switch p.Loop {
	case "block_generate", "diffcoder_generate":
		if p.Threshold == 0 {
			return fmt.Sprintf("low-confidence schedule=llada steps=%d", p.Steps) + blocks
		}
		return fmt.Sprintf("dynamic(theta=%v) schedule=llada steps=%d", p.Threshold, p.Steps) + blocks
	case "edit_generate":
		return fmt.Sprintf("edit(theta=%v, edit=%v, post=%d)", p.Threshold, p.Edit, p.Post) + blocks
	case "fast2_generate":
		text := fmt.Sprintf("fast-dllm-v2(theta=%v, small=%d, block=%d", p.Threshold, p.Small, p.Block)
		if p.Cache {
			text += ", cache=1"
		}
		return text + ")" + blocks
	}
	panic(p.Loop)
}

// goldens reads the runs of a pack.
func goldens(t *testing.T, p *parity.Pack) map[string]published {
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)
	var all map[string]published
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// Every published loop gives the original's tokens.
func TestPublishedLoops(t *testing.T) {
	for _, pack := range []string{"llada-tiny", "dream-tiny", "sdar-tiny", "llada2-moe-tiny",
		"fast-dllm-v2-tiny", "llada-moe-tiny", "sdar-moe-tiny", "rnd1-tiny", "coda-tiny",
		"open-dcoder-tiny", "stable-diffcoder-tiny", "modernbert-chat-tiny"} {
		p := parity.Open(t, pack)
		l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		for name, about := range goldens(t, p) {
			t.Run(pack+"/"+name, func(t *testing.T) {
				if about.Published {
					t.Skip("it opens a position that the paper's rule does not")
				}
				prompt, _ := p.Ints("golden_" + name + "_prompt")
				want, _ := p.Ints("golden_" + name)
				counts, _ := p.Ints("golden_" + name + "_count")
				recipe, err := generate.ParseRecipe(about.recipe())
				require.NoError(t, err)
				o := generate.Options{Request: generate.Request{Recipe: recipe,
					Known: slices.Repeat([]int32{l.Spec().Mask}, len(want))}}
				copy(o.Known, prompt)
				if about.Tail != 0 { // a token that is known from the start
					o.Known[len(want)-1] = about.Tail
				}
				if about.Cold != 0 { // of the order; the tokens are the most probable ones anyway
					o.Recipe.Filter.Temperature = about.Cold
				}
				if about.Stop != 0 { // the original cuts here what is filled with the end
					o.EndTokens = []int32{about.Stop}
					for len(o.Known) < len(prompt)+about.New {
						o.Known = append(o.Known, l.Spec().Mask)
					}
				}
				d := l.Denoiser
				if about.CFG != 0 { // the unconditional pass sees the prompt as masks
					d = guide.New(d, func(model.Progress) float64 { return about.CFG })
					o.Condition = &model.Condition{KnownPositions: parity.Count(len(prompt))}
				}
				var last generate.Sequence
				var opened []int32
				alone, rows := 0, 0 // passes over a small block alone, rows of passes
				for step, err := range generate.Run(context.Background(), d, o) {
					require.NoError(t, err)
					last = *step.Sequences[0].Sequence
					opened = append(opened, int32(len(last.Opened)))
					if last.Work.Partial-rows == about.Small-1 { // and the row before them
						alone++
					}
					rows = last.Work.Partial
				}
				if about.Stop != 0 { // what follows the end in its block is not shown
					want = want[:slices.Index(want[len(prompt):], about.Stop)+len(prompt)+1]
				}
				require.Equal(t, want, last.Tokens[:len(want)])
				calls := len(opened)
				if about.Loop != "dream_generate" && about.Block > 0 && about.Loop[:1] != "l" &&
					about.Loop != "chat_generate" {
					// The originals' separate passes over the prompt and over finished blocks are
					// part of ours.
					if whole := len(prompt) / about.Block * about.Block; about.Loop == "fast2_generate" {
						if whole > 0 && whole < len(prompt) {
							calls++
						}
					} else if about.Loop != "fast_generate" {
						calls += (len(want) - whole + about.Block - 1) / about.Block
						calls += min(whole, 1)
					}
					if about.Stop != 0 { // ours may end within the block
						require.LessOrEqual(t, calls-1, int(counts[0]), "passes")
					} else {
						require.EqualValues(t, counts[0], calls, "passes")
					}
				}
				if len(counts) == 1 && (about.Block == 0 || about.Loop == "chat_generate") {
					require.EqualValues(t, counts[0], calls, "passes")
				}
				if about.Cache {
					want, _ := p.Ints("golden_" + name + "_alone")
					require.EqualValues(t, want[0], alone, "passes over a small block")
				}
				if about.Loop == "dream_generate" {
					require.Equal(t, counts, opened, "how many each step opens")
				}
			})
		}
	}
}
