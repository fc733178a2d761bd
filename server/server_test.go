package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/server"
)

// plainText is the demo's text model without the first token of every text, so that a test counts
// the tokens that it gives alone.
func plainText() fs.FS {
	files := fstest.MapFS{}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Text(), name)
		if err != nil {
			panic(err)
		}
		files[name] = &fstest.MapFile{Data: bytes.Replace(data, []byte(`"bos_token_id"`),
			[]byte(`"no_token_id"`), 1)}
	}
	return files
}

// loaded are the demo models, loaded once for all tests.
var loaded = sync.OnceValue(func() map[string]*unmask.Model { return threaded(2) })

// threaded loads the demo models for a number of threads.
func threaded(threads int) map[string]*unmask.Model {
	out := map[string]*unmask.Model{}
	for name, files := range map[string]fs.FS{"demo": plainText(), "demo-image": demo.Image()} {
		m, err := unmask.LoadFS(files, name, unmask.Options{Threads: threads})
		if err != nil {
			panic(err)
		}
		out[name] = m
	}
	return out
}

// serving returns a server of the demo models that ends with the test.
func serving(t testing.TB, o server.Options) (*server.Server, *httptest.Server) {
	return servingModels(t, o, loaded())
}

// servingModels is serving with demo models that were loaded otherwise.
func servingModels(t testing.TB, o server.Options, models map[string]*unmask.Model) (*server.Server,
	*httptest.Server) {
	s, err := server.New(o)
	require.NoError(t, err)
	for _, name := range []string{"demo", "demo-image"} {
		require.NoError(t, s.Add(server.Model{Name: name, Model: models[name]}))
	}
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s, h
}

// post sends JSON and returns status, header and body.
func post(t testing.TB, url, body string) (int, http.Header, []byte) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, r.Header, data
}

// answer has the fields of an answer that tests read.
type answer struct {
	ID      string
	Object  string
	Model   string
	Choices []struct {
		Index  int
		Text   string
		Tokens []int32
		Finish string `json:"finish_reason"`
		Holes  []struct {
			Start, Length int
			Text          string
		}
		Message struct{ Content string }
		Delta   struct{ Content string }
	}
	Data []struct {
		B64 string `json:"b64_json"`
		URL string
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Unmask struct {
		Seed                   uint64
		Key, Sampler, Schedule string
		Steps                  int
		Evaluated              struct{ Recalled int }
		Codes                  [][]int32
		Cells                  []int
		Opened                 []struct {
			Position int
			Token    int32
			Piece    string
		}
	}
	Error *struct{ Message, Type, Param, Code string }
}

func read(t testing.TB, data []byte) (a answer) {
	require.NoError(t, json.Unmarshal(data, &a), "%s", data)
	return a
}

// ask is post of what is to be answered well.
func ask(t testing.TB, url, body string) answer {
	status, _, data := post(t, url, body)
	require.Equal(t, 200, status, "%s", data)
	return read(t, data)
}

// sseEvent is one event of a stream.
type sseEvent struct{ name, id, data string }

// stream posts and returns the events of the answer.
func stream(t testing.TB, url, body string) (events []sseEvent) {
	status, h, data := post(t, url, body)
	require.Equal(t, 200, status, "%s", data)
	require.Equal(t, "text/event-stream; charset=utf-8", h.Get("Content-Type"))
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Equal(t, "no", h.Get("X-Accel-Buffering"))
	return parseEvents(string(data))
}

func parseEvents(text string) (events []sseEvent) {
	for block := range strings.SplitSeq(text, "\n\n") {
		var e sseEvent
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			}
		}
		if e.data != "" {
			events = append(events, e)
		}
	}
	return events
}

// command returns the tokens that the command writes for a run of the demo.
func command(t testing.TB, name string, r generate.Options) (tokens [][]int32) {
	m := loaded()[name]
	for step, err := range generate.Run(context.Background(), m.Denoiser, r) {
		require.NoError(t, err)
		if step.Done {
			for _, q := range step.Sequences {
				tokens = append(tokens, append([]int32(nil), q.Tokens...))
			}
		}
	}
	return tokens
}

func recipe(t testing.TB, name string, r generate.Options) generate.Options {
	d, err := loaded()[name].Defaults()
	require.NoError(t, err)
	r.Recipe = d
	return r
}

// knownOf returns the tokens that a request begins with.
func knownOf(t testing.TB, m *unmask.Model, r unmask.Request) []int32 {
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	return q.Known
}

func TestCompletionsAreTheCommands(t *testing.T) {
	_, h := serving(t, server.Options{})
	m := loaded()["demo"]
	known := knownOf(t, m, unmask.Request{Prompt: "Once upon", Length: 40})
	run := recipe(t, "demo", generate.Options{Request: generate.Request{Seed: 7, Index: 2,
		Known: known}, N: 3})
	run.Steps = 8
	want := command(t, "demo", run)
	a := ask(t, h.URL+"/v1/completions", fmt.Sprintf(
		`{"model":"demo","prompt":"Once upon","max_tokens":%d,"steps":8,"seed":7,"n":3,"first":2,"echo":true}`,
		40-len(known)+38))
	require.Len(t, a.Choices, 3)
	for i, c := range a.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, m.Text.Decode(want[i]), c.Text)
		require.Equal(t, "length", c.Finish)
	}
	require.Equal(t, uint64(7), a.Unmask.Seed)
	require.Equal(t, "halton(gamma=1.25)", a.Unmask.Sampler)
	require.Equal(t, "cmpl-"+a.Unmask.Key[:12], a.ID)
	require.Equal(t, 2, a.Usage.Prompt)
}

func TestStreamsJoinToTheAnswer(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, sampler := range []string{"hybrid", "moment", "remdm", "semi-ar(hybrid)"} {
		body := fmt.Sprintf(`{"prompt":"Lily had","max_tokens":40,"steps":9,"seed":5,"n":2,"sampler":%q`,
			sampler)
		whole := ask(t, h.URL+"/v1/completions", body+`,"stop":["e"]}`)
		events := stream(t, h.URL+"/v1/completions", body+
			`,"stop":["e"],"stream":true,"stream_options":{"include_usage":true}}`)
		require.Equal(t, "[DONE]", events[len(events)-1].data)
		text := [2]string{}
		for _, e := range events[:len(events)-2] {
			c := read(t, []byte(e.data))
			require.Len(t, c.Choices, 1)
			text[c.Choices[0].Index] += c.Choices[0].Text
		}
		require.Equal(t, whole.Choices[0].Text, text[0], sampler)
		require.Equal(t, whole.Choices[1].Text, text[1], sampler)
		require.Equal(t, whole.Unmask.Seed, read(t, []byte(events[len(events)-3].data)).Unmask.Seed)
		counted := read(t, []byte(events[len(events)-2].data))
		require.Empty(t, counted.Choices)
		require.Equal(t, whole.Usage, counted.Usage)
	}
}

func TestInfillAndPictures(t *testing.T) {
	_, h := serving(t, server.Options{})
	m := loaded()["demo"]
	known, err := m.Text.Infill("Lily had [9] and she [3] the park", 0)
	require.NoError(t, err)
	run := recipe(t, "demo", generate.Options{Request: generate.Request{Seed: 4, Known: known}})
	run.Steps = 6
	want := command(t, "demo", run)[0]
	for _, holes := range []string{`"parts":["Lily had ",9," and she ",3," the park"]`,
		`"text":"Lily had [9] and she [3] the park"`} {
		a := ask(t, h.URL+"/v1/infill", `{"seed":4,"steps":6,`+holes+`}`)
		require.Equal(t, want, a.Choices[0].Tokens)
		require.Equal(t, m.Text.Decode(want), a.Choices[0].Text)
		require.Len(t, a.Choices[0].Holes, 2)
		require.Equal(t, 9, a.Choices[0].Holes[0].Length)
	}
	run = recipe(t, "demo-image", generate.Options{Request: generate.Request{Seed: 3}, N: 2})
	run.Steps = 4
	codes := command(t, "demo-image", run)
	a := ask(t, h.URL+"/v1/images/generations", `{"prompt":"","seed":3,"n":2,"steps":4,"codes":true}`)
	require.Equal(t, codes, a.Unmask.Codes)
	for i := range codes {
		img, err := loaded()["demo-image"].Pictures.Image(codes[i])
		require.NoError(t, err)
		var file bytes.Buffer
		require.NoError(t, png.Encode(&file, img))
		require.Equal(t, base64.StdEncoding.EncodeToString(file.Bytes()), a.Data[i].B64)
	}
	events := stream(t, h.URL+"/v1/images/generations",
		`{"prompt":"","seed":3,"n":2,"steps":4,"stream":true,"partial_images":2}`)
	require.Len(t, events, 2*2+2)
	require.Equal(t, "image_generation.partial_image", events[0].name)
	require.Contains(t, events[5].data, a.Data[1].B64)
}
