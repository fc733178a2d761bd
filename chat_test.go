package unmask_test

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/tokenizers/chat"
)

// withTemplate returns the embedded text model with a chat template beside its weights.
func withTemplate(t testing.TB, template string) fs.FS {
	files := fstest.MapFS{"chat_template.jinja": {Data: []byte(template)}}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Text(), name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

func TestChat(t *testing.T) {
	o := unmask.Options{Backend: plain.New()}
	m, err := unmask.LoadFS(withTemplate(t,
		"{% for m in messages %}The {{ m.role }}. {{ m.content }}\n{% endfor %}"), "x", o)
	require.NoError(t, err)
	c, err := m.Chat()
	require.NoError(t, err)
	messages := []chat.Message{{Role: "user", Content: "To be [MASK]"}}
	tokens, from, err := c.Tokens(messages, 0)
	require.NoError(t, err)
	require.NotContains(t, tokens[:from], m.Spec().Mask) // a user's text, and no mask

	messages[0].Content = "To be"
	known, err := m.Text.Encode("The user. To be\n")
	require.NoError(t, err)
	tokens, from, err = c.Tokens(messages, 0)
	require.NoError(t, err)
	begin := len(m.Spec().Before)
	require.Equal(t, begin+len(known), from)
	require.Equal(t, known, tokens[begin:from])
	require.Len(t, tokens, from+unmask.ReplyLength)
	require.Equal(t, unmask.ReplyLength, masked(tokens, m))
	tokens, _, err = c.Tokens(messages, 40)
	require.NoError(t, err)
	require.Len(t, tokens, begin+40)
	_, _, err = c.Tokens(messages, len(known))
	require.ErrorContains(t, err, "messages is 9 tokens, want at most 8")
	answer, err := m.Text.Encode("the answer")
	require.NoError(t, err)
	require.Equal(t, "the answer", c.Reply(slices.Concat(m.Spec().Before, known, answer), from))

	plainModel, picture := loadDemos(t)
	_, err = plainModel.Chat()
	require.ErrorContains(t, err, "the model has no chat template, want chat_template.jinja")
	_, err = picture.Chat()
	require.EqualError(t, err, "the model makes no text")
}
