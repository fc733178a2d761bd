package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/constrain"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/model"
)

// BenchmarkGrammarStep reports what a schema of 30 fields adds to a step at 128 masked positions
// and LLaDA's vocabulary, as a part of an int8 pass of LLaDA-8B over 256 rows. The pass is one of
// its products, scaled to its 32 layers; neither has the output head.
func BenchmarkGrammarStep(b *testing.B) {
	const layers = 32
	dev := cpu.New(cpu.Options{})
	w := dev.Pack(llamaMLP, llamaWidth, backend.Int8, func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = float32(i%7) - 3
		}
	})
	x, y := dev.New(llamaLength, llamaWidth), dev.New(llamaLength, llamaMLP)
	step := grammarStep(b)
	var pass, law time.Duration
	for b.Loop() {
		began := time.Now()
		dev.Linear(y, x, llamaLength, w, backend.Epilogue{})
		between := time.Now()
		require.NoError(b, step())
		pass += between.Sub(began)
		law += time.Since(between)
	}
	whole := pass.Seconds() * layers * llamaWeights / (llamaMLP * llamaWidth)
	b.ReportMetric(100*law.Seconds()/whole, "%-of-pass")
}

// grammarStep returns a step's law and draws at flat marginals.
func grammarStep(b *testing.B) func() error {
	const tokens, positions = 126_464, 128
	v := grammar.NewVocabulary(tokens, func(id int32) (string, bool) {
		if id < 256 {
			return string([]byte{byte(id)}), true
		}
		return fmt.Sprintf("%c%d", "abc \""[id%5], id), id < tokens-1
	})
	var fields []string
	for i := range 30 {
		kind := []string{`{"type": "string"}`, `{"type": "integer"}`, `{"enum": ["a", "b"]}`}[i%3]
		fields = append(fields, fmt.Sprintf(`"f%d": %s`, i, kind))
	}
	s, err := schema.Compile(fmt.Appendf(nil, `{"type": "object", "additionalProperties": false,
		"properties": {%s}}`, strings.Join(fields, ", ")), schema.Options{})
	require.NoError(b, err)
	end := []int32{tokens - 1}
	a, err := s.Tokens(v, grammar.TokenOptions{EndTokens: end, FillTokens: end})
	require.NoError(b, err)
	q := &constrain.Sequence{Language: &constrain.Language{Tokens: a, EndPosition: positions},
		Mask: tokens}
	known, rows := make([]int32, positions), make([]int32, positions)
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
	return func() error {
		q.BeginStep()
		q.BeginPass(known, rows)
		if err := m.Stats(rows, &stats); err != nil {
			return err
		}
		return m.Sample(rows[:8], &draw)
	}
}
