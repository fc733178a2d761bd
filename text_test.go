package unmask_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/model"
	"unmask/prompt"
	"unmask/testkit/refusal"
)

// loadDemos returns the embedded models on the plain device, which loads quickly and computes
// slowly.
func loadDemos(t testing.TB) (text, picture *unmask.Model) {
	o := unmask.Options{Backend: plain.New()}
	text, err := unmask.LoadFS(demo.Text(), "demo", o)
	require.NoError(t, err)
	picture, err = unmask.LoadFS(demo.Image(), "demo-image", o)
	require.NoError(t, err)
	return text, picture
}

func TestKindIsWhatTheNetworkSays(t *testing.T) {
	text, picture := loadDemos(t)
	require.Equal(t, model.KindText, text.Kind())
	require.NotNil(t, text.Text)
	require.Nil(t, text.Pictures)
	require.Equal(t, model.KindImage, picture.Kind())
	require.Nil(t, picture.Text)
	require.NotNil(t, picture.Pictures)
	own := unmask.NewModel(&model.Loaded{Denoiser: text.Denoiser}, text.Backend, nil)
	require.Equal(t, model.KindTokens, own.Kind())
	require.Nil(t, own.Text)
	require.Nil(t, own.Pictures)
}

func TestPrompt(t *testing.T) {
	m, _ := loadDemos(t)
	known, err := m.Text.Encode("To be,")
	require.NoError(t, err)
	prepare := func(r unmask.Request) ([]int32, error) {
		q, err := m.Prepare(t.Context(), r)
		return q.Known, err
	}
	tokens, err := prepare(unmask.Request{Prompt: "To be,", Length: 16})
	require.NoError(t, err)
	require.Len(t, tokens, 16+len(m.Spec().BeforeText))
	at := slices.Index(tokens, known[0])
	require.Equal(t, known, tokens[at:at+len(known)])
	require.Equal(t, 16-len(known), masked(tokens, m))
	_, err = prepare(unmask.Request{Prompt: "To be, or not", Length: 2})
	require.ErrorContains(t, err, "want at most 2")
	_, err = prepare(unmask.Request{Prompt: "x", Length: 100000})
	refusal.RequireText(t, err, "length is 100000,")
}

func TestInfill(t *testing.T) {
	m, _ := loadDemos(t)
	tokens, err := m.Text.Infill("To be, [20] that is", 0)
	require.NoError(t, err)
	require.Equal(t, 20, masked(tokens, m))
	require.Equal(t, "To be, "+strings.Repeat(prompt.Hole, 20)+" that is", m.Text.Decode(tokens))
	tokens, err = m.Text.Infill("To be, [20] that is", 64)
	require.NoError(t, err)
	require.Len(t, tokens, 64+len(m.Spec().BeforeText))
	for text, want := range map[string]string{
		"none": "no hole", "[0]": "hole is [0], want 1 to 255 tokens", "[200] [200]": "want at most 255",
	} {
		_, err := m.Text.Infill(text, 0)
		require.ErrorContains(t, err, want)
	}
}

// Holes that are longer than the model together take no memory: reading ends where there are too
// many.
func TestManyHoles(t *testing.T) {
	m, _ := loadDemos(t)
	text := strings.Repeat("[255]", 200_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := m.Text.Infill(text, 0)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "want at most 255")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
}

func masked(tokens []int32, m *unmask.Model) (n int) {
	for _, t := range tokens {
		if t == m.Spec().Mask {
			n++
		}
	}
	return n
}

func TestConstraints(t *testing.T) {
	text, picture := loadDemos(t)
	prepare := func(m *unmask.Model, length int, c prompt.Constraints) (generate.Request, error) {
		return m.Prepare(t.Context(), unmask.Request{Length: length, Constraints: c})
	}
	r, err := prepare(text, 0,
		prompt.Constraints{Ban: []string{"3,17", "the"}, Bias: []string{"5=2.5", "5=-1"}})
	require.NoError(t, err)
	the, err := text.Text.Encode("the")
	require.NoError(t, err)
	require.Equal(t, append([]int32{3, 17}, the...), r.Filter.Ban)
	require.Equal(t, map[int32]float32{5: 1.5}, r.Filter.Bias)
	r, err = prepare(text, 0, prompt.Constraints{Ban: slices.Repeat([]string{"5", "3"}, 200_000)})
	require.NoError(t, err)
	require.Equal(t, []int32{3, 5}, r.Filter.Ban) // each once, after no time

	r, err = prepare(text, 8, prompt.Constraints{MinLength: 4, End: "3"})
	require.NoError(t, err)
	logits := make([]float32, 9)
	begin := len(text.Spec().BeforeText)
	r.Adjust(begin+3, logits)
	require.Less(t, logits[3], float32(-1e30))
	clear(logits)
	r.Adjust(begin+4, logits)
	require.Zero(t, logits[3])

	for want, c := range map[string]prompt.Constraints{
		"ban: token is 5000, want 0 to":     {Ban: []string{"5000"}},
		"has no value, want TOKENS=VALUE":   {Bias: []string{"5"}},
		`is "x", want a number`:             {Bias: []string{"5=x"}},
		"min-length is 9, want 0 to 8":      {MinLength: 9, End: "3"},
		`end: "3,4" is 2 tokens, want one`:  {MinLength: 1, End: "3,4"},
		"min-length is -1":                  {MinLength: -1, End: "3"},
		`ban: tokens are "", want at least`: {Ban: []string{""}},
	} {
		_, err := prepare(text, 8, c)
		refusal.RequireText(t, err, want)
	}
	_, err = prepare(picture, 0, prompt.Constraints{Ban: []string{"x"}})
	refusal.RequireText(t, err, "want ids such as 3,17")
	_, err = prepare(picture, 0, prompt.Constraints{MinLength: 1})
	require.ErrorContains(t, err, "makes no text")
}

// Any text gives tokens that contain it, with the right number of masks for each hole, or a
// one-line error.
func FuzzInfill(f *testing.F) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Backend: plain.New()})
	require.NoError(f, err)
	f.Add("To be, [20] that is the question")
	f.Add("[1][2]\n[3]")
	f.Add("a [0] b")
	f.Add("[99999999999999999999] [-1] [1")
	f.Add("[[2]] \xff")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := m.Text.Infill(text, 0)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotZero(t, masked(tokens, m))
		shown := strings.ReplaceAll(m.Text.Decode(tokens), prompt.Hole, "")
		require.Equal(t, strings.ReplaceAll(regexp.MustCompile(`\[([0-9]+)\]`).ReplaceAllString(text, ""),
			prompt.Hole, ""), shown)
	})
}

// tokenizerFolder returns a pack's folder with a byte-level tokenizer: a is 4, b is 5, a blank 6
// and " b" 7. tokenizer_config.json and the post_processor are as given.
func tokenizerFolder(t *testing.T, pack, processor string, config map[string]any,
	settings map[string]any) fstest.MapFS {
	files := fstest.MapFS{}
	entries, err := os.ReadDir(filepath.Join("testdata", "packs", pack))
	require.NoError(t, err)
	for _, entry := range entries {
		name := entry.Name()
		if name != "config.json" && !strings.HasPrefix(name, "model") {
			continue
		}
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
			for _, r := range []unmask.Request{{Prompt: "a b", MaxTokens: 2},
				{Tokens: []int32{4, 7}, MaxTokens: 2}} {
				q, err := m.Prepare(t.Context(), r)
				require.NoError(t, err)
				a := m.AnswerOf(&r, &q)
				a.ShowPrompt()
				require.True(t, strings.HasPrefix(a.Render(q.Known).Text, "a b"), a.Render(q.Known).Text)
				require.Equal(t, "a", a.Render(q.Known).Tokens()[0].Bytes)
			}
			for prompt, answer := range map[string]string{"a": " b", "a ": "b"} {
				request := unmask.Request{Prompt: prompt}
				tokens, from, to, err := m.TokensWithAnswer(t.Context(), request, answer, nil)
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
	require.Equal(t, []string{"<|im_end|>"}, m.Text.SpecialSpellings("a<|im_end|> b<|im_end|>"))
	require.Empty(t, m.Text.SpecialSpellings("a b"))
	masked, err := unmask.LoadFS(tokenizerFolder(t, "sdar-tiny", "null", nil,
		map[string]any{"mask_token_id": 1}), "x", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"</s>"}, masked.Text.SpecialSpellings("a</s> b"),
		"the mask's own spelling")
	require.Equal(t, []string{prompt.Hole}, masked.Text.SpecialSpellings(prompt.Hole))
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
	var v prompt.Variables
	for _, text := range []string{"a=true", "b=3", "c=text", `d="3"`, "e=null", "f=1.5"} {
		require.NoError(t, v.Set(text))
	}
	require.Equal(t, prompt.Variables{"a": true, "b": 3, "c": "text", "d": "3", "e": nil,
		"f": "1.5"}, v)
	require.ErrorContains(t, v.Set("a"), "want NAME=VALUE")
}
