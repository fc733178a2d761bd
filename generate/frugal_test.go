package generate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/samplers"
)

// plain hides the abilities of a sampler, samplers.Frugal among them.
type plain struct{ samplers.Sampler }

// What a step's few positions do not need is not computed, and the tokens are the same.
func TestHybridNeedsOneOrderWhereOneChooses(t *testing.T) {
	for text, heads := range map[string][2]int{
		// 2 of 16 positions a step: halton alone in steps 1 and 2, no moment in step 8; 16 draws
		"hybrid":                   {16 + 12 + 10 + 8 + 6 + 4, 16 + 16 + 14 + 12 + 10 + 8 + 6 + 4},
		"hybrid(entropy,random)":   {16 + 16 + 14 + 12 + 10 + 8, 16 + 72},
		"hybrid(margin,entropy)":   {16 + 72, 16 + 72},
		"semi-ar(hybrid,block=16)": {16 + 12 + 10 + 8 + 6 + 4, 16 + 16 + 14 + 12 + 10 + 8 + 6 + 4},
	} {
		run := func(s samplers.Sampler) (tokens []int32, head int) {
			for step, err := range generate.Run(context.Background(), newTable(16),
				generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: s, Steps: 8},
					Seed: 3}}) {
				require.NoError(t, err, text)
				tokens, head = step.Sequences[0].Tokens, step.Sequences[0].Work.Head
			}
			return tokens, head
		}
		frugal, few := run(parse(t, text))
		want, all := run(plain{parse(t, text)})
		require.Equal(t, want, frugal, text)
		require.Equal(t, heads, [2]int{few, all}, text)
	}
}
