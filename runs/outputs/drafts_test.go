package outputs

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/generate/traces"
)

// Tokens a pass are those that passes drew: not the prompt's, and not what follows the end.
func TestDraftsReport(t *testing.T) {
	var d draftCounts
	nan := math.NaN()
	o := &traces.Opening{Steps: []int{0, 1, 2, 4, 4, 4},
		LogP: traces.LogProbs{nan, -1, -1, -1, -2, nan}}
	d.add(Sample{Steps: 4, Opening: o})
	require.Empty(t, d.report())
	d.add(Sample{Steps: 4, Opening: o, Evaluated: generate.Work{Drafted: 6, Accepted: 2}})
	d.add(Sample{Steps: 1, Opening: o, Evaluated: generate.Work{Drafted: 1}})
	require.Equal(t, "self-speculation: 1.60 tokens a pass, 2 of 7 drafted tokens were right", d.report())
}
