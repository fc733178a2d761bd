package titok_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/internal/parity"
	"unmask/model"
)

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 48"},
		{`"num_attention_heads": 4`, `"num_attention_heads": -4`,
			"num_attention_heads is -4, want 1 to 1048576"},
		{`"num_attention_heads": 4`, `"num_attention_heads": 4.5`,
			"num_attention_heads is 4.5, want 1 to 1048576"},
		{`"condition_num_classes": 10`, `"condition_num_classes": 9`,
			"condition_num_classes is 9, want 10 as the embeddings have"},
		{`"model": {`, `"model": [`, "config.json: "},
	} {
		p := parity.Open(t, "titok-bert-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
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
