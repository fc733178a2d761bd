package titok_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestBadConfigs(t *testing.T) {
	parity.CheckRefused(t, parity.Open, "titok-bert-tiny",
		[3]string{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 48"},
		[3]string{`"num_attention_heads": 4`, `"num_attention_heads": -4`,
			"num_attention_heads is -4, want 1 to 1048576"},
		[3]string{`"num_attention_heads": 4`, `"num_attention_heads": 4.5`,
			"num_attention_heads is 4.5, want 1 to 1048576"},
		[3]string{`"condition_num_classes": 10`, `"condition_num_classes": 9`,
			"condition_num_classes is 9, want 10 as the embeddings have"},
		[3]string{`"model": {`, `"model": [`, "config.json: "},
	)
}

func TestBadBatches(t *testing.T) {
	p := parity.Open(t, "titok-bert-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	tokens := make([]int32, 24)
	for want, b := range map[string]*model.Batch{
		"length is 23, want 24": {Size: 1, Length: 23, Tokens: tokens[:23]},
		"class is 10, want 0 to 9": {Size: 1, Length: 24, Tokens: tokens,
			Conditions: []*model.Condition{{Class: 10}}},
		"there is a prompt, want none": {Size: 1, Length: 24, Tokens: tokens,
			Conditions: []*model.Condition{{Prompt: &model.Prompt{}}}},
		"a batch of 1 has 2 conditions": {Size: 1, Length: 24, Tokens: tokens,
			Conditions: make([]*model.Condition, 2)},
		"token 1 of sequence 0 is 61, want 0 to": {Size: 1, Length: 24,
			Tokens: append([]int32{0, 61}, tokens[2:]...)},
	} {
		_, err := m.Forward(context.Background(), b)
		require.ErrorContains(t, err, want)
	}
}
