package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// piece is what a line of a stream adds to the text, of any API.
type piece struct {
	Type    string
	Delta   json.RawMessage // a text, or an object with one
	Message struct{ Content string }
	Choices []struct {
		Text  string
		Delta struct{ Content string }
	}
	Unmask struct{ Step, Steps int }
}

// text returns what the piece adds.
func (p *piece) text() string {
	if len(p.Choices) > 0 {
		return p.Choices[0].Text + p.Choices[0].Delta.Content
	}
	var delta string
	if p.Type == "response.output_text.delta" && json.Unmarshal(p.Delta, &delta) == nil {
		return delta
	}
	var block struct{ Text string }
	if p.Type == "content_block_delta" && json.Unmarshal(p.Delta, &block) == nil {
		return block.Text
	}
	return p.Message.Content
}

// readPieces returns the pieces of a stream that add text, and the last line that says its step.
func readPieces(t *testing.T, url, body string) (pieces []piece, last int) {
	status, _, data := post(t, url, body)
	require.Equal(t, 200, status, "%s", data)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimPrefix(line, "data: ")
		var p piece
		if json.Unmarshal([]byte(line), &p) != nil {
			continue
		}
		if p.text() != "" {
			pieces = append(pieces, p)
		}
		last = max(last, p.Unmask.Step)
	}
	return pieces, last
}

// An answer that goes in blocks comes piece by piece on every route: its first words in the first
// quarter of the passes, and at least eight pieces from as many passes.
func TestAnswersStreamFromTheirFirstBlock(t *testing.T) {
	s, h := serving(t, server.Options{})
	talk, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo-chat", Model: talk}))

	chat := map[string]any{
		"model":       "demo-chat",
		"messages":    user("Tell me a story about Lily."),
		"sampler":     "semi-ar(confidence,block=16)",
		"steps":       128,
		"temperature": 0.3,
		"seed":        2,
		"max_tokens":  128,
		"stream":      true,
	}
	withSteps := func(body map[string]any) string {
		body["stream_options"] = map[string]any{"include_steps": true}
		defer delete(body, "stream_options")
		return jsonOf(body)
	}
	completion := map[string]any{"model": "demo", "prompt": "Once upon a time", "max_tokens": 96,
		"sampler": "semi-ar(confidence,block=16)", "steps": 96, "seed": 2, "stream": true}
	var first []piece
	for path, body := range map[string]string{
		"/v1/chat/completions": withSteps(chat),
		"/v1/completions":      withSteps(completion),
	} {
		pieces, last := readPieces(t, h.URL+path, body)
		require.GreaterOrEqual(t, len(pieces), 8, path)
		require.LessOrEqual(t, pieces[0].Unmask.Step, last/4, path)
		for i, p := range pieces[1:] {
			require.Greater(t, p.Unmask.Step, pieces[i].Unmask.Step, path)
		}
		if path == "/v1/chat/completions" {
			first = pieces
		}
	}

	for name, api := range apis { // the others have no steps, but the pieces of the same passes
		body := api.body(chat)
		body["stream"] = true
		pieces, _ := readPieces(t, h.URL+api.path, jsonOf(body))
		require.Equal(t, len(first), len(pieces), name)
		for i, p := range pieces {
			require.Equal(t, first[i].text(), p.text(), name)
		}
	}
}

// A rule that masks tokens again within blocks streams block by block, and one that may change any
// token sends nothing before its end.
func TestEditedAnswersStreamWhatIsSettled(t *testing.T) {
	_, h := serving(t, server.Options{})
	body := map[string]any{"model": "demo", "prompt": "Once upon a time", "max_tokens": 64, "seed": 2,
		"stream": true, "stream_options": map[string]any{"include_steps": true}}
	body["sampler"] = "wino(block=16,wide=0.4)"
	pieces, last := readPieces(t, h.URL+"/v1/completions", jsonOf(body))
	require.GreaterOrEqual(t, len(pieces), 3)
	require.Less(t, pieces[0].Unmask.Step, last/2)

	body["sampler"] = "p2"
	body["steps"] = 64
	pieces, last = readPieces(t, h.URL+"/v1/completions", jsonOf(body))
	require.Len(t, pieces, 1)
	require.Equal(t, last, pieces[0].Unmask.Step)
}
