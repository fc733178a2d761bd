package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo"
)

// twoTools are functions of which one's schema refers to itself.
const twoTools = `[{"type": "function", "function": {"name": "find", "description": "finds a toy",
	"strict": true, "parameters": {"type": "object", "properties": {"toy": {"$ref": "#/$defs/toy"}},
	"required": ["toy"], "additionalProperties": false, "$defs": {"toy": {"enum": ["ball", "doll"]}}}}},
	{"type": "function", "function": {"name": "wait"}}]`

// called is an answer, or a chunk of its stream, with a call.
type called struct {
	Choices []struct {
		Index          int
		Message, Delta struct {
			Role      string
			Content   *string
			ToolCalls []struct {
				Index    *int
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	}
}

func TestToolCalls(t *testing.T) {
	_, url := chattingBy(t, "{% if tools %}{{ tools | length }} toys. {% endif %}"+plainTemplate)
	body := `{"messages": [{"role": "user", "content": "Where is it?"}], "max_tokens": 48, "n": 4,
		"sampler": "moment", "steps": 8, "tools": ` + twoTools + `, "tool_choice": `
	prompts := map[string]int{}
	for choice, names := range map[string]string{`"required"`: "find|wait",
		`{"type": "function", "function": {"name": "find"}}`: "find",
		`{"type": "function", "function": {"name": "wait"}}`: "wait"} {
		status, text := postText(t, url, body+choice+`, "seed": 1}`)
		require.Equal(t, 200, status, text)
		require.Contains(t, text, `"content":null`)
		var a called
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		prompts["tools"] = a.Usage.Prompt
		ids := map[string]bool{}
		for _, c := range a.Choices {
			require.Equal(t, "tool_calls", c.Finish)
			require.Len(t, c.Message.ToolCalls, 1, text)
			call := c.Message.ToolCalls[0]
			ids[call.ID] = true
			require.Equal(t, "function", call.Type)
			require.Regexp(t, "^("+names+")$", call.Function.Name)
			if call.Function.Name == "find" {
				require.Regexp(t, `^\{"toy": "(ball|doll)"\}$`, call.Function.Arguments)
			} else {
				require.Equal(t, "{}", call.Function.Arguments)
			}
		}
		require.Len(t, ids, 4)
	}
	var a called
	status, text := postText(t, url, body+`"none"}`)
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	require.NotNil(t, a.Choices[0].Message.Content)
	require.Less(t, a.Usage.Prompt, prompts["tools"])
}

// spelling is a chat template that shows functions and spells calls, and its model's own marks.
const spelling = `{% if tools %}{{ tools | length }} toys. {% endif %}{% for m in messages %}` +
	`{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}{% for c in m.tool_calls %}` +
	`{"{{ c.function.name }}": {{ c.function.arguments | tojson }}}{{ '\n' }}{% endfor %}<|end|>` +
	`{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}` +
	`{% if add_generation_prompt %}<|assistant|>{% endif %}`

// answering returns the demo that answers, with a template that spells calls.
func answering(t *testing.T) string {
	_, url := serveTemplate(t, demo.Chat(), spelling)
	return url
}

// Where the template spells calls, the model chooses between text and calls, of which there may be
// several.
func TestToolChoiceAuto(t *testing.T) {
	url := answering(t)
	body := `{"messages": [{"role": "user", "content": "Tell me about Lily."}], "max_tokens": 64,
		"seed": 4, "n": 2, "sampler": "moment", "steps": 16, "tools": ` + twoTools
	var a called
	status, text := postText(t, url, body+`}`)
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	for _, c := range a.Choices { // these answers are stories
		require.Empty(t, c.Message.ToolCalls)
		require.NotNil(t, c.Message.Content)
		require.NotContains(t, *c.Message.Content, `{"`)
	}
	const likely = `, "bias": ["{\"=400"]` // what a call begins with is all but certain
	many := 0
	for more, most := range map[string]int{``: 64, `, "parallel_tool_calls": false`: 1,
		`, "tool_choice": "required"`:                                         64,
		`, "tool_choice": {"type": "function", "function": {"name": "find"}}`: 1} {
		status, text = postText(t, url, body+likely+more+`}`)
		require.Equal(t, 200, status, text)
		a = called{}
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		for _, c := range a.Choices {
			calls := c.Message.ToolCalls
			require.Equal(t, "tool_calls", c.Finish, text)
			require.LessOrEqual(t, len(calls), most)
			many = max(many, len(calls))
			for _, call := range calls {
				if call.Function.Name == "find" {
					require.Regexp(t, `^\{"toy": "(ball|doll)"\}$`, call.Function.Arguments)
				} else {
					require.Equal(t, "wait{}", call.Function.Name+call.Function.Arguments)
				}
			}
		}
	}
	require.Greater(t, many, 1)
}

// The parts of a stream together are the answer, and come as the call settles.
func TestToolCallStreams(t *testing.T) {
	url := answering(t)
	body := `{"messages": [{"role": "user", "content": "Where is it?"}], "max_tokens": 64, "n": 2,
		"seed": 5, "sampler": "random", "steps": 16, "tools": ` + twoTools
	parts := 0
	for _, choice := range []string{`, "tool_choice": "required"`, `, "bias": ["{\"=400"]`, ``} {
		_, text := postText(t, url, body+choice+`}`)
		var whole called
		require.NoError(t, json.Unmarshal([]byte(text), &whole))
		for _, more := range []string{`, "stream": true}`,
			`, "stream": true, "stream_options": {"include_steps": true}}`} {
			events := stream(t, url, body+choice+more)
			require.Equal(t, "[DONE]", events[len(events)-1].data)
			got := make([]called, 2)
			content := make([]string, 2)
			for _, e := range events[:len(events)-1] {
				var part called
				require.NoError(t, json.Unmarshal([]byte(e.data), &part))
				c := part.Choices[0]
				if c.Delta.Content != nil {
					content[c.Index] += *c.Delta.Content
				}
				of := &got[c.Index]
				if of.Choices == nil {
					of.Choices = part.Choices
					of.Choices[0].Message.ToolCalls = nil
				}
				sum := &of.Choices[0]
				for _, one := range c.Delta.ToolCalls {
					if parts++; one.ID != "" {
						require.Len(t, sum.Message.ToolCalls, *one.Index)
						one.Index = nil
						sum.Message.ToolCalls = append(sum.Message.ToolCalls, one)
						continue
					}
					sum.Message.ToolCalls[*one.Index].Function.Arguments += one.Function.Arguments
				}
				sum.Finish = c.Finish
			}
			for i, want := range whole.Choices {
				require.Equal(t, want.Message.ToolCalls, got[i].Choices[0].Message.ToolCalls)
				require.Equal(t, want.Finish, got[i].Choices[0].Finish)
				if want.Message.Content != nil {
					require.Equal(t, *want.Message.Content, content[i])
				} else {
					require.Empty(t, content[i])
				}
			}
		}
	}
	require.Greater(t, parts, 12, "calls come in parts")
}

func TestBadTools(t *testing.T) {
	_, url := chatting(t)
	one := `{"type":"function","function":{"name":"f"}}`
	for _, c := range []struct{ fields, code, param, message string }{
		{`"tools":[` + one + `]`, "unsupported_parameter", "tool_choice",
			"the model's chat template has no place for functions and calls"},
		{`"tool_choice":"auto","tools":[` + one + `]`, "unsupported_parameter", "tool_choice",
			`tool_choice is "auto", want "required", "none" or one function`},
		{`"tool_choice":"required","parallel_tool_calls":3,"tools":[` + one + `]`, "wrong_type",
			"parallel_tool_calls", "parallel_tool_calls is 3, want true or false"},
		{`"tool_choice":"required"`, "unsupported_parameter", "tool_choice", "without tools"},
		{`"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + one + `]`,
			"out_of_range", "tool_choice", `tool_choice is "g", want the name of one of tools`},
		{`"tool_choice":"required","tools":[` + one + `,` + one + `]`, "out_of_range",
			"tools[1].function.name", `tools[1]: function: name "f" is there twice`},
		{`"tool_choice":"required","tools":[{"type":"function"}]`, "missing", "tools[0].function",
			"function is missing"},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"a b"}}]`,
			"out_of_range", "tools[0].function.name", `name is "a b"`},
		{`"tool_choice":"required","tools":[7]`, "wrong_type", "tools[0]", "tools[0] is 7"},
		{`"tool_choice":"required","tools":7`, "wrong_type", "tools", "tools is 7"},
		{`"tool_choice":"required","guided_regex":"a","tools":[` + one + `]`, "unsupported_parameter",
			"tool_choice", "beside another grammar"},
		{`"tool_choice":"required","stream":true,"diffusing":true,"tools":[` + one + `]`,
			"unsupported_parameter", "diffusing", "with tools"},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":
			{"unevaluatedItems":false}}}]`, "out_of_range", "tools", "tools is f's unevaluatedItems at #"},
		{`"tool_choice":"required","max_tokens":2,"tools":[` + one + `]`, "out_of_range", "max_tokens",
			"max_tokens is 2 tokens to fill, want"},
	} {
		refusal{`{"messages":[{"role":"user","content":"Hi"}],` + c.fields + `}`, 400, c.code, c.param,
			c.message}.check(t, url)
	}
}

// The result of a call goes on with the conversation, where the template has a place for calls.
func TestToolResults(t *testing.T) {
	const template = "{% for m in messages %}The {{ m.role }}. {{ m.content }}" +
		"{% for c in m.tool_calls %}{{ c.function.name }} {{ c.function.arguments.toy }}{% endfor %}\n" +
		"{% endfor %}The answer. "
	_, url := chattingBy(t, template)
	_, plain := chatting(t)
	const call = `{"id": "call_1", "type": "function", "function": {"name": "find", "arguments":
		"{\"toy\": \"ball\"}"}}`
	body := func(calls, content string) string {
		return `{"messages": [{"role": "user", "content": "Where is it?"}, {"role": "assistant",
			"content": ` + content + `, "tool_calls": ` + calls + `, "refusal": null}, {"role": "tool",
			"tool_call_id": "call_1", "content": "Under the bed."}], "max_tokens": 16, "seed": 2}`
	}
	with := ask(t, url, body(`[`+call+`]`, `null`))
	spelt := ask(t, url, strings.Replace(body(`[]`, `"find ball"`), `"tool_call_id": "call_1",`, "",
		1))
	require.Equal(t, spelt.Usage.Prompt, with.Usage.Prompt)
	require.Equal(t, spelt.Choices[0].Message.Content, with.Choices[0].Message.Content)
	refusal{body(`[`+call+`]`, `null`), 400, "unsupported_parameter", "messages",
		"the model's chat template leaves them out"}.check(t, plain)
	refusal{strings.Replace(body(`[]`, `null`), `"content": null`, `"name": null`, 1), 400, "missing",
		"messages[1].content", "content is missing"}.check(t, url)
	refusal{body(`[]`, `null`), 400, "out_of_range", "messages",
		`messages has a result of the call "call_1", want the call before it`}.check(t, url)
	refusal{body(`[{"type": "function", "function": {"name": "find", "arguments": "{"}}]`, `null`), 400,
		"out_of_range", "messages[1].tool_calls", "arguments in JSON"}.check(t, url)
}
