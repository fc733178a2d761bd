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
	"unmask/generate"
	"unmask/internal/parity"
	_ "unmask/llama"
	"unmask/model"
)

// published is a run of a model's original program, of golden.json.
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
}

// recipe spells the run as this program does.
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
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d) schedule=llada steps=%d", inside, p.Block, p.Steps)
	case "fast_generate":
		reuse := "prefix"
		if p.Dual {
			reuse = "dual"
		}
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d) schedule=llada steps=%d reuse=%s", inside, p.Block, p.Steps, reuse)
	case "dream_generate":
		order := map[string]string{"maskgit_plus": "confidence", "topk_margin": "margin", "entropy": "entropy"}[p.Alg]
		text := fmt.Sprintf("greedy(%s) schedule=dream steps=%d", order, p.Steps)
		if p.TopP != 0 {
			text += fmt.Sprintf(" top-p=%v", p.TopP)
		}
		return text
	}
	panic(p.Loop)
}

// goldens returns the runs of a pack.
func goldens(t *testing.T, p *parity.Pack) map[string]published {
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)
	var all map[string]published
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// Every published loop gives the original's tokens.
func TestPublishedLoops(t *testing.T) {
	for _, pack := range []string{"llada-tiny", "dream-tiny"} {
		p := parity.Open(t, pack)
		l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		for name, about := range goldens(t, p) {
			t.Run(pack+"/"+name, func(t *testing.T) {
				if about.Published || about.CFG != 0 {
					t.Skip()
				}
				prompt, _ := p.Ints("golden_" + name + "_prompt")
				want, _ := p.Ints("golden_" + name)
				counts, _ := p.Ints("golden_" + name + "_count")
				recipe, err := generate.ParseRecipe(about.recipe())
				require.NoError(t, err)
				o := generate.Options{Tokens: slices.Repeat([]int32{l.Spec().Mask}, len(want))}.With(recipe)
				copy(o.Tokens, prompt)
				var last generate.Sequence
				var opened []int32
				for step, err := range generate.Run(context.Background(), l.Denoiser, o) {
					require.NoError(t, err)
					last = step.Sequences[0]
					opened = append(opened, int32(len(last.Opened)))
				}
				require.Equal(t, want, last.Tokens)
				if about.Loop == "dream_generate" {
					require.Equal(t, counts, opened, "how many each step opens")
				}
			})
		}
	}
}
