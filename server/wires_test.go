package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// told is what an API says of an answer: its text, its calls as NAME ARGUMENTS, why it ended, and
// how many tokens it has.
type told struct {
	Text   string
	Calls  []string
	Finish string
	Tokens [2]int
}

// api is a route for conversations, with readers of what it answers.
type api struct {
	path   string
	body   func(chat map[string]any) map[string]any
	whole  func(t *testing.T, data []byte) told
	stream func(t *testing.T, url, body string) told
}

var apis = map[string]api{
	"chat":      {"/v1/chat/completions", maps.Clone[map[string]any], chatTold, chatStreamed},
	"responses": {"/v1/responses", responseBody, responseTold, responseStreamed},
	"messages":  {"/v1/messages", messageBody, messageTold, messageStreamed},
	"ollama":    {"/api/chat", ollamaBody, ollamaTold, ollamaStreamed},
}

// spaceless returns JSON as encoding/json writes it.
func spaceless(t *testing.T, data []byte) string {
	var v any
	require.NoError(t, json.Unmarshal(data, &v), "%s", data)
	return jsonOf(v)
}

func moved(body map[string]any, names map[string]string) map[string]any {
	out := map[string]any{}
	for name, value := range body {
		if to, ok := names[name]; ok {
			name = to
		}
		out[name] = value
	}
	return out
}

func functionOf(tool any) map[string]any {
	return maps.Clone(tool.(map[string]any)["function"].(map[string]any))
}

func chatTold(t *testing.T, data []byte) (a told) {
	var c called
	require.NoError(t, json.Unmarshal(data, &c))
	first := c.Choices[0]
	if first.Message.Content != nil {
		a.Text = *first.Message.Content
	}
	for _, one := range first.Message.ToolCalls {
		a.Calls = append(a.Calls, one.Function.Name+" "+spaceless(t, []byte(one.Function.Arguments)))
	}
	u := read(t, data).Usage
	a.Finish, a.Tokens = first.Finish, [2]int{u.Prompt, u.Completion}
	return a
}

func chatStreamed(t *testing.T, url, body string) (a told) {
	arguments := []string{}
	for _, e := range stream(t, url, strings.TrimSuffix(body, "}")+
		`,"stream":true,"stream_options":{"include_usage":true}}`) {
		var c called
		if e.data == "[DONE]" || json.Unmarshal([]byte(e.data), &c) != nil {
			continue
		}
		if u := read(t, []byte(e.data)).Usage; u != nil {
			a.Tokens = [2]int{u.Prompt, u.Completion}
			continue
		}
		d := c.Choices[0].Delta
		if d.Content != nil {
			a.Text += *d.Content
		}
		for _, one := range d.ToolCalls {
			if one.ID != "" {
				a.Calls, arguments = append(a.Calls, one.Function.Name), append(arguments, "")
			}
			arguments[*one.Index] += one.Function.Arguments
		}
		a.Finish = c.Choices[0].Finish
	}
	for i := range a.Calls {
		a.Calls[i] += " " + spaceless(t, []byte(arguments[i]))
	}
	return a
}

func responseBody(chat map[string]any) map[string]any {
	out := moved(chat, map[string]string{"messages": "input", "max_tokens": "max_output_tokens"})
	if tools, ok := chat["tools"].([]any); ok {
		flat := functionOf(tools[0])
		flat["type"] = "function"
		out["tools"] = []any{flat}
	}
	return out
}

func responseTold(t *testing.T, data []byte) (a told) {
	var r struct {
		Status string
		Output []struct {
			Type, Name, Arguments string
			Content               []struct{ Text string }
		}
		Usage struct {
			In  int `json:"input_tokens"`
			Out int `json:"output_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal(data, &r), "%s", data)
	for _, item := range r.Output {
		if item.Type == "message" {
			a.Text = item.Content[0].Text
			continue
		}
		a.Calls = append(a.Calls, item.Name+" "+spaceless(t, []byte(item.Arguments)))
	}
	a.Finish = map[string]string{"incomplete": "length", "completed": "stop"}[r.Status]
	if a.Calls != nil {
		a.Finish = "tool_calls"
	}
	a.Tokens = [2]int{r.Usage.In, r.Usage.Out}
	return a
}

// The deltas of a response's stream are its last event's response.
func responseStreamed(t *testing.T, url, body string) told {
	events := stream(t, url, strings.TrimSuffix(body, "}")+`,"stream":true}`)
	text, arguments, last := "", map[int]string{}, []byte(nil)
	for i, e := range events {
		var event struct {
			Type, Delta string
			Number      int `json:"sequence_number"`
			At          int `json:"output_index"`
			Response    json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(e.data), &event))
		require.Equal(t, e.name, event.Type)
		require.Equal(t, i, event.Number)
		switch event.Type {
		case "response.output_text.delta":
			text += event.Delta
		case "response.function_call_arguments.delta":
			arguments[event.At] += event.Delta
		}
		last = event.Response
	}
	a := responseTold(t, last)
	require.Equal(t, a.Text, text)
	require.Len(t, arguments, len(a.Calls))
	for k, at := range slices.Sorted(maps.Keys(arguments)) {
		require.Contains(t, a.Calls[k], spaceless(t, []byte(arguments[at])))
	}
	return a
}

func messageBody(chat map[string]any) map[string]any {
	out := moved(chat, map[string]string{"stop": "stop_sequences"})
	if tools, ok := chat["tools"].([]any); ok {
		f := functionOf(tools[0])
		out["tools"] = []any{moved(f, map[string]string{"parameters": "input_schema"})}
		out["tool_choice"] = map[string]any{"type": "any", "disable_parallel_tool_use": true}
		delete(out, "parallel_tool_calls")
	}
	return out
}

var messageFinish = map[string]string{"end_turn": "stop", "stop_sequence": "stop",
	"max_tokens": "length", "tool_use": "tool_calls"}

type messageParts struct {
	Content []struct {
		Type, Text, Name string
		Input            json.RawMessage
	}
	Stop  string `json:"stop_reason"`
	Usage struct {
		In  int `json:"input_tokens"`
		Out int `json:"output_tokens"`
	}
}

func messageTold(t *testing.T, data []byte) (a told) {
	var m messageParts
	require.NoError(t, json.Unmarshal(data, &m), "%s", data)
	for _, block := range m.Content {
		if block.Type == "text" {
			a.Text = block.Text
			continue
		}
		a.Calls = append(a.Calls, block.Name+" "+spaceless(t, block.Input))
	}
	a.Finish, a.Tokens = messageFinish[m.Stop], [2]int{m.Usage.In, m.Usage.Out}
	return a
}

func messageStreamed(t *testing.T, url, body string) (a told) {
	events := stream(t, url, strings.TrimSuffix(body, "}")+`,"stream":true}`)
	require.Equal(t, "message_start", events[0].name)
	require.Equal(t, "message_stop", events[len(events)-1].name)
	open, arguments := -1, ""
	for _, e := range events {
		var event struct {
			Type, Name string
			Index      int
			Block      struct{ Type, Name string } `json:"content_block"`
			Delta      struct {
				Type, Text string
				JSON       string `json:"partial_json"`
				Stop       string `json:"stop_reason"`
			}
			Usage struct {
				In  int `json:"input_tokens"`
				Out int `json:"output_tokens"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(e.data), &event))
		require.Equal(t, e.name, event.Type)
		switch e.name {
		case "content_block_start":
			require.Equal(t, -1, open)
			if open, arguments = event.Index, ""; event.Block.Type == "tool_use" {
				a.Calls = append(a.Calls, event.Block.Name)
			}
		case "content_block_delta":
			require.Equal(t, open, event.Index)
			a.Text, arguments = a.Text+event.Delta.Text, arguments+event.Delta.JSON
		case "content_block_stop":
			if open = -1; arguments != "" {
				a.Calls[len(a.Calls)-1] += " " + spaceless(t, []byte(arguments))
			}
		case "message_delta":
			a.Finish = messageFinish[event.Delta.Stop]
			a.Tokens = [2]int{event.Usage.In, event.Usage.Out}
		}
	}
	return a
}

// ollamaBody has the settings in options. Ollama cannot ask for a call.
func ollamaBody(chat map[string]any) map[string]any {
	if chat["tools"] != nil {
		return nil
	}
	options := moved(chat, map[string]string{"max_tokens": "num_predict"})
	out := map[string]any{"model": chat["model"], "messages": chat["messages"], "options": options,
		"stream": false}
	for name := range out {
		delete(options, name)
	}
	if schema := chat["schema"]; schema != nil {
		delete(options, "schema")
		out["format"] = schema
	}
	return out
}

type ollamaLine struct {
	Message struct{ Content string }
	Done    bool
	Reason  string `json:"done_reason"`
	In      int    `json:"prompt_eval_count"`
	Out     int    `json:"eval_count"`
}

func ollamaTold(t *testing.T, data []byte) told {
	var l ollamaLine
	require.NoError(t, json.Unmarshal(data, &l), "%s", data)
	require.True(t, l.Done)
	return told{Text: l.Message.Content, Finish: l.Reason, Tokens: [2]int{l.In, l.Out}}
}

func ollamaStreamed(t *testing.T, url, body string) (a told) {
	status, h, data := post(t, url, strings.Replace(body, `"stream":false`, `"stream":true`, 1))
	require.Equal(t, 200, status, "%s", data)
	require.Equal(t, "application/x-ndjson", h.Get("Content-Type"))
	for line := range strings.Lines(string(data)) {
		var l ollamaLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.Empty(t, a.Finish, "the last line is the only one that is done")
		a.Text += l.Message.Content
		if l.Done {
			a.Finish, a.Tokens = l.Reason, [2]int{l.In, l.Out}
		}
	}
	return a
}

// The same request shows the same by every API, as a whole and as a stream.
func TestAPIsShowTheSame(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	t.Cleanup(func() { h.Close(); s.Close() })
	talk, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	for name, m := range map[string]*unmask.Model{"demo-chat": talk, "caller": chatModel(t, "caller"),
		"sdar": familyModel(t, "sdar", blockFamilies["sdar"])} {
		t.Run(name, func(t *testing.T) {
			m.Name = name
			require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
			draw := rapid.Custom(func(t *rapid.T) unmask.Request { return drawShown(t, true) })
			seen := map[string]int{}
			for i := range 24 {
				r := draw.Example(i)
				if _, err := m.Prepare(t.Context(), r); err != nil {
					continue
				}
				_, request := httpRequest(t, m, r)
				var chat map[string]any
				d := json.NewDecoder(request.Body)
				d.UseNumber()
				require.NoError(t, d.Decode(&chat))
				sameTold(t, h.URL, chat, seen)
			}
			for api := range apis {
				require.Greater(t, seen[api], 5, api)
			}
			require.Positive(t, seen["calls"])
		})
	}
}

// sameTold compares what all APIs tell of a request for the chat.
func sameTold(t *testing.T, url string, chat map[string]any, seen map[string]int) {
	status, _, data := post(t, url+apis["chat"].path, jsonOf(chat))
	require.Equal(t, 200, status, "%s", data)
	want := chatTold(t, data)
	if want.Calls != nil {
		seen["calls"]++
	}
	for name, a := range apis {
		body := a.body(chat)
		if body == nil {
			continue
		}
		seen[name]++
		status, _, data := post(t, url+a.path, jsonOf(body))
		require.Equal(t, 200, status, "%s: %s: %s", name, jsonOf(body), data)
		require.Equal(t, want, a.whole(t, data), "%s: %s", name, jsonOf(body))
		require.Equal(t, want, a.stream(t, url+a.path, jsonOf(body)), "%s: %s", name, jsonOf(body))
	}
}

// A conversation goes on from a response that is kept, by its id and by the ids of its items.
func TestResponsesGoOn(t *testing.T) {
	h := httptest.NewServer(describedHandler(t, speller(t).Handler()))
	defer h.Close()
	url := h.URL + "/v1/responses"
	settings := `"seed":2,"max_output_tokens":40,"sampler":"moment","steps":8,"tools":[{"type":"function",
		"name":"find","parameters":{"enum":[{},{"toy":"ball"}]}}]`
	ask := func(more string) (id string, output []json.RawMessage, in int) {
		status, _, data := post(t, url, `{`+settings+`,`+more+`}`)
		require.Equal(t, 200, status, "%s", data)
		var r struct {
			ID     string
			Output []json.RawMessage
			Usage  struct {
				In int `json:"input_tokens"`
			}
		}
		require.NoError(t, json.Unmarshal(data, &r))
		return r.ID, r.Output, r.Usage.In
	}
	first, made, _ := ask(`"input":"Where is Tom?","instructions":"Be brief.","tool_choice":"required"`)
	var call struct {
		ID   string
		Call string `json:"call_id"`
	}
	require.NoError(t, json.Unmarshal(made[0], &call))
	result := `{"type":"function_call_output","call_id":"` + call.Call + `","output":"here"}`
	_, want, in := ask(`"tool_choice":"none","input":[{"role":"user","content":"Where is Tom?"},` +
		string(made[0]) + `,` + result + `]`)
	for _, more := range []string{`"previous_response_id":"` + first + `","input":[` + result + `]`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":"Where is Tom?"}]},
			{"type":"item_reference","id":"` + call.ID + `"},` + result + `]`} {
		_, got, n := ask(`"tool_choice":"none",` + more)
		require.Equal(t, in, n)
		text := func(list []json.RawMessage) string {
			before, _, _ := strings.Cut(string(list[0]), `"id"`)
			return before
		}
		require.Equal(t, text(want), text(got))
	}
	gone, _, _ := ask(`"input":"Who?","store":false`)
	status, _, data := get(t, url+"/"+first)
	require.Equal(t, 200, status, "%s", data)
	require.Contains(t, string(data), `"id":"`+first+`"`)
	require.Contains(t, string(data), call.Call)
	for _, none := range []string{gone, "resp_1", strings.TrimPrefix(first, "resp_")} {
		status, header, data := get(t, url+"/"+none)
		refusal{none, 404, "response_not_found", "response_id", "is not kept"}.compare(t, status, header,
			data)
	}
	status, _, data = get(t, url+"/"+first+"?stream=true")
	require.Equal(t, 400, status, "%s", data)
	for _, c := range []refusal{
		{`{"input":"And?","previous_response_id":"` + gone + `"}`, 400, "previous_response_not_found",
			"previous_response_id", "want a response that is still kept"},
		{`{"input":[{"type":"item_reference","id":"msg_1"}]}`, 400, "item_not_found", "input[0].id",
			"still kept"},
		{`{"input":[` + result + `]}`, 400, "out_of_range", "input", "want the call before it"},
		{`{"input":[]}`, 400, "out_of_range", "input", "input has 0 items, want 1 to 1024"},
		{`{}`, 400, "missing", "input", "input is missing"},
		{`{"input":"A","messages":[]}`, 400, "unknown_parameter", "messages", "unknown field"},
		{`{"input":"A","max_tokens":3,"max_output_tokens":3}`, 400, "unknown_parameter", "max_tokens",
			"did you mean max_output_tokens?"},
		{`{"input":"A","text":{"format":{"type":"json_schema","name":"a"}}}`, 400, "missing_parameter",
			"text.format", "has no json_schema.schema"},
		{`{"input":"A","tools":[{"type":"web_search"}]}`, 400, "out_of_range", "tools[0].type",
			`type is "web_search", want function`},
		{`{"input":[{"role":"tool","content":"A"}]}`, 400, "out_of_range", "input[0].role", "role is"},
		{`{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, 400,
			"unsupported_parameter", "input[0].content", `part of type "input_image"`},
		{`{"input":"A","background":true}`, 400, "unsupported_parameter", "background", "want false"},
		{`{"input":"A","n":2}`, 400, "out_of_range", "n", "n is 2, want 1"},
		{`{"input":"A","stream":true,"diffusing":true}`, 400, "unsupported_parameter", "stream",
			"want settled text alone"},
		{`{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{"}]}`, 400,
			"out_of_range", "input[0].arguments", "arguments in JSON"},
	} {
		c.check(t, url)
	}
}

// A system message that the model's chat template leaves out is told by every API, and only that.
func TestLeftOutSystemMessages(t *testing.T) {
	s := speller(t)
	talk, _ := serveTemplate(t, demo.Chat(),
		"{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}")
	require.NoError(t, s.Add(server.Model{Name: "talk", Model: talk}))
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	defer h.Close()
	const note = "the model's chat template leaves system messages out"
	asked := user("Hi.")
	told := append([]map[string]any{{"role": "system", "content": "Be brief."}}, asked...)
	for name, api := range apis {
		for _, c := range []struct {
			model    string
			messages []map[string]any
			want     string
		}{{"talk", told, note}, {"talk", asked, ""}, {"speller", told, ""}} {
			t.Run(name+" "+c.model+" "+c.want, func(t *testing.T) {
				body := api.body(map[string]any{"model": c.model, "messages": c.messages, "seed": 1,
					"max_tokens": 4, "steps": 1})
				for _, stream := range []bool{false, true} {
					body["stream"] = stream
					status, header, data := post(t, h.URL+api.path, jsonOf(body))
					require.Equal(t, 200, status, "%s", data)
					require.Equal(t, c.want, header.Get("Unmask-Note"))
					if name != "messages" || !stream { // whose events have no place for it
						require.Equal(t, c.want != "", strings.Contains(string(data), `"notes":["`+note+`"]`),
							"%s", data)
					}
				}
			})
		}
	}
}

// speller is a server of the demo that answers, with a template that spells calls.
func speller(t *testing.T) *server.Server {
	m, _ := serveTemplate(t, demo.Chat(), spelling)
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "speller", Model: m}))
	t.Cleanup(s.Close)
	return s
}

// Each API refuses in its own shape, also where there is no route, no key or no JSON.
func TestAPIFaults(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "ann:ann-secret\n"))
	require.NoError(t, err)
	_, h := serving(t, server.Options{Keys: keys})
	const key = "ann-secret"
	for _, c := range []struct{ path, body, key, want string }{
		{"/v1/messages", `{}`, "", `401 {"type":"error","error":{"message":"there is no key, want ` +
			`Authorization: Bearer KEY","type":"authentication_error","param":null,"code":"missing_api_key"}`},
		{"/v1/messages", `{`, key, `400 {"type":"error","error":{"message":"byte 1: `},
		{"/v1/messages/batches", `{}`, key, `404 {"type":"error","error":{"message":"there is no ` +
			`route \"/v1/messages/batches\"","type":"not_found_error"`},
		{"/v1/messages", `{"messages":[{"role":"user","content":"A"}]}`, key, `400 {"type":"error",` +
			`"error":{"message":"`},
		{"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"image"}]}]}`, key,
			`400 {"type":"error","error":{"message":"messages[0]: content[0]: type is \"image\"`},
		{"/v1/messages", `{"thinking":{"type":"enabled","budget_tokens":9}}`, key,
			`400 {"type":"error","error":{"message":"thinking: type is \"enabled\", want`},
		{"/api/chat", `{}`, "", `401 {"error":"there is no key`},
		{"/api/pull", `{}`, key, `404 {"error":"there is no route \"/api/pull\""}`},
		{"/api/chat", `{"model":"none"}`, key, `404 {"error":"no served model can answer this route"}`},
		{"/api/chat", `{"messages":[{"role":"user"}],"options":{"mirostat":2}}`, key,
			`400 {"error":"`},
		{"/api/chat", `{"options":{"max_tokens":3,"num_predict":3}}`, key,
			`400 {"error":"unknown field \"max_tokens\", did you mean num_predict?"}`},
		{"/api/show", `{"name":"none"}`, key, `404 {"error":"`},
		{"/api/tags", `{}`, key, `405 {"error":"the method is POST, want GET or HEAD"}`},
		{"/v1/responses", `{}`, "", `401 {"error":{"message":"there is no key`},
		{"/responses", `{}`, key, `404 {"error":{"message":` +
			`"there is no route \"/responses\", want /v1/responses"`},
	} {
		r := httptest.NewRequest("POST", h.URL+c.path, strings.NewReader(c.body))
		r.RequestURI = ""
		status, _, data := do(t, r, "Content-Type", "application/json", "X-Api-Key", c.key)
		require.Contains(t, fmt.Sprintf("%d %s", status, data), c.want, c.path+c.body)
	}
}

// Every route but the probes and the page needs a key.
func TestRoutesNeedKeys(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "ann:ann-secret\n"))
	require.NoError(t, err)
	s, h := serving(t, server.Options{Keys: keys})
	for _, route := range s.Routes() {
		method, path, _ := strings.Cut(route, " ")
		r := httptest.NewRequest(method, h.URL+path, strings.NewReader("{}"))
		r.RequestURI = ""
		status, _, _ := do(t, r, "Content-Type", "application/json")
		want := 401
		if slices.Contains([]string{"/healthz", "/readyz", "/health"}, path) {
			want = 200
		}
		require.Equal(t, want, status, route)
	}
}

// A client of lines that leaves its stream frees its place, and what comes meanwhile is a line.
func TestLinesBeat(t *testing.T) {
	g, s, h := gated(t, server.Options{})
	s.Hurry("beat", 50*time.Millisecond)
	g.shut()
	r, err := http.Post(h.URL+"/api/generate", "application/json", strings.NewReader(`{"prompt":"A"}`))
	require.NoError(t, err)
	lines := bufio.NewScanner(r.Body)
	for range 2 {
		require.True(t, lines.Scan())
		require.JSONEq(t, `{"message":{"role":"assistant","content":""},"response":"","done":false}`,
			lines.Text())
	}
	r.Body.Close()
	g.unshut()
	eventually(t, func() bool { return s.Watching() == 0 }, "nobody watches")
}

// A stream that fails on its way ends as each API's clients know it.
func TestAPIStreamsFail(t *testing.T) {
	for name, want := range map[string]string{
		"chat":      `data: {"error":{"message":`,
		"responses": "event: error\ndata: {\"code\":\"shutting_down\",\"error\":{\"message\":",
		"messages":  "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":",
		"ollama":    "}\n{\"error\":\"",
	} {
		t.Run(name, func(t *testing.T) {
			s := speller(t)
			h := httptest.NewServer(s.Handler())
			defer h.Close()
			body := apis[name].body(map[string]any{"model": "speller", "max_tokens": 150, "seed": 4,
				"steps": 150, "sampler": "semi-ar(random,block=1)", "cache": 0, "stream": true,
				"messages": user("Tell me about Lily.")})
			body["stream"] = true
			r, err := http.Post(h.URL+apis[name].path, "application/json",
				strings.NewReader(jsonOf(body)))
			require.NoError(t, err)
			defer r.Body.Close()
			first := make([]byte, 40)
			_, err = io.ReadFull(r.Body, first)
			require.NoError(t, err)
			go s.Close()
			rest, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, 200, r.StatusCode)
			require.Contains(t, string(first)+string(rest), want)
		})
	}
}
