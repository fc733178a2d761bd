package encoders_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/model"
)

// chatFolder writes a ModernBERT with a tokenizer of single bytes and a chat template that the
// authors' program does not use.
func chatFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "packs",
		"modernbert-chat-tiny"))))
	specials := []string{"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"}
	vocab, added := map[string]int{}, []map[string]any{}
	for id, name := range specials {
		added = append(added, map[string]any{"id": id, "content": name, "special": true})
		vocab[name] = id
	}
	for c := '!'; c <= '~'; c++ {
		vocab[string(c)] = len(vocab)
	}
	vocab["Ċ"], vocab["Ġ"] = len(vocab), len(vocab)+1
	bytes := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	for name, v := range map[string]any{
		"tokenizer.json": map[string]any{"added_tokens": added, "pre_tokenizer": bytes, "decoder": bytes,
			"post_processor": map[string]any{"type": "TemplateProcessing", "single": []any{
				map[string]any{"SpecialToken": map[string]any{"id": "[CLS]", "type_id": 0}},
				map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}},
				map[string]any{"SpecialToken": map[string]any{"id": "[SEP]", "type_id": 0}}},
				"special_tokens": map[string]any{
					"[CLS]": map[string]any{"id": "[CLS]", "ids": []int{1}, "tokens": []string{"[CLS]"}},
					"[SEP]": map[string]any{"id": "[SEP]", "ids": []int{2}, "tokens": []string{"[SEP]"}}}},
			"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}},
		"tokenizer_config.json": map[string]any{"mask_token": "[MASK]", "pad_token": "[PAD]",
			"chat_template": "{{ messages[0].content }}[/Answer]"},
	} {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

// BERT-Chat's conversations have the template of its authors' program and nothing around them; its
// padding and the mark after an answer end one.
func TestChatOfAnEncoder(t *testing.T) {
	m, err := unmask.Load(context.Background(), chatFolder(t), unmask.Options{})
	require.NoError(t, err)
	require.Equal(t, "semi-ar(low-confidence) schedule=dllm steps=128", m.Recipe)
	require.Equal(t, []int32{3}, m.Spec().EndTokens)
	c, err := m.Chat()
	require.NoError(t, err)
	require.Equal(t, []string{"[/Answer]"}, c.StopTexts())

	q, err := m.Prepare(context.Background(), unmask.Request{Messages: json.RawMessage(
		`[{"role":"system","content":" Be brief. "},{"role":"user","content":"Who?"},
		{"role":"assistant","content":"I."},{"role":"user","content":"Why?\n"}]`)})
	require.NoError(t, err)
	from := len(q.Known) - unmask.ReplyLength
	for at, id := range q.Known {
		require.Equal(t, at >= from, id == m.Spec().Mask)
	}
	require.Equal(t, "[SYS]\nBe brief.\n[/SYS]\n\n[Question]\nWho?\n[/Question]\n\n[Answer]\nI.\n"+
		"[/Answer]\n\n[Question]\nWhy?\n[/Question]\n\n[Answer]\n", m.Text.Decode(q.Known[:from]))

	// Scoring has the same sequence, and the tokens around a text for a prompt.
	asked := unmask.Request{Messages: json.RawMessage(`[{"role":"user","content":"Who?"}]`)}
	q, err = m.Prepare(context.Background(), asked)
	require.NoError(t, err)
	tokens, first, to, err := m.TokensWithAnswer(t.Context(), asked, "Me", nil)
	require.NoError(t, err)
	require.Equal(t, q.Known[:first], tokens[:first])
	require.Equal(t, "Me", m.Text.Decode(tokens[first:to]))
	require.Len(t, tokens, to)
	tokens, first, to, err = m.TokensWithAnswer(t.Context(), unmask.Request{Prompt: "Who?"}, "Me", nil)
	require.NoError(t, err)
	require.Equal(t, m.Spec().BeforeText, tokens[:1])
	require.Equal(t, "Me", m.Text.Decode(tokens[first:to]))
	require.Equal(t, m.Spec().AfterText, tokens[to:])

	plain, err := unmask.Load(context.Background(), chatFolder(t), unmask.Options{As: "modernbert"})
	require.NoError(t, err)
	require.Empty(t, plain.Recipe)
	require.Empty(t, plain.Spec().EndTokens)
}

// Of its special tokens BERT-Chat never draws the mask alone; a ModernBERT draws none of them.
func TestSpecialTokensOfAnEncoder(t *testing.T) {
	for kind, drawn := range map[string]bool{"modernbert-chat": true, "modernbert": false} {
		m, err := unmask.Load(t.Context(), chatFolder(t), unmask.Options{As: kind})
		require.NoError(t, err)
		mask := m.Spec().Mask
		marginals, err := m.Denoiser.Forward(t.Context(), &model.Batch{Size: 1, Length: 4,
			Tokens: []int32{1, mask, mask, 2}})
		require.NoError(t, err)
		err = marginals.Visit([]int32{1, 2}, func(_ int, logits []float32) {
			for _, special := range []int32{0, 1, 2, 3} { // [UNK], [CLS], [SEP], [PAD]
				require.Equal(t, drawn, !math.IsInf(float64(logits[special]), -1), "%s %d", kind, special)
			}
			require.True(t, math.IsInf(float64(logits[mask]), -1))
			require.False(t, math.IsInf(float64(logits[5]), -1))
		})
		require.NoError(t, err)
	}
}
