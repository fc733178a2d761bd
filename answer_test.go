package unmask_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
)

// A prompt and its answer are tokenized as one text, and fill a sequence of fixed length with
// masks.
func TestAnswer(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	for _, c := range [][2]string{{"Lily was a brave", " girl."}, {"Lily was a bra", "ve girl."},
		{"", "Lily"}} {
		tokens, from, to, err := m.WithAnswer(unmask.Request{Prompt: c[0]}, c[1], nil)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(m.Text.Decode(tokens[:to]), c[0]+c[1]))
		require.Equal(t, c[1], m.Text.Decode(tokens[from:to]))
		require.Equal(t, len(tokens)-to, m.Spec().Masked(tokens))
	}
	q, err := m.Prepare(t.Context(), unmask.Request{Prompt: "Lily was a brave", Length: 40})
	require.NoError(t, err)
	tokens, from, _, err := m.WithAnswer(unmask.Request{Prompt: "Lily was a brave"}, " girl.", nil)
	require.NoError(t, err)
	require.Equal(t, q.Known[:from], tokens[:from]) // as a generation begins

	for want, r := range map[string]unmask.Request{
		"prompt and tokens together, want one of them": {Prompt: "a", Tokens: []int32{1}},
		"answer is 2 tokens, want 1 to 1":              {Tokens: make([]int32, m.Spec().Length()-2)},
		"the model has no chat template, want chat_template.jinja or tokenizer_config.json beside " +
			"its weights": {Messages: json.RawMessage(`[]`)},
	} {
		_, _, _, err := m.WithAnswer(r, " girl.", nil)
		require.EqualError(t, err, want)
	}
	_, _, _, err = m.WithAnswer(unmask.Request{Prompt: "a"}, "", nil)
	require.EqualError(t, err, "answer is 0 tokens, want 1 to 254")
}
