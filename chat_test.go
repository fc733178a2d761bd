package unmask_test

import (
	"encoding/json"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
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
	asked := func(text string, length int) (unmask.Request, generate.Request, error) {
		messages, err := json.Marshal([]chat.Message{{Role: "user", Content: text}})
		require.NoError(t, err)
		r := unmask.Request{Messages: messages, Length: length}
		q, err := m.Prepare(t.Context(), r)
		return r, q, err
	}
	r, q, err := asked("To be [MASK]", 0)
	require.NoError(t, err)
	require.NotContains(t, q.Known[:m.AnswerOf(&r, &q).From], m.Spec().Mask) // a text, and no mask

	known, err := m.Text.Encode("The user. To be\n")
	require.NoError(t, err)
	r, q, err = asked("To be", 0)
	require.NoError(t, err)
	begin := len(m.Spec().Before)
	a := m.AnswerOf(&r, &q)
	require.Equal(t, begin+len(known), a.From)
	require.Equal(t, known, q.Known[begin:a.From])
	require.Len(t, q.Known, a.From+unmask.ReplyLength)
	require.Equal(t, unmask.ReplyLength, masked(q.Known, m))
	answer, err := m.Text.Encode("the answer")
	require.NoError(t, err)
	copy(q.Known[a.From:], answer)
	require.Equal(t, "the answer▯", a.Shown(q.Known).Text[:len("the answer▯")])
	require.Equal(t, "the answer", a.Settled(q.Known))
	_, q, err = asked("To be", 40)
	require.NoError(t, err)
	require.Len(t, q.Known, begin+40)
	_, _, err = asked("To be", len(known))
	require.ErrorContains(t, err, "messages is 9 tokens, want at most 8")

	plainModel, picture := loadDemos(t)
	_, err = plainModel.Chat()
	require.ErrorContains(t, err, "the model has no chat template, want chat_template.jinja")
	_, err = picture.Chat()
	require.EqualError(t, err, "the model makes no text")
}
