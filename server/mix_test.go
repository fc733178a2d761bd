package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
	"unmask/samplers"
	"unmask/server"
)

// mixed is one request of a mix, and the run that the command makes of it.
type mixed struct {
	path, body string
	model      string
	recipe     string
	run        generate.Options
	pictures   bool
}

// drawMixed draws a request.
func drawMixed(t testing.TB, r *rand.Rand, i int) mixed {
	m := loaded()["demo"]
	rules := []string{"hybrid", "moment", "halton", "maskgit", "vanilla", "eb(margin)",
		"semi-ar(moment)",
		"remdm", "klass", "temp"}
	rule := rules[r.IntN(len(rules))]
	steps, seed, n, first := 2+r.IntN(4), r.Uint64(), 1+r.IntN(3), r.IntN(5)
	x := mixed{model: "demo", recipe: fmt.Sprintf("%s steps=%d", rule, steps)}
	fields := fmt.Sprintf(`"sampler":%q,"steps":%d,"seed":%d,"n":%d,"first":%d`, rule, steps, seed,
		n, first)
	parsed, err := samplers.Parse(rule)
	require.NoError(t, err)
	uncached := samplers.CacheRefusal(parsed) != ""
	if cache := r.IntN(3); !uncached && cache > 0 {
		x.recipe += fmt.Sprintf(" cache=%d", cache)
		fields += fmt.Sprintf(`,"cache":%d`, cache)
	} else if !uncached {
		fields += `,"cache":0`
	}
	if r.IntN(4) == 0 && !uncached && rule != "remdm" && !strings.Contains(rule, "semi") {
		x.recipe += " reuse=dkv refresh=3"
		fields += `,"reuse":"dkv","refresh":3`
	}
	if r.IntN(3) == 0 {
		x.recipe += " temperature=0.7 top-k=9"
		fields += `,"temperature":0.7,"top_k":9`
	}
	if r.IntN(4) == 0 {
		fields += `,"priority":"batch"`
	}
	fields += `,"schedule":"uniform"`
	x.run = generate.Options{Request: generate.Request{Seed: seed, Index: uint32(first)}, N: n}
	switch r.IntN(8) {
	case 0, 1:
		length := 8 + r.IntN(20)
		text := "Lily had " + strings.Repeat(string(rune('a'+i%26)), 1+i/26)
		known := knownOf(t, m, unmask.Request{Prompt: text})
		given := 0
		for _, token := range known {
			if token != m.Spec().Mask {
				given++
			}
		}
		x.run.Known = known[:given+length]
		x.path, x.body = "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"echo":true,%s}`,
			text,
			length, fields)
	case 2, 3, 4, 5:
		text := fmt.Sprintf("[%d] and [7] %c", 5+r.IntN(9), 'a'+i%26)
		x.run.Known, err = m.Text.Infill(text, 0)
		require.NoError(t, err)
		x.path, x.body = "/v1/infill", fmt.Sprintf(`{"text":%q,%s}`, text, fields)
	default:
		x.model, x.pictures = "demo-image", true
		x.recipe = fmt.Sprintf("%s steps=%d schedule=cosine", rules[:3][r.IntN(3)], steps)
		x.path, x.body = "/v1/images/generations", fmt.Sprintf(`{"prompt":"","codes":true,"sampler":%q,
			"cache":0,"steps":%d,"seed":%d,"n":%d,"first":%d}`, strings.Fields(x.recipe)[0], steps, seed, n, first)
		if r.IntN(2) == 0 {
			x.recipe += " guidance=2"
			c, err := loaded()["demo-image"].ClassCondition("night")
			require.NoError(t, err)
			x.run.Condition = c
			x.body = strings.Replace(x.body, "{", `{"class":"night","guidance":2,`, 1)
		}
	}
	return x
}

// want returns the library's texts or codes, without a server and on two threads.
func (x mixed) want(t testing.TB) (texts []string, codes [][]int32) {
	m := loaded()[x.model]
	r, err := generate.ParseRecipe(x.recipe)
	require.NoError(t, err)
	o := x.run
	o.Recipe = r
	o.Schedule = r.WithDefaults(m.Spec()).Schedule
	for step, err := range generate.Run(t.Context(), m.Denoiser, o) {
		require.NoError(t, err, x.recipe)
		if !step.Done {
			continue
		}
		for _, q := range step.Sequences {
			codes = append(codes, slices.Clone(q.Tokens))
			if m.Text != nil {
				texts = append(texts, m.Text.Decode(q.Tokens))
			}
		}
	}
	return texts, codes
}

// Whatever else the server does, whoever comes and goes, and on however many threads, an answer is
// the library's.
func TestMixes(t *testing.T) {
	for threads, requests := range map[int]int{1: 8, 2: 16, 5: 8} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			models := loaded()
			if threads != 2 {
				models = threaded(threads)
			}
			_, h := servingModels(t, server.Options{Rows: 200, Queue: 1000, Cache: 1}, models)
			checkMix(t, h.URL, requests, uint64(threads))
		})
	}
}

// checkMix sends requests, cancels some of them, and compares the answers.
func checkMix(t testing.TB, url string, requests int, seed uint64) {
	type result struct {
		mixed
		data []byte
	}
	var group sync.WaitGroup
	results := make(chan result, requests)
	draws := rand.New(rand.NewPCG(7, seed))
	for i := range requests {
		x := drawMixed(t, draws, i)
		leaves := draws.IntN(5) == 0
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if leaves {
				time.AfterFunc(time.Duration(i%30)*time.Millisecond, cancel)
			}
			r, err := http.NewRequestWithContext(ctx, "POST", url+x.path, strings.NewReader(x.body))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Content-Type", "application/json")
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				return // it left
			}
			defer a.Body.Close()
			if data, err := io.ReadAll(a.Body); err == nil {
				results <- result{x, data}
			}
		})
	}
	group.Wait()
	close(results)
	require.Greater(t, len(results), requests/2)
	for r := range results {
		texts, codes := r.want(t)
		got := read(t, r.data)
		require.Nil(t, got.Error, "%s: %s", r.body, r.data)
		if r.pictures {
			require.Equal(t, codes, got.Unmask.Codes, r.body)
			continue
		}
		require.Len(t, got.Choices, len(texts))
		for i, c := range got.Choices {
			require.Equal(t, texts[i], c.Text, r.body)
		}
	}
}

// chatting returns a server of the demo with a chat template.
func chatting(t testing.TB) (*unmask.Model, string) { return chattingBy(t, plainTemplate) }

const plainTemplate = "{% for m in messages %}The {{ m.role }}. {{ m.content }}\n{% endfor %}The answer. "

// chattingBy serves the demo's model with a chat template.
func chattingBy(t testing.TB, template string) (*unmask.Model, string) {
	return serveTemplate(t, plainText(), template)
}

// serveTemplate serves a model of the demo with a chat template.
func serveTemplate(t testing.TB, of fs.FS, template string) (*unmask.Model, string) {
	files := fstest.MapFS{"chat_template.jinja": {Data: []byte(template)}}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(of, name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	m, err := unmask.LoadFS(files, "chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "chat", Model: m}))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return m, h.URL + "/v1/chat/completions"
}

func TestChat(t *testing.T) {
	m, url := chatting(t)
	r := unmask.Request{Seed: 6, Overrides: unmask.Overrides{"steps": "5"}, Messages: json.RawMessage(
		`[{"role":"system","content":"You tell stories"},{"role":"user","content":"Lily had"}]`)}
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	of := m.AnswerOf(&r, &q)
	from, want := of.From, ""
	for step, err := range unmask.Generate(t.Context(), m, r, 1) {
		require.NoError(t, err)
		want = of.Render(step.Sequences[0].Tokens).Text
	}
	body := `{"messages":[{"role":"system","content":"You tell stories"},{"role":"user",
		"content":[{"type":"text","text":"Lily "},{"type":"text","text":"had"}]}],"seed":6,"steps":5`
	a := ask(t, url, body+`}`)
	require.Equal(t, "chat.completion", a.Object)
	require.Equal(t, want, a.Choices[0].Message.Content)
	require.Equal(t, from, a.Usage.Prompt)
	full := ask(t, url, body+`,"logit_bias":{"550":-100},"max_tokens":128}`) // no pads to count
	require.Equal(t, unmask.ReplyLength, full.Usage.Completion)
	require.Less(t, a.Usage.Completion, unmask.ReplyLength)
	events := stream(t, url, body+`,"stream":true}`)
	require.Equal(t, "[DONE]", events[len(events)-1].data)
	require.Contains(t, events[0].data, `"delta":{"role":"assistant"`)
	text := ""
	for _, e := range events[:len(events)-1] {
		text += read(t, []byte(e.data)).Choices[0].Delta.Content
	}
	require.Equal(t, want, text)
	require.Equal(t, 12, ask(t, url, body+`,"logit_bias":{"550":-100},
		"max_completion_tokens":12}`).Usage.Completion)
	logs := ask(t, url, body+`,"max_tokens":12,"logprobs":true,"top_logprobs":0}`)
	require.Len(t, logs.Choices, 1)
}

func TestBadChats(t *testing.T) {
	_, url := chatting(t)
	user := `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []refusal{
		{`{}`, 400, "missing", "messages", "messages is missing"},
		{`{"messages":[]}`, 400, "out_of_range", "messages", "messages is a list of 0, want 1 to 1024"},
		{`{"messages":"Hi"}`, 400, "wrong_type", "messages", "messages is a text"},
		{`{"messages":[{"role":"robot","content":"Hi"}]}`, 400, "out_of_range", "messages[0].role",
			`role is "robot", want system, user, assistant or tool`},
		{`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`, 400,
			"unsupported_parameter", "messages[0].content", `part of type "input_audio", want text`},
		{`{"messages":[{"role":"user"}]}`, 400, "missing", "messages[0].content", "content is missing"},
		{`{"messages":[7]}`, 400, "wrong_type", "messages[0]", "messages[0] is 7"},
		{`{` + user + `,"top_logprobs":3}`, 400, "out_of_range", "top_logprobs",
			"top_logprobs is 3, want 0, or logprobs true"},
		{`{` + user + `,"logprobs":true,"top_logprobs":21}`, 400, "out_of_range", "top_logprobs",
			"want 0 to 20"},
		{`{` + user + `,"prompt":"A"}`, 400, "unknown_parameter", "prompt", "unknown field"},
		{`{` + user + `,"tool_choice":"required"}`, 400, "unsupported_parameter", "tool_choice",
			"want tools"},
		{`{"messages":[{"role":"user","content":"Hi","name":"Ann"}]}`, 400, "unsupported_parameter",
			"messages[0].name", "want it left out"},
		{`{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 400) + `"}]}`, 400,
			"context_length_exceeded", "messages", "want at most 255"},
	} {
		c.check(t, url)
	}
	s, h := serving(t, server.Options{})
	url = h.URL + "/v1/chat/completions"
	refusal{`{` + user + `}`, 400, "no_chat_template", "model", "use /v1/completions"}.check(t, url)
	require.NoError(t, s.Add(server.Model{Name: "llada", Model: chatModel(t, "llada")}))
	require.Equal(t, "llada", ask(t, url, `{`+user+`,"max_tokens":4}`).Model)
	refusal{`{"model":"none",` + user + `}`, 404, "model_not_found", "model",
		`model "none" is not served for this, want llada`}.check(t, url)
	refusal{`{"model":"demo",` + user + `}`, 400, "no_chat_template", "model",
		"use /v1/completions"}.check(t, url)
}
