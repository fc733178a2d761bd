package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/constrain"
	"unmask/server"
)

// post returns the status and the body of a request.
func postText(t *testing.T, url, body string) (int, string) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	var out json.RawMessage
	require.NoError(t, json.NewDecoder(r.Body).Decode(&out))
	return r.StatusCode, string(out)
}

func TestStructuredCompletions(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}))
	h := httptest.NewServer(s.Handler())
	defer s.Close()
	defer h.Close()
	const schema = `{"type": "object", "properties": {"age": {"type": "integer"}, "happy":
		{"type": "boolean"}}, "required": ["age", "happy"], "additionalProperties": false}`
	for _, field := range []string{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ` + schema + `}}`,
		`"response_format": {"type": "json_object", "schema": ` + schema + `}`, // as llama.cpp
		`"structured_outputs": {"json": ` + schema + `}`, `"guided_json": ` + schema,
	} {
		status, body := postText(t, h.URL+"/v1/completions",
			`{"prompt": "Lily", "max_tokens": 48, "seed": 3, `+field+`}`)
		require.Equal(t, 200, status, body)
		var got struct {
			Choices []struct {
				Text   string
				Finish string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Equal(t, "stop", got.Choices[0].Finish) // clients take length for half an object
		var value struct {
			Age   *int
			Happy *bool
		}
		require.NoError(t, json.Unmarshal([]byte(got.Choices[0].Text), &value), body)
		require.True(t, value.Age != nil && value.Happy != nil, body)
	}
	status, body := postText(t, h.URL+"/v1/completions",
		`{"prompt": "Lily was a", "max_tokens": 8, "guided_choice": [" girl", " boy"]}`)
	require.Equal(t, 200, status, body)
	require.Regexp(t, `"text": ?" (girl|boy)"`, body)
	var told struct {
		Choices []struct {
			Choices []struct {
				Text        string
				Probability float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	each := told.Choices[0].Choices
	require.Equal(t, " girl", each[0].Text)
	require.Equal(t, " boy", each[1].Text)
	require.InDelta(t, 1, each[0].Probability+each[1].Probability, 1e-9)
	require.Greater(t, min(each[0].Probability, each[1].Probability), 0.0)
}

// What cannot be is refused before any pass, with one line that names the client's field.
func TestGrammarsRefused(t *testing.T) {
	g, _, h := gated(t, server.Options{})
	for _, c := range []struct{ path, fields, param, message string }{
		{"completions", `"guided_json": {"unevaluatedItems": false}`, "guided_json",
			"guided_json is unevaluatedItems at #"},
		{"completions", `"response_format": {"type": "json_schema", "json_schema":
			{"schema": {"type": "integer", "enum": [""]}}}`, "response_format",
			"response_format: the schema allows no value"},
		{"completions", `"schema": {"type": "string", "minLength": 3000000}`, "schema",
			"states is more than 32768"},
		{"completions", `"guided_regex": "("`, "guided_regex", "guided_regex is "},
		{"completions", `"structured_outputs": {"regex": "[ab]*a[ab]{16}"}`,
			"structured_outputs", "states is more than 32768"},
		{"completions", `"max_tokens": 8, "guided_regex": "[a-z]{90}"`, "max_tokens",
			"max_tokens is 8 tokens to fill, want"},
		{"completions", `"length": 8, "guided_regex": "[a-z]{90}"`, "length",
			" tokens to fill, want"},
		{"infill", `"text": "Lily was a[3] girl[2].", "guided_regex": "[a-z]+"`, "known text",
			"known text is against the grammar, want one that the grammar allows"},
		{"completions", `"guided_choice": []`, "guided_choice", "guided_choice is [], want texts"},
		{"completions", `"guided_choice": ["a"], "guided_regex": "a"`, "guided_choice",
			"want one of them"},
	} {
		if c.path == "completions" {
			c.fields += `, "prompt": "Lily"`
		}
		status, body := postText(t, h.URL+"/v1/"+c.path, `{`+c.fields+`}`)
		require.Equal(t, 400, status, "%s: %s", c.fields, body)
		var told struct {
			Error struct{ Message, Param string }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &told))
		require.Equal(t, c.param, told.Error.Param, body)
		require.Contains(t, told.Error.Message, c.message, c.fields)
		require.NotContains(t, told.Error.Message, "\n")
	}
	require.Empty(t, g.seen(), "passes")
}

// What a stream under a schema shows never changes: its parts together are the answer, and a
// validator finds the whole valid.
func TestStructuredStreams(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	const text = `{"type": "object", "properties": {"name": {"enum": ["Lily", "Ben"]}, "toys":
		{"type": "array", "items": {"enum": ["ball", "doll"]}, "minItems": 1, "maxItems": 3}, "age":
		{"type": "integer", "minimum": 2, "maximum": 9}}, "required": ["name", "toys", "age"],
		"additionalProperties": false}`
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("child.json", document))
	valid, err := c.Compile("child.json")
	require.NoError(t, err)
	for fields, least := range map[string]int{ // parts with text that a stream has at least
		`"sampler": "random", "steps": 24`:                       3,
		`"sampler": "moment", "steps": 16, "cache": 1`:           3,
		`"sampler": "semi-ar(block=8, confidence)", "steps": 16`: 3,
		`"sampler": "confidence", "steps": 8, "temperature": 0`:  2,
		`"sampler": "remdm", "steps": 16`:                        1, // may close what it opened
	} {
		body := `{"prompt": "Lily had a", "max_tokens": 64, "seed": 8, "guided_json": ` + text + `, ` +
			fields
		want := ask(t, url, body+`}`).Choices[0].Text
		got, parts := "", 0
		for _, e := range stream(t, url, body+`, "stream": true}`) {
			if e.data == "[DONE]" {
				break
			}
			part := read(t, []byte(e.data)).Choices[0].Text
			if got += part; part != "" {
				parts++
			}
			require.True(t, strings.HasPrefix(want, got), "%s: %q, then %q", fields, got, want)
		}
		require.Equal(t, want, got, fields)
		require.GreaterOrEqual(t, parts, least, fields)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
		require.NoError(t, err, "%s: %q", fields, got)
		require.NoError(t, valid.Validate(value), "%s: %q", fields, got)
	}
}

// Choices that differ in one token take one pass with every kind of published run, and their
// probabilities, which a stream has too, are those by which they are drawn.
func TestChoicesTakeOnePass(t *testing.T) {
	const published = "model.embed_tokens.weight"
	of := func(pack, embedding, head string) *unmask.Model {
		return familyModel(t, pack, chatFamily{pack, "dream.json", embedding, head, 480, 480, 464, 462,
			"{% for m in messages %}{{ m.content }}{% endfor %}", "<|endoftext|>"})
	}
	for name, m := range map[string]*unmask.Model{"demo": loaded()["demo"],
		"llada": chatModel(t, "llada"), "dream": chatModel(t, "dream"),
		"sdar":   of("sdar-tiny", published, "lm_head.weight"),
		"fast":   of("fast-dllm-v2-tiny", published, ""),
		"llada2": of("llada2-moe-tiny", "model.word_embeddings.weight", "lm_head.weight")} {
		s, err := server.New(server.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
		h := httptest.NewServer(s.Handler())
		for from := range 4 { // of a block
			body := `{"prompt": "a` + strings.Repeat(" b", from) + `", "max_tokens": 24, "seed": 3,
				"guided_choice": ["a", "b", "c"]`
			events := stream(t, h.URL+"/v1/completions", body+`, "stream": "events"}`)
			require.Len(t, events, 3, "%s: start, one step, done", name)
			var done, last struct {
				Choices []struct {
					Text    string
					Choices []constrain.Choice
				}
			}
			require.NoError(t, json.Unmarshal([]byte(events[2].data), &done))
			require.Regexp(t, "^[abc]$", done.Choices[0].Text, name)
			sum := 0.0
			for _, c := range done.Choices[0].Choices {
				sum += c.Probability
			}
			require.InDelta(t, 1, sum, 1e-9, name)
			events = stream(t, h.URL+"/v1/completions", body+`, "stream": true}`)
			require.NoError(t, json.Unmarshal([]byte(events[len(events)-2].data), &last))
			require.Equal(t, done.Choices[0].Choices, last.Choices[0].Choices, name)
		}
		h.Close()
		s.Close()
	}
}

// Spaces that stand for a missing end are not sent, those of the grammar are, in streams too.
func TestSpacesOfTheGrammar(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	for regex, want := range map[string]string{`Lily\\.  \\n`: "Lily.  \n", `Lily\\.( a)?`: "Lily."} {
		body := `{"prompt": "", "max_tokens": 16, "seed": 2, "sampler": "random", "steps": 8,
			"ban": [" a"], "guided_regex": "` + regex + `"`
		require.Equal(t, want, ask(t, url, body+`}`).Choices[0].Text)
		got := ""
		for _, e := range stream(t, url, body+`, "stream": true}`) {
			if e.data != "[DONE]" {
				got += read(t, []byte(e.data)).Choices[0].Text
			}
		}
		require.Equal(t, want, got)
	}
}

// Questions that are asked together share a pass, in one request as of several clients, and get the
// probabilities that they get alone.
func TestQuestionsShareAPass(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	url := h.URL + "/v1/completions"
	prompts := []string{`"Lily was a"`, `"Tom was a"`, `"One day a"`, `"The big"`, `"Ben saw a"`}
	question := func(prompt string) string {
		return `{"prompt": ` + prompt + `, "max_tokens": 8, "seed": 1,
			"guided_choice": [" girl", " boy", " cat"]}`
	}
	type answers struct {
		Choices []struct{ Choices []constrain.Choice }
	}
	status, body := postText(t, url, question("["+strings.Join(prompts, ",")+"]"))
	require.Equal(t, 200, status, body)
	var together answers
	require.NoError(t, json.Unmarshal([]byte(body), &together))
	require.Len(t, together.Choices, len(prompts))
	require.Len(t, g.seen(), 1, "passes of one request")
	require.Len(t, g.seen()[0], len(prompts))

	g.shut()
	clients := []<-chan refusalAnswer{later(t, url, question(prompts[0]))}
	g.stuck()
	for _, p := range prompts[1:] {
		clients = append(clients, later(t, url, question(p)))
	}
	queued(t, s, len(prompts)-1)
	g.unshut()
	for i, c := range clients {
		a := <-c
		require.Equal(t, 200, a.status, "%s", a.data)
		var alone answers
		require.NoError(t, json.Unmarshal(a.data, &alone))
		require.Len(t, alone.Choices[0].Choices, 3)
		require.Equal(t, together.Choices[i].Choices, alone.Choices[0].Choices, prompts[i])
	}
	require.Len(t, g.seen(), 3, "with the first client's pass and that of the four others")
	require.Len(t, g.seen()[2], len(prompts)-1)
}

// Models that decode from left to right, or change the length of a text, follow a grammar too;
// where a request wants their own run with it, it is refused before any pass.
func TestGrammarsOfAllModels(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-8b-tiny", "dreamon-tiny"} {
		m, err := unmask.LoadFS(os.DirFS("../testdata/packs/"+pack), pack,
			unmask.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.NoError(t, s.Add(server.Model{Name: pack, Model: m}))
	}
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	defer s.Close()
	defer h.Close()
	send := func(path, model, fields string) (int, string) {
		return postText(t, h.URL+"/v1/"+path, `{"model": "`+model+`", "seed": 1,
			"guided_regex": "(2[0-9] )+", `+fields+`}`)
	}
	for _, model := range []string{"nemotron-labs-tiny", "wedlm-8b-tiny", "dreamon-tiny"} {
		status, body := send("infill", model, `"text": "12[5]13"`)
		require.Equal(t, 200, status, body)
		require.Regexp(t, `"text": ?"(141 )?12 (2[0-9] ){5}13`, body)
	}
	for _, c := range [][3]string{{"completions", "nemotron-labs-tiny",
		`"prompt": "12", "max_tokens": 5, "reuse": "causal"`},
		{"completions", "wedlm-8b-tiny", `"prompt": "12", "max_tokens": 5, "preset": "hub"`},
		{"completions", "dreamon-tiny", `"prompt": "12", "suffix": "13", "max_tokens": 5`},
		{"infill", "dreamon-tiny", `"text": "12[?]13"`}} {
		status, body := send(c[0], c[1], c[2])
		require.Equal(t, 400, status, body)
		require.Contains(t, body, "guided_regex is given, want none with reuse causal, a window or")
	}
}
