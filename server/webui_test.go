package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// webUI sends requests as Open WebUI's backend does (backend/open_webui/routers/openai.py): with a
// key, and with the user in headers if ENABLE_FORWARD_USER_INFO_HEADERS is set.
type webUI struct {
	t        *testing.T
	url, key string
}

func (w webUI) send(method, path string, body map[string]any) *http.Response {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(w.t, err)
		sent = strings.NewReader(string(data))
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, sent)
	require.NoError(w.t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + w.key,
		"Content-Type": "application/json", "Accept": "*/*", "Accept-Encoding": "gzip, deflate",
		"X-OpenWebUI-User-Name": "Ann%20Lee", "X-OpenWebUI-User-Id": "7",
		"X-OpenWebUI-User-Email": "ann@example.com", "X-OpenWebUI-User-Role": "user",
		"X-OpenWebUI-Chat-Id": "9"} {
		r.Header.Set(name, value)
	}
	a, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { a.Body.Close() })
	return a
}

// ask returns the answer to a conversation without a stream.
func (w webUI) ask(body map[string]any) (status int, a answer) {
	r := w.send("POST", "/chat/completions", body)
	data, err := io.ReadAll(r.Body)
	require.NoError(w.t, err)
	return r.StatusCode, read(w.t, data)
}

func openWebUI(t *testing.T) webUI {
	const key = "a-key-of-some-length-for-tests"
	name := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(name, []byte("webui:"+key+"\n"), 0o600))
	keys, err := server.LoadKeys(name)
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "llada", Model: chatModel(t, "llada")}))
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return webUI{t, h.URL + "/v1", key}
}

// user returns a conversation of one message, as a title's or a tag's request has it.
func user(text string) []map[string]any {
	return []map[string]any{{"role": "user", "content": text}}
}

// The list of models, a conversation that is streamed, and then its title and tags.
func TestOpenWebUI(t *testing.T) {
	w := openWebUI(t)
	r := w.send("GET", "/models", nil)
	require.Equal(t, 200, r.StatusCode)
	var models struct{ Data []struct{ ID string } }
	require.NoError(t, json.NewDecoder(r.Body).Decode(&models))
	require.Len(t, models.Data, 1)
	model := models.Data[0].ID

	talk := []map[string]any{{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."},
		{"role": "user", "content": []map[string]any{{"type": "text", "text": "A story?"}}}}
	// its own fields, and those of a model's settings
	r = w.send("POST", "/chat/completions", map[string]any{"model": model, "messages": talk,
		"stream": true, "stream_options": map[string]any{"include_usage": true}, "temperature": 0.8,
		"top_p": 0.9, "max_tokens": 16, "frequency_penalty": 0.0, "presence_penalty": 0, "seed": 42,
		"stop": []string{"\n\n\n"}, "logit_bias": map[string]int{"5": -100}})
	require.Equal(t, 200, r.StatusCode)
	require.Contains(t, r.Header.Get("Content-Type"), "text/event-stream")
	text, finish, used, last := "", "", 0, ""
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if last = data; data == "[DONE]" {
			break
		}
		a := read(t, []byte(data))
		require.Nil(t, a.Error)
		if a.Usage != nil {
			used += a.Usage.Completion
		}
		for _, c := range a.Choices {
			text, finish = text+c.Delta.Content, c.Finish
		}
	}
	require.NotEmpty(t, text)
	require.Contains(t, []string{"stop", "length"}, finish)
	require.Positive(t, used)
	require.Equal(t, "[DONE]", last)

	for _, body := range []map[string]any{
		{"max_completion_tokens": 1000, "messages": user("### Task:\nName this talk as JSON.")},
		{"messages": user("### Task:\nList 3 tags of this talk as JSON.")},
	} {
		body["model"], body["stream"] = model, false
		status, a := w.ask(body)
		require.Equal(t, 200, status, "%+v", a.Error)
		require.Equal(t, "chat.completion", a.Object)
		require.NotEmpty(t, a.Choices[0].Message.Content)
	}
}

// What no answer can have is refused by name, in the form whose message Open WebUI shows.
func TestOpenWebUIRefused(t *testing.T) {
	w := openWebUI(t)
	picture := []map[string]any{{"type": "text", "text": "What is it?"},
		{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,AA=="}}}
	for name, body := range map[string]map[string]any{
		"min_p":            {"min_p": 0.1},
		"presence_penalty": {"presence_penalty": 0.5},
		"reasoning_effort": {"reasoning_effort": "low"},
		"messages":         {"messages": user(strings.Repeat("A long template. ", 60))},
		"messages[0].content": {"messages": []map[string]any{{"role": "user",
			"content": picture}}},
	} {
		body["model"], body["stream"] = "llada", true
		if body["messages"] == nil {
			body["messages"] = user("Hi")
		}
		status, a := w.ask(body)
		require.Equal(t, 400, status, name)
		require.Equal(t, name, a.Error.Param)
		require.NotEmpty(t, a.Error.Message)
	}
	w.key = "another"
	require.Equal(t, 401, w.send("GET", "/models", nil).StatusCode)
}
