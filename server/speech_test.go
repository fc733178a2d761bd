package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/media/sound"
	"unmask/server"
	"unmask/speak"
)

const speechPack = "../testdata/packs/omnivoice-tiny"

// voiced serves the pack of OmniVoice with its voice, as a client's only model.
func voiced(t *testing.T) (url string, m *unmask.Model) {
	m, err := unmask.Load(t.Context(), speechPack, unmask.Options{Threads: 2})
	require.NoError(t, err)
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(speechPack, "voice.pt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "me.pt"), data, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "note.txt"), nil, 0o600))
	s, err := server.New(server.Options{Voices: dir})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "voice", Model: m}))
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return h.URL, m
}

// says returns the answer to a request for speech.
func says(t *testing.T, url, body string) (*http.Response, []byte) {
	r, err := http.Post(url+"/v1/audio/speech", "application/json", bytes.NewBufferString(body))
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r, data
}

// written returns a sound as a file.
func written(t *testing.T, m *unmask.Model, r speak.Request, format string) []byte {
	s, err := speak.New(m, r)
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := sound.NewWriter(&out, format, s.Rate(), -1)
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), w.Write) {
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestSpeechIsTheCommands(t *testing.T) {
	url, m := voiced(t)
	over := unmask.Overrides{"steps": "3"}
	said := speak.Request{Text: "Good day.", Seed: 7, Overrides: over}

	r, got := says(t, url, `{"input": "Good day.", "seed": 7, "steps": 3}`)
	require.Equal(t, 200, r.StatusCode, "%s", got)
	require.Equal(t, "audio/wav", r.Header.Get("Content-Type"))
	require.Equal(t, "7", r.Header.Get("Unmask-Seed"))
	const header = 44
	require.Equal(t, written(t, m, said, "wav")[header:], got[header:])
	require.Equal(t, written(t, m, said, "pcm"), got[header:])

	r, got = says(t, url, `{"model": "voice", "input": "Good day.", "seed": 7, "steps": 3, `+
		`"response_format": "flac", "voice": "auto", "instructions": null, "speed": 1}`)
	require.Equal(t, "audio/flac", r.Header.Get("Content-Type"))
	require.Equal(t, "fLaC", string(got[:4]))

	// a voice, words and a language change it
	said.Language, said.Words = "en", "female"
	_, got = says(t, url, `{"input": "Good day.", "seed": 7, "steps": 3, "response_format": "pcm", `+
		`"language": "English", "instructions": "female", "seconds": 0.4}`)
	said.Seconds = 0.4
	require.Equal(t, written(t, m, said, "pcm"), got)
	_, got = says(t, url, `{"input": "Good day.", "seed": 7, "steps": 3, "voice": {"id": "me"}}`)
	v, err := m.Speech.ReadVoice(filepath.Join(speechPack, "voice.pt"))
	require.NoError(t, err)
	said = speak.Request{Text: "Good day.", Seed: 7, Overrides: over, Voice: v}
	require.Equal(t, written(t, m, said, "pcm"), got[header:])
}

func TestSpeechStreams(t *testing.T) {
	url, m := voiced(t)
	said := speak.Request{Text: "Nobody went out. It was cold, and then it rained. Why?", Seed: 7,
		Stream: true, Overrides: unmask.Overrides{"steps": "2"}}
	want := written(t, m, said, "pcm")
	body := `{"input": "Nobody went out.\nIt was cold, and then it rained. Why?", "seed": 7, ` +
		`"steps": 2, "response_format": "pcm", "stream_format": `
	r, got := says(t, url, body+`"audio"}`)
	require.Equal(t, []string{"chunked"}, r.TransferEncoding)
	require.Equal(t, "audio/pcm", r.Header.Get("Content-Type"))
	require.Equal(t, want, got)

	r, got = says(t, url, body+`"sse"}`)
	require.Contains(t, r.Header.Get("Content-Type"), "text/event-stream")
	var joined []byte
	var kinds []string
	for _, e := range parseEvents(string(got)) {
		var d struct {
			Type, Audio string
			Usage       map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(e.data), &d))
		part, err := base64.StdEncoding.DecodeString(d.Audio)
		require.NoError(t, err)
		joined, kinds = append(joined, part...), append(kinds, d.Type)
		if d.Type == "speech.audio.done" {
			require.Equal(t, 54, d.Usage["input_tokens"]+1) // the blank between parts
		}
	}
	require.Equal(t, []string{"speech.audio.delta", "speech.audio.delta", "speech.audio.delta",
		"speech.audio.done"}, kinds) // two parts and the end
	require.Equal(t, want, joined)
}

func TestVoicesAreListed(t *testing.T) {
	url, _ := voiced(t)
	r, err := http.Get(url + "/v1/audio/voices")
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"voices": [{"id": "auto", "name": "auto"}, {"id": "me", "name": "me"}]}`, string(data))
}

func TestSpeechRefusals(t *testing.T) {
	url, _ := voiced(t)
	long := `{"input": "` + strings.Repeat("a ", 40_000) + `"}`
	for want, body := range map[string]string{
		"input is missing, want a text":                     `{}`,
		`input is \"\", want something to say`:              `{"input": " "}`,
		`voice \"alloy\"`:                                   `{"input": "a", "voice": "alloy"}`,
		`voice \"mee\" (did you mean me?)`:                  `{"input": "a", "voice": "mee"}`,
		`response_format is \"mp3\", want wav, flac or pcm`: `{"input": "a", "response_format": "mp3"}`,
		"speed is 5, want 0.25 to 4":                        `{"input": "a", "speed": 5}`,
		"speed is a text, want a number":                    `{"input": "a", "speed": "1"}`,
		`language is \"Englsh\"`:                            `{"input": "a", "language": "Englsh"}`,
		`(did you mean female?)`:                            `{"input": "a", "instructions": "femal"}`,
		"n is 2, want 1":                                    `{"input": "a", "n": 2}`,
		"steps is 0":                                        `{"input": "a", "steps": 0}`,
		"unknown field":                                     `{"input": "a", "spede": 1}`,
		"want at most 65536":                                long,
	} {
		r, got := says(t, url, body)
		require.Equal(t, 400, r.StatusCode, want)
		require.Contains(t, string(got), want)
	}
}
