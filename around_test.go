package unmask_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
)

// tokenizerFolder returns a pack's folder with a byte-level tokenizer: a is 4, b is 5, a blank 6
// and " b" 7. tokenizer_config.json and the post_processor are as given.
func tokenizerFolder(t *testing.T, pack, processor string, config map[string]any,
	settings map[string]any) fstest.MapFS {
	files := fstest.MapFS{}
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join("testdata", "packs", pack, name))
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	var own map[string]any
	require.NoError(t, json.Unmarshal(files["config.json"].Data, &own))
	maps.Copy(own, settings)
	var added []string
	for id, text := range []string{"<s>", "</s>", "<|endoftext|>", "<|im_end|>"} {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":%q,"special":true,"single_word":false,`+
			`"lstrip":false,"rstrip":false,"normalized":false}`, id, text))
	}
	files["tokenizer.json"] = &fstest.MapFile{Data: []byte(`{"added_tokens":[` +
		strings.Join(added, ",") + `],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel",` +
		`"add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":` + processor +
		`,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"<s>":0,"</s>":1,` +
		`"<|endoftext|>":2,"<|im_end|>":3,"a":4,"b":5,"Ġ":6,"Ġb":7},"merges":["Ġ b"]}}`)}
	for name, value := range map[string]any{"config.json": own, "tokenizer_config.json": config} {
		data, err := json.Marshal(value)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

func template(parts ...string) string {
	var single []string
	for _, p := range parts {
		if p == "A" {
			single = append(single, `{"Sequence":{"id":"A","type_id":0}}`)
			continue
		}
		single = append(single, fmt.Sprintf(`{"SpecialToken":{"id":%q,"type_id":0}}`, p))
	}
	return `{"type":"TemplateProcessing","single":[` + strings.Join(single, ",") + `],"pair":[],` +
		`"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]},` +
		`"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}}`
}

// What stands around a text is what AutoTokenizer puts there, whatever the vocabulary has.
func TestAroundATextIsOfTheFiles(t *testing.T) {
	const mask = 150 // of the pack
	for _, c := range []struct {
		name, processor string
		first, last     []int32
	}{
		{"nothing", "null", nil, nil},
		{"a first token", template("<s>", "A"), []int32{0}, nil},
		{"two tokens", template("<s>", "A", "</s>"), []int32{0}, []int32{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := unmask.LoadFS(tokenizerFolder(t, "sdar-tiny", c.processor,
				map[string]any{"eos_token": "<|im_end|>"}, nil), c.name, unmask.Options{Threads: 1})
			require.NoError(t, err)
			around := func(ids ...int32) []int32 {
				return append(append(append([]int32{}, c.first...), ids...), c.last...)
			}
			for _, r := range []struct {
				name string
				r    unmask.Request
				want []int32
			}{
				{"a prompt", unmask.Request{Prompt: "a b", MaxTokens: 2},
					append(around(4, 7), mask, mask)},
				{"a prompt and a suffix", unmask.Request{Prompt: "a", Suffix: "b", MaxTokens: 2},
					around(4, mask, mask, 5)},
				{"a suffix", unmask.Request{Suffix: "b", MaxTokens: 1}, around(mask, 5)},
				{"holes", unmask.Request{Infill: "a[2]b"}, around(4, mask, mask, 5)},
				{"tokens", unmask.Request{Tokens: []int32{4}, MaxTokens: 1}, []int32{4, mask}},
			} {
				q, err := m.Prepare(t.Context(), r.r)
				require.NoError(t, err, r.name)
				require.Equal(t, r.want, q.Known, r.name)
			}
			for prompt, answer := range map[string]string{"a": " b", "a ": "b"} {
				tokens, from, to, err := m.WithAnswer(unmask.Request{Prompt: prompt}, answer, nil)
				require.NoError(t, err)
				require.Equal(t, around(4, 7), tokens)
				require.Equal(t, []int32{7}, tokens[from:to], "%q", prompt)
			}
			tokens, err := m.Text.Tokens("a b")
			require.NoError(t, err)
			require.Equal(t, around(4, 7), tokens)
			end, err := m.Text.End("")
			require.NoError(t, err)
			require.EqualValues(t, 3, end)
		})
	}
}

// Special tokens in a prompt are text, unless Special says that they are tokens.
func TestSpecialTokensOfAPrompt(t *testing.T) {
	m, err := unmask.LoadFS(tokenizerFolder(t, "sdar-tiny", "null", nil, nil), "x",
		unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"<|im_end|>"}, m.Text.Spellings("a<|im_end|> b<|im_end|>"))
	require.Empty(t, m.Text.Spellings("a b"))
	for _, r := range []unmask.Request{{Prompt: "a<s>", Suffix: "<s>", MaxTokens: 1, Special: true},
		{Infill: "a<s>[1]<s>", Special: true}} {
		q, err := m.Prepare(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, []int32{4, 0, 150, 0}, q.Known)
		r.Special = false
		_, err = m.Prepare(t.Context(), r)
		require.Error(t, err) // no other tokens spell it
	}
}

// dLLM's Qwens do not think unless they are told to.
func TestVariablesOfTheTemplate(t *testing.T) {
	const template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is " +
		"defined and not enable_thinking %} b{% endif %}"
	for kind, own := range map[string][]int32{"a2d-qwen3": {4, 7}, "sdar": {4}} {
		m, err := unmask.LoadFS(tokenizerFolder(t, "sdar-tiny", "null",
			map[string]any{"chat_template": template}, map[string]any{"model_type": kind}), kind,
			unmask.Options{Threads: 1})
		require.NoError(t, err)
		for line, want := range map[string][]int32{`{}`: own,
			`{"chat_template_kwargs":{"enable_thinking":true}}`:  {4},
			`{"chat_template_kwargs":{"enable_thinking":false}}`: {4, 7}} {
			r := unmask.Request{Messages: []byte(`[{"role":"user","content":"a"}]`), MaxTokens: 1}
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			q, err := m.Prepare(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, append(want, 150), q.Known, "%s %s", kind, line)
		}
	}
	var r unmask.Request
	for _, value := range []string{`1.5`, `[]`, `{}`} {
		err := json.Unmarshal([]byte(`{"chat_template_kwargs":{"x":`+value+`}}`), &r)
		require.ErrorContains(t, err, "want true, false, a text, a whole number or null")
	}
	var v unmask.Variables
	for _, text := range []string{"a=true", "b=3", "c=text", `d="3"`, "e=null", "f=1.5"} {
		require.NoError(t, v.Set(text))
	}
	require.Equal(t, unmask.Variables{"a": true, "b": 3, "c": "text", "d": "3", "e": nil,
		"f": "1.5"}, v)
	require.ErrorContains(t, v.Set("a"), "want NAME=VALUE")
}
