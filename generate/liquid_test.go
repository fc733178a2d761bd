package generate_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
	"unmask/testkit/parity"
)

// liquidRun is a run of one of the two loops of LFM2.5-Encoder-350M-Diffusion: that of its card,
// and that of the authors' demo.
type liquidRun struct {
	Loop       string
	New, Steps int
	Block      int
	Tau        float64
	Apart      *bool
	Kept       bool
	Banned     []int32
}

// recipe returns the run's recipe. A block has ceil(steps/blocks) passes.
func (r liquidRun) recipe() string {
	if r.Loop == "card_generate" {
		return fmt.Sprintf("low-confidence schedule=llada steps=%d", r.New)
	}
	rule := "apart"
	if r.Apart != nil { // neighbours may open together
		rule = "dynamic"
	}
	blocks := (r.New + r.Block - 1) / r.Block
	steps := min((r.Steps+blocks-1)/blocks*blocks, r.New)
	text := fmt.Sprintf("semi-ar(%s(theta=%v), block=%d) schedule=rest steps=%d", rule, r.Tau, r.Block,
		steps)
	if r.Kept {
		text += " reuse=dual"
	}
	return text
}

// Both published loops give the original's tokens, in its passes and in its order within each.
func TestLiquidLoops(t *testing.T) {
	p := parity.Open(t, "lfm2-diffusion-tiny")
	l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)
	var runs map[string]liquidRun
	require.NoError(t, json.Unmarshal(data, &runs))
	require.Len(t, runs, 9)
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			prompt, _ := p.Ints("golden_" + name + "_prompt")
			want, _ := p.Ints("golden_" + name)
			order, _ := p.Ints("golden_" + name + "_order")
			counts, _ := p.Ints("golden_" + name + "_count")
			recipe, err := generate.ParseRecipe(run.recipe())
			require.NoError(t, err)
			recipe.Filter.Ban = run.Banned
			known := slices.Repeat([]int32{l.Spec().Mask}, len(want))
			copy(known, prompt)
			o := generate.Options{Request: generate.Request{Recipe: recipe, Known: known}}
			var last generate.Sequence
			var opened, passes []int32
			for step, err := range generate.Run(t.Context(), l.Denoiser, o) {
				require.NoError(t, err)
				last = *step.Sequences[0].Sequence
				if n := len(last.Opened); n > 0 {
					passes = append(passes, int32(n))
				}
				for _, o := range last.Opened {
					opened = append(opened, int32(o.Position))
				}
			}
			require.Equal(t, want, last.Tokens)
			require.Equal(t, counts, passes)
			require.Equal(t, order, opened)
		})
	}
}
