package generate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/testkit/refusal"
)

// batchLog is a model that keeps the known tokens of its passes by sequence and step.
type batchLog struct {
	model.Denoiser
	passes [][][]int32
}

func (l *batchLog) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	var list [][]int32
	for i := range b.Size {
		list = append(list, slices.Clone(b.Tokens[i*b.Length:][:b.Length]))
	}
	l.passes = append(l.passes, list)
	return l.Denoiser.Forward(ctx, b)
}

// A share of guidance leaves out int(share*n) of the n tokens known so far: others in each step,
// and each of them as often.
func TestGuidanceShare(t *testing.T) {
	m := exact.NewDenoiser(exactModel(t, "hmm:length=12,tokens=4,hidden=2"))
	mask := m.Spec().Mask
	known := slices.Repeat([]int32{mask}, 12)
	for i := range 6 {
		known[i] = int32(i % 4)
	}
	r, err := generate.ParseRecipe("random steps=6 guidance=1 guidance-share=0.5")
	require.NoError(t, err)
	hidden := make([]int, 12) // how often each position was left out in the first step
	const runs = 600
	different := 0
	for run := range runs {
		log := &batchLog{Denoiser: m}
		o := generate.Options{Request: generate.Request{Recipe: r, Known: known, Index: uint32(run)}}
		for _, err := range generate.Run(t.Context(), log, o) {
			require.NoError(t, err)
		}
		var before []int
		for step, pass := range log.passes {
			require.Len(t, pass, 2)
			var left []int
			knownNow := 0
			for p, token := range pass[0] {
				if token != mask {
					knownNow++
				}
				if token != pass[1][p] {
					require.Equal(t, mask, pass[1][p])
					left = append(left, p)
				}
			}
			require.Len(t, left, knownNow/2, "step %d", step)
			if step == 0 {
				for _, p := range left {
					hidden[p]++
				}
			}
			if step > 0 && fmt.Sprint(left) != fmt.Sprint(before) {
				different++
			}
			before = left
		}
	}
	for p := range 6 {
		require.InDelta(t, runs/2, hidden[p], 80, "position %d", p)
	}
	require.Greater(t, different, runs)
}

// byClass is a model of classes.
type byClass struct{ model.Denoiser }

func (c byClass) Spec() model.Spec {
	spec := c.Denoiser.Spec()
	spec.Classes = 2
	return spec
}

// A share needs guidance without a condition, and keys and values that do not stay.
func TestGuidanceShareIsRefused(t *testing.T) {
	m := exact.NewDenoiser(exactModel(t, "hmm:length=12,tokens=4,hidden=2"))
	known := append([]int32{1, 2}, slices.Repeat([]int32{m.Spec().Mask}, 10)...)
	for text, want := range map[string]string{
		"random steps=6 guidance-share=0.5":            "guidance-share is 0.5, want 0 without guidance",
		"random steps=6 guidance=1 guidance-share=1.5": "guidance-share is 1.5, want 0.001 to 1",
		"random steps=6 guidance=1 guidance-share=0.5 reuse=dkv": "guidance-share is 0.5, want 0 with " +
			"reuse dkv: each step leaves out other tokens",
	} {
		r, err := generate.ParseRecipe(text)
		if err == nil {
			_, err = generate.Request{Recipe: r, Known: known}.Check(m)
		}
		refusal.RequireText(t, err, want)
	}
	r, err := generate.ParseRecipe("random steps=6 guidance=1 guidance-share=0.5")
	require.NoError(t, err)
	_, err = generate.Request{Recipe: r, Known: known}.Check(byClass{m})
	refusal.RequireText(t, err, "guidance-share is 0.5, want 0: this model is guided by its condition")
}
