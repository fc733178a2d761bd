package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/tokenizers/chat"
)

// Messages of which a part would be lost without a word are refused; what the template knows, and
// what is no list of messages, is left to it.
func TestCheck(t *testing.T) {
	tmpl, err := chat.Parse(`{% for m in messages %}{% if m.role == 'sage' %}!{% endif %}`+
		`{{ m.content }}{% endfor %}`, nil)
	require.NoError(t, err)
	for messages, want := range map[string]string{
		`[]`: "there are 0 messages, want at least 1",
		`[{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}]`: `message 1: role is ` +
			`"wizard", want system, user, assistant or tool`,
		`[{"content": "a"}]`:                    "message 0: role is missing, want system, user, assistant or tool",
		`[{"role": 3, "content": "a"}]`:         "message 0: role is 3, want system, user, assistant or tool",
		`[{"role": "user"}]`:                    "message 0: content is missing, want a text",
		`[{"role": "user", "content": null}]`:   "message 0: content is null, want a text",
		`[{"role": "user", "content": 7}]`:      "message 0: content is 7, want a text",
		`[{"role": "user", "tool_calls": [1]}]`: "message 0: content is missing, want a text",
		`[{"role": "assistant", "tool_calls": [], "content": null}]`: "message 0: content is null, " +
			"want a text",
	} {
		require.EqualError(t, tmpl.CheckMessages([]byte(messages)), want, messages)
	}
	for _, messages := range []string{
		`[{"role": "user", "content": ""}]`,
		`[{"role": "system", "content": "a"}, {"role": "tool", "content": "b"}]`,
		`[{"role": "sage", "content": "a"}]`,
		`[{"role": "user", "content": [{"type": "text", "text": "a"}]}]`,
		`[{"role": "assistant", "tool_calls": [{"id": 1}]}]`,
		`{}`, `3`, `[1]`, `[`,
	} {
		require.NoError(t, tmpl.CheckMessages([]byte(messages)), messages)
	}
}
