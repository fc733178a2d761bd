package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
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
		"tools": ` + twoTools + `, "tool_choice": `
	prompts := map[string]int{}
	for choice, names := range map[string]string{`"required"`: "find|wait",
		`{"type": "function", "function": {"name": "find"}}`: "find",
		`{"type": "function", "function": {"name": "wait"}}`: "wait"} {
		for _, seed := range []string{"1", "2"} {
			status, text := postText(t, url, body+choice+`, "seed": `+seed+`}`)
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
	}
	var a called
	status, text := postText(t, url, body+`"none"}`)
	require.Equal(t, 200, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	require.NotNil(t, a.Choices[0].Message.Content)
	require.Less(t, a.Usage.Prompt, prompts["tools"])
}

func TestToolCallStreams(t *testing.T) {
	_, url := chatting(t)
	body := `{"messages": [{"role": "user", "content": "Where is it?"}], "max_tokens": 48, "n": 2,
		"seed": 5, "tool_choice": "required", "tools": ` + twoTools
	_, text := postText(t, url, body+`}`)
	var whole called
	require.NoError(t, json.Unmarshal([]byte(text), &whole))
	for _, more := range []string{`, "stream": true}`,
		`, "stream": true, "stream_options": {"include_steps": true}}`} {
		events := stream(t, url, body+more)
		require.Equal(t, "[DONE]", events[len(events)-1].data)
		found := 0
		for _, e := range events[:len(events)-1] {
			var part called
			require.NoError(t, json.Unmarshal([]byte(e.data), &part))
			c := part.Choices[0]
			require.Nil(t, c.Delta.Content)
			if c.Finish == "" {
				require.Empty(t, c.Delta.ToolCalls)
				continue
			}
			require.Equal(t, "tool_calls", c.Finish)
			require.Equal(t, 0, *c.Delta.ToolCalls[0].Index)
			want := whole.Choices[c.Index]
			require.Equal(t, want.Message.ToolCalls[0].Function, c.Delta.ToolCalls[0].Function)
			found++
		}
		require.Equal(t, 2, found)
	}
}

func TestBadTools(t *testing.T) {
	_, url := chatting(t)
	one := `{"type":"function","function":{"name":"f"}}`
	for _, c := range []struct{ fields, code, param, message string }{
		{`"tools":[` + one + `]`, "unsupported_parameter", "tool_choice",
			`tool_choice is left out with tools, want "required", "none" or one function`},
		{`"tool_choice":"auto","tools":[` + one + `]`, "unsupported_parameter", "tool_choice",
			`tool_choice is "auto", want "required"`},
		{`"tool_choice":"required"`, "unsupported_parameter", "tool_choice", "without tools"},
		{`"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + one + `]`,
			"out_of_range", "tool_choice", `tool_choice is "g", want the name of one of tools`},
		{`"tool_choice":"required","tools":[` + one + `,` + one + `]`, "out_of_range",
			"tools[1].function", `tools[1]: function "f" is there twice`},
		{`"tool_choice":"required","tools":[{"type":"function"}]`, "missing", "tools[0].function",
			"function is missing"},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"a b"}}]`,
			"out_of_range", "tools[0].name", `name is "a b"`},
		{`"tool_choice":"required","tools":[7]`, "wrong_type", "tools[0].function", "function is 7"},
		{`"tool_choice":"required","tools":7`, "wrong_type", "tools", "tools is 7"},
		{`"tool_choice":"required","guided_regex":"a","tools":[` + one + `]`, "unsupported_parameter",
			"tool_choice", "beside another grammar"},
		{`"tool_choice":"required","stream":true,"diffusing":true,"tools":[` + one + `]`,
			"unsupported_parameter", "diffusing", "with tools"},
		{`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":
			{"unevaluatedItems":false}}}]`, "out_of_range", "schema", "unevaluatedItems at #/$defs/f"},
		{`"tool_choice":"required","max_tokens":2,"tools":[` + one + `]`, "out_of_range", "length",
			"tokens to fill, want"},
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
	spelt := ask(t, url, body(`[]`, `"find ball"`))
	require.Equal(t, spelt.Usage.Prompt, with.Usage.Prompt)
	require.Equal(t, spelt.Choices[0].Message.Content, with.Choices[0].Message.Content)
	refusal{body(`[`+call+`]`, `null`), 400, "unsupported_parameter", "messages",
		"the model's chat template leaves them out"}.check(t, plain)
	refusal{body(`[]`, `null`), 400, "missing", "messages[1].content",
		"content is missing"}.check(t, url)
	refusal{body(`[{"type": "function", "function": {"name": "find", "arguments": "{"}}]`, `null`), 400,
		"out_of_range", "messages[1].tool_calls", "arguments in JSON"}.check(t, url)
}
