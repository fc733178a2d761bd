package judges

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/catalog"
	"unmask/demo"
)

// Ids of another vocabulary are refused; tokens that a text does not show are no difference.
func TestJudgeKnows(t *testing.T) {
	catalog.Embed("judge-that-knows", demo.Judge())
	judge, err := LoadTextJudge(t.Context(), "judge-that-knows",
		Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	tokens, _, err := judge.src.StartTokenizer("gpt2")()
	require.NoError(t, err)
	ids, err := tokens.Encode("Lily saw a dog.")
	require.NoError(t, err)
	line := func(ids []int32, text string) []byte {
		data, err := json.Marshal(map[string]any{"id": 0, "seed": 1, "ids": ids, "text": text})
		require.NoError(t, err)
		return data
	}
	require.NoError(t, judge.checkVocabulary(1024, tokens.Decode))
	require.NoError(t, judge.checkVocabulary(1024, func(ids []int32) string { // without one token
		return strings.ReplaceAll(tokens.Decode(ids), "dog", "cat")
	}))
	err = judge.checkVocabulary(33, func([]int32) string { return "L" })
	require.EqualError(t, err, `judge: token 16 is "1" in the judge's vocabulary and "L" in the `+
		`model's, want a judge with the model's vocabulary`)
	require.NoError(t, judge.checkLine(line(ids, "Lily saw a dog.")))
	require.NoError(t, judge.checkLine(line(append([]int32{0}, ids...), " Lily saw a dog.\n")))
	require.NoError(t, judge.checkLine(line(ids, "")))
	require.NoError(t, judge.checkLine([]byte("{")))
	require.ErrorContains(t, judge.checkLine(line([]int32{5, 6, 7}, "EVQ")),
		"want a judge with the model's vocabulary, or --mdlm to judge the text")
}
