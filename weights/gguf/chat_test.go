package gguf

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// A folder and the GGUF file made from it have the same chat: facts of the tokenizer come from its
// files, also where config.json does not have them (LLaDA's bos_token).
func TestConvertedChat(t *testing.T) {
	const template = `{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}` +
		`{{ m.role }}: {{ m.content }}{{ eos_token }}{{ pad_token }}{% endfor %}`
	dream, err := os.ReadFile("../../tokenizers/testdata/dream.json")
	require.NoError(t, err)
	nemotron, err := os.ReadFile("../../testdata/packs/tokenizer-nemotron-labs-tiny/tokenizer.json")
	require.NoError(t, err)
	begins := func(file []byte, token string, id int) []byte { // with a post_processor
		var all map[string]any
		require.NoError(t, json.Unmarshal(file, &all))
		all["post_processor"] = object{"type": "TemplateProcessing", "pair": []object{},
			"single": []object{{"SpecialToken": object{"id": token, "type_id": 0}},
				{"Sequence": object{"id": "A", "type_id": 0}}}, "special_tokens": object{
				token: object{"id": token, "ids": []int{id}, "tokens": []string{token}}}}
		out, err := json.Marshal(all)
		require.NoError(t, err)
		return out
	}
	plain, err := tokenizers.Parse(tokenizer(t))
	require.NoError(t, err)
	first, ok := plain.Special("<|startoftext|>")
	require.True(t, ok)
	for _, c := range []struct {
		name          string
		file          []byte
		bos, eos, pad any
	}{
		{"LLaDA", tokenizer(t), "<|startoftext|>", "<|endoftext|>", "<|endoftext|>"},
		{"LLaDA with a first token", begins(tokenizer(t), "<|startoftext|>", int(first)),
			"<|startoftext|>", "<|endoftext|>", nil},
		{"Dream and WeDLM", dream, object{"content": "<|im_start|>"}, "<|im_end|>", nil},
		{"Nemotron", nemotron, "<s>", "</s>", "<SPECIAL_3>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := lladaFolder(t)
			config, err := json.Marshal(object{"chat_template": template, "bos_token": c.bos,
				"eos_token": c.eos, "pad_token": c.pad})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), c.file, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), config, 0o600))
			name := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, Convert(context.Background(), dir, name, "q8_0"))
			f, err := Open(name)
			require.NoError(t, err)
			defer f.Set.Close()
			var ids, around [2][]int32
			for i, files := range []fs.FS{os.DirFS(dir), f.CompanionFS()} {
				words, _, err := tokenizers.ParseFS(files)
				require.NoError(t, err)
				m, err := chat.ForModel(files, words, "")
				require.NoError(t, err)
				require.NoError(t, m.TryRender())
				ids[i], err = m.Encode([]chat.Message{{Role: "user", Content: "Hello"}}, chat.Options{})
				require.NoError(t, err)
				before, after := tokenizers.SurroundingTokens(words)
				around[i] = append(before, after...)
			}
			require.Equal(t, ids[0], ids[1])
			require.Equal(t, around[0], around[1])
		})
	}
}

// What no GGUF file can say of a post_processor is refused.
func TestConvertRefusesPostProcessors(t *testing.T) {
	for _, c := range []struct{ name, post, want string }{
		{"another token", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}},
			{"Sequence":{"id":"A"}}]}`, `puts ["<x>" "$"] around a text`},
		{"another kind", `{"type":"RobertaProcessing"}`, `type "RobertaProcessing"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f tokenizerFile
			require.NoError(t, json.Unmarshal([]byte(`{"post_processor":`+c.post+`}`), &f))
			_, err := f.aroundKeys("<s>", "</s>")
			require.ErrorContains(t, err, c.want)
		})
	}
}
