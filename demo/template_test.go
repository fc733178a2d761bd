package demo_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/tokenizers/chat"
)

// The template that the chat is trained for next spells calls in a form that is found in it, lists
// tools as demo/recipe/calls.py does, and takes those that leave parameters or a description out.
func TestTemplateOfNextTrainingHasCalls(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Chat(), name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	template, err := os.ReadFile("recipe/chat_template.jinja")
	require.NoError(t, err)
	files["chat_template.jinja"] = &fstest.MapFile{Data: template}
	m, err := unmask.LoadFS(files, "next", unmask.Options{})
	require.NoError(t, err)
	c, err := m.Chat()
	require.NoError(t, err)
	form, own := c.CallForm()
	require.True(t, own)
	require.Equal(t, chat.CallForm{BeforeName: "Call: ", BeforeArguments: " ",
		BeforeNextName: "\nCall: "}, form)

	const messages = `[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
		{"role": "assistant", "content": null, "tool_calls": [{"type": "function",
			"function": {"name": "roll", "arguments": {"n": 6, "on": "a"}}}]},
		{"role": "tool", "content": "4"}]`
	const tools = `[{"type": "function", "function": {"name": "now"}},
		{"type": "function", "function": {"name": "roll", "description": "Rolls a die.\nOnce.",
			"parameters": {"type": "object", "properties": {"n": {}, "on": {}}}}}]`
	got, err := c.EncodeJSON(json.RawMessage(messages), chat.Options{Tools: json.RawMessage(tools)})
	require.NoError(t, err)
	want, err := m.Text.Tokenizer.EncodeSpecial("<|system|>Be kind.\nTools:\nnow()\n" +
		"roll(n, on): Rolls a die.<|user|>Hi<|assistant|>" + `Call: roll {"n": 6, "on": "a"}` +
		"<|end|><|tool|>4<|assistant|>")
	require.NoError(t, err)
	require.Equal(t, want, got)
}
