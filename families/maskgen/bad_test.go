package maskgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestBadConfigs(t *testing.T) {
	parity.CheckRefused(t, parity.Open, "maskgen-tiny",
		[3]string{`"decoder_num_heads": 4`, `"decoder_num_heads": 5`,
			"decoder_num_heads is 5, want a divisor of the width 48"},
		[3]string{`"text_context_length": 11`, `"text_context_length": 100000`,
			"text_context_length is 100000, want 1 to 1024"},
		[3]string{`"sample_aesthetic_score": 6.5`, `"sample_aesthetic_score": -1`,
			"sample_aesthetic_score is -1, want more than 0"},
	)
}

func TestOtherPrompts(t *testing.T) {
	m, err := model.Load(parity.Open(t, "maskgen-tiny").Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	prompt := &model.Prompt{Rows: 77, Width: 32, States: make([]float32, 77*32),
		Pooled: make([]float32, 32)}
	_, err = m.Forward(t.Context(),
		&model.Batch{Size: 1, Length: 24, Tokens: make([]int32, 24),
			Conditions: []*model.Condition{{Prompt: prompt}}})
	require.ErrorContains(t, err,
		"the prompt of sequence 0 is 77 x 32 with 32 pooled numbers and 0 others, want 11 x 32")
}
