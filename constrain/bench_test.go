package constrain_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/model"
)

// The cost of a step's law at LLaDA's vocabulary, over 128 masked positions, without the head.
func BenchmarkStep(b *testing.B) {
	const tokens, positions = 126_464, 128
	v := grammar.NewVocabulary(tokens, func(id int32) (string, bool) {
		if id < 256 {
			return string([]byte{byte(id)}), true
		}
		return fmt.Sprintf("%c%d", "abc \""[id%5], id), id < tokens-1
	})
	s, err := schema.Compile([]byte(someSchemas[0]), schema.Options{})
	require.NoError(b, err)
	end := []int32{tokens - 1}
	a, err := s.Tokens(v, grammar.TokenOptions{EndTokens: end, FillTokens: end})
	require.NoError(b, err)
	q := &constrain.Sequence{Language: &constrain.Language{Tokens: a, EndPosition: positions},
		Mask: tokens}
	known := make([]int32, positions)
	rows := make([]int32, positions)
	for i := range rows {
		known[i], rows[i] = tokens, int32(i)
	}
	dense := &model.Dense{Logits: make([]float32, positions*tokens), Columns: tokens}
	m := constrain.Marginals{Filtered: dense, Raw: dense, Outcomes: tokens, Length: positions,
		Sequence: func(int) *constrain.Sequence { return q }}
	stats := model.Stats{Entropy: make([]float64, positions)}
	draw := model.Draw{Uniform: make([]float64, 8), Token: make([]int32, 8), LogP: make([]float64, 8)}
	for i := range draw.Uniform {
		draw.Uniform[i] = 0.3
	}
	for b.Loop() {
		q.BeginStep()
		q.BeginPass(known, rows)
		require.NoError(b, m.Stats(rows, &stats))
		require.NoError(b, m.Sample(rows[:8], &draw))
	}
}
