package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/tokenizers"
)

// A template's own form of calls is found in a conversation that it renders.
func TestCallForm(t *testing.T) {
	const turns = `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}` +
		`<|im_start|>{{ m.role + '\n' + m.content }}CALLS<|im_end|>{{ '\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}`
	const qwen = `{% for c in m.tool_calls %}{% if not loop.first or m.content %}{{ '\n' }}{% endif %}` +
		`<tool_call>{{ '\n' }}{"name": "{{ c.function.name }}", "arguments": ` +
		`{{ c.function.arguments | tojson }}}{{ '\n' }}</tool_call>{% endfor %}`
	for _, c := range []struct {
		source string
		form   CallForm
	}{
		{strings.ReplaceAll(turns, "CALLS", qwen), CallForm{"<tool_call>\n{\"name\": \"",
			`", "arguments": `, "}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>"}},
		{strings.ReplaceAll(turns, "CALLS", `{% for c in m.tool_calls %}call {{ c.function.name }} `+
			`{{ c.function.arguments | tojson }};{% endfor %}`), CallForm{"call ", " ", ";call ", ";"}},
		// without calls, without functions, with special tokens, without JSON
		{strings.ReplaceAll(turns, "CALLS", ""), PlainCalls},
		{strings.ReplaceAll(turns, "CALLS", qwen)[len("{% if tools %}{{ tools | tojson }}{% endif %}"):],
			PlainCalls},
		{strings.ReplaceAll(turns, "CALLS", "<|mask|>"+qwen), PlainCalls},
		{strings.ReplaceAll(turns, "CALLS", `{% for c in m.tool_calls %}{{ c.function.name }}`+
			`{% for k, v in c.function.arguments.items() %}{{ k }}{{ v }}{% endfor %}{% endfor %}`),
			PlainCalls},
	} {
		tmpl, err := Parse(c.source, map[string]string{"eos_token": "<|endoftext|>"})
		require.NoError(t, err)
		form, own := New(tmpl, tokenizers.WithMask(tiny(t, "dream"), 1<<20, "▯")).CallForm()
		require.Equal(t, c.form, form)
		require.Equal(t, c.form != PlainCalls, own)
	}
}

// What is read of a text's beginnings grows, and is that of the whole in the end.
func TestReadCalls(t *testing.T) {
	for _, f := range []CallForm{PlainCalls, {"call ", " ", ";call ", ";"}} {
		want := []Call{{"find", `{"a": {"b": "}\"{\\"}, "c": [1]}`}, {"wait", "{}"}}
		text := "So: " + f.BeforeName + "find" + f.BeforeArguments + want[0].Arguments +
			f.BeforeNextName + "wait" +
			f.BeforeArguments + "{}" + f.AfterCalls
		var last []Call
		for n := range len(text) + 1 {
			content, calls := f.SplitCalls(text[:n])
			require.GreaterOrEqual(t, len(calls), len(last))
			for i, c := range last {
				require.Equal(t, c.Name, calls[i].Name)
				require.True(t, strings.HasPrefix(calls[i].Arguments, c.Arguments))
			}
			if len(calls) > 0 {
				require.Equal(t, "So: ", content)
			}
			last = calls
		}
		require.Equal(t, want, last)
		content, calls := f.SplitCalls("nothing {is called}")
		require.Equal(t, "nothing {is called}", content)
		require.Empty(t, calls)
	}
}
