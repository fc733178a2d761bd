package generate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/samplers"
)

// rule is a sampler made of functions.
type rule struct {
	need   samplers.Need
	choose func(v *samplers.View) (samplers.Opening, error)
}

func (r rule) Needs(int, int) samplers.Need                      { return r.need }
func (r rule) Choose(v *samplers.View) (samplers.Opening, error) { return r.choose(v) }

// Rows that a step does not read are not computed, so a rule that reads others gets an error.
func TestRulesSeeAndOpenWhatTheyMay(t *testing.T) {
	known := []int32{1, 9, 9, 9}
	for want, choose := range map[string]func(v *samplers.View) (samplers.Opening, error){
		"reads logits of position 0, want one of View.Masked or Open": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{}, v.Visit([]int{1, 0}, func(int, []float32) {})
		},
		"reads logits of position 4": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{}, v.Visit([]int{4}, func(int, []float32) {})
		},
		"opens position 2 twice": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{Positions: []int{2, 2}}, nil
		},
		"opens position 0, which is open": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{Positions: []int{0}}, nil
		},
		"puts token 3 at position 0, want 0 to 6 at one that this run opened": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{Replace: []int{0}, Replacement: []int32{3}}, nil
		},
		"replaces 2 positions by 1 tokens, want as many": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{Replace: []int{1, 2}, Replacement: []int32{3}}, nil
		},
		"opens position -1, want 0 to 3": func(v *samplers.View) (samplers.Opening, error) {
			return samplers.Opening{Positions: []int{-1}}, nil
		},
	} {
		d := newTable(4)
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{
			Sampler: rule{samplers.Need{Logits: true},
				choose}, Steps: 3}, Known: known}}
		for _, err := range generate.Run(t.Context(), d, o) {
			require.ErrorContains(t, err, want)
		}
	}
}

// With blocks a rule may open positions of the current block only.
type inTwo struct{ rule }

func (inTwo) Blocks(int) (n, size int) { return 2, 2 }

func TestRulesOpenTheirBlock(t *testing.T) {
	r := inTwo{rule{samplers.Need{}, func(v *samplers.View) (samplers.Opening, error) {
		require.Equal(t, []int{0, 1}, v.Masked)
		return samplers.Opening{Positions: []int{3}}, nil
	}}}
	for _, err := range generate.Run(t.Context(), newTable(4),
		generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: r, Steps: 2}}}) {
		require.ErrorContains(t, err, "opens position 3, which may not open at this step")
	}
}
