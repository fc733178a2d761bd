package generate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
)

// sized records the number of sequences in each pass.
type sized struct {
	*table
	sizes []int
}

func (s *sized) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	s.sizes = append(s.sizes, b.Size)
	return s.table.Forward(ctx, b)
}

// Sequences that are equal before a step share a pass, and have the tokens that each has alone.
func TestEqualSequencesShareAPass(t *testing.T) {
	for _, name := range []string{"maskgit", "hybrid", "p2"} {
		for _, f := range []model.Filter{{}, {Ban: []int32{2}, Temperature: 0.8}} {
			o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
				name), Steps: 4, Filter: f}, Seed: 3}, N: 5}
			d := &sized{table: newTable(12)}
			all := collect(t, d, o)
			require.Equal(t, 1, d.sizes[0], name)
			require.Equal(t, 5, d.sizes[1], name)
			for i := range all {
				alone := o
				alone.Index, alone.N = uint32(i), 1
				require.Equal(t, all[i], collect(t, newTable(12), alone)[0], name)
			}
		}
	}
}
