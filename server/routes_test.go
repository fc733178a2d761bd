package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
	"unmask/paint"
	"unmask/prompt"
	"unmask/server"
)

// form returns a body in parts; a value that is []byte is a file.
func form(t testing.TB, parts ...any) (kind string, body *bytes.Buffer) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for i := 0; i < len(parts); i += 2 {
		name := parts[i].(string)
		if data, ok := parts[i+1].([]byte); ok {
			f, err := w.CreateFormFile(name, name+".png")
			require.NoError(t, err)
			_, err = f.Write(data)
			require.NoError(t, err)
			continue
		}
		require.NoError(t, w.WriteField(name, fmt.Sprint(parts[i+1])))
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), body
}

func postForm(t testing.TB, url string, parts ...any) (int, []byte) {
	kind, body := form(t, parts...)
	r, err := http.Post(url, kind, body)
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, data
}

func pngOf(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}

// landscape is a picture of the demo.
func landscape(t testing.TB) *image.NRGBA {
	run := recipe(t, "demo-image", generate.Options{Request: generate.Request{Seed: 9}})
	run.Steps = 4
	codes := command(t, "demo-image", run)
	img, err := loaded()["demo-image"].Pictures.Image(codes[0])
	require.NoError(t, err)
	return img
}

func TestEditsAreTheCommands(t *testing.T) {
	_, h := serving(t, server.Options{})
	picture := landscape(t)
	black := image.NewNRGBA(picture.Rect) // the command's rule: white is made new
	clear := image.NewNRGBA(picture.Rect) // OpenAI's: transparent is
	both := image.NewNRGBA(picture.Rect)
	for y := range 64 {
		for x := range 64 {
			inside := x >= 8 && x < 24 && y >= 20 && y < 40
			c := picture.NRGBAAt(x, y)
			black.SetNRGBA(x, y, color.NRGBA{A: 255})
			clear.SetNRGBA(x, y, color.NRGBA{R: 255, G: 255, B: 255, A: 255})
			if inside {
				black.SetNRGBA(x, y, color.NRGBA{R: 255, G: 255, B: 255, A: 255})
				clear.SetNRGBA(x, y, color.NRGBA{})
				c.A = 0
			}
			both.SetNRGBA(x, y, c)
		}
	}
	m := loaded()["demo-image"]
	tokens, err := m.Pictures.Mask(picture, black)
	require.NoError(t, err)
	run := recipe(t, "demo-image", generate.Options{Request: generate.Request{Seed: 2, Known: tokens}})
	run.Steps = 5
	want := command(t, "demo-image", run)[0]
	for name, parts := range map[string][]any{
		"white":       {"image", pngOf(t, picture), "mask", pngOf(t, black)},
		"transparent": {"image", pngOf(t, picture), "mask", pngOf(t, clear)},
		"own alpha":   {"image[]", pngOf(t, both)},
	} {
		status, data := postForm(t, h.URL+"/v1/images/edits",
			append(parts, "seed", 2, "steps", 5, "codes", true, "prompt", "", "n", 1)...)
		require.Equal(t, 200, status, "%s: %s", name, data)
		a := read(t, data)
		require.Equal(t, want, a.Unmask.Codes[0], name)
		require.Len(t, a.Unmask.Cells, 4*5, name)
	}
	// Cells that are kept have the codes that they had, in streams too.
	kind, body := form(t, "image", pngOf(t, picture), "mask", pngOf(t, black), "seed", 2, "steps", 5,
		"stream", true, "partial_images", 1)
	r, err := http.Post(h.URL+"/v1/images/edits", kind, body)
	require.NoError(t, err)
	data, err := io.ReadAll(r.Body)
	r.Body.Close()
	require.NoError(t, err)
	events := parseEvents(string(data))
	require.Equal(t, "image_edit.partial_image", events[0].name)
	require.Equal(t, "image_edit.completed", events[1].name)
	var partial struct {
		B64 string `json:"b64_json"`
	}
	require.NoError(t, json.Unmarshal([]byte(events[0].data), &partial))
	file, err := base64.StdEncoding.DecodeString(partial.B64)
	require.NoError(t, err)
	seen, err := png.DecodeConfig(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, [2]int{64, 64}, [2]int{seen.Width, seen.Height})
}

func TestCodesAndTokens(t *testing.T) {
	_, h := serving(t, server.Options{})
	picture := landscape(t)
	m := loaded()["demo-image"]
	want, err := m.Pictures.Encode(picture)
	require.NoError(t, err)
	var got struct {
		Codes, Tokens []int32
		Pieces        []string
		Text          string
	}
	r, err := http.Post(h.URL+"/v1/images/encode", "image/png", bytes.NewReader(pngOf(t, picture)))
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
	r.Body.Close()
	require.Equal(t, want, got.Codes)
	status, header, data := post(t, h.URL+"/v1/images/decode", `{"codes":`+jsonOf(want)+`}`)
	require.Equal(t, 200, status, "%s", data)
	require.Equal(t, "image/png", header.Get("Content-Type"))
	back, err := m.Pictures.Image(want)
	require.NoError(t, err)
	require.Equal(t, pngOf(t, back), data)
	// Unknown cells are checkered.
	status, _, data = post(t, h.URL+"/v1/images/decode",
		`{"codes":[`+strings.Repeat("null,", 255)+`7]}`)
	require.Equal(t, 200, status, "%s", data)

	text := "Lily was a brave girl"
	_, _, data = post(t, h.URL+"/v1/tokenize", `{"text":"`+text+`"}`)
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, text, strings.Join(got.Pieces, ""))
	_, _, data = post(t, h.URL+"/v1/detokenize", `{"tokens":`+
		strings.Replace(jsonOf(got.Tokens), "]", ",null]", 1)+`}`)
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, text+prompt.Hole, got.Text)
}

func jsonOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// get returns what a route answers.
func get(t testing.TB, url string, header ...string) (int, http.Header, []byte) {
	r, err := http.NewRequest("GET", url, nil)
	require.NoError(t, err)
	return do(t, r, header...)
}

func do(t testing.TB, r *http.Request, header ...string) (int, http.Header, []byte) {
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a.StatusCode, a.Header, data
}

// What was streamed is kept under its key, which never changes.
func TestResults(t *testing.T) {
	_, h := serving(t, server.Options{})
	const request = `{"prompt":"Once upon","max_tokens":20,"steps":5,"seed":3`
	_, _, data := post(t, h.URL+"/v1/completions", request+`,"stream":"events"}`)
	events := parseEvents(string(data))
	require.Len(t, events, 1+5+1)
	require.Equal(t, "start", events[0].name)
	require.Equal(t, "done", events[6].name)
	require.Equal(t, "5", events[5].id)
	_, header, data := post(t, h.URL+"/v1/completions", request+"}")
	require.Equal(t, "hit", header.Get("Unmask-Cache"))
	require.Equal(t, events[6].data, strings.TrimSpace(string(data)))
	key := h.URL + "/v1/results/" + read(t, data).Unmask.Key
	status, header, data := get(t, key)
	require.Equal(t, 200, status)
	require.Equal(t, events[6].data, strings.TrimSpace(string(data)))
	require.Contains(t, header.Get("Cache-Control"), "immutable")
	status, _, _ = get(t, key, "If-None-Match", header.Get("ETag"))
	require.Equal(t, 304, status)
}

func TestURLs(t *testing.T) {
	_, h := serving(t, server.Options{})
	a := ask(t, h.URL+"/v1/images/generations",
		`{"prompt":"a house","ignore_prompt":true,"response_format":"url","seed":1,"steps":3,"n":2,"size":"64x64"}`)
	require.Len(t, a.Data, 2)
	status, header, data := get(t, a.Data[1].URL)
	require.Equal(t, 200, status)
	require.Equal(t, "image/png", header.Get("Content-Type"))
	_, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
}

// A picture's film is that of unmask image --gif, also of one that was made new in part.
func TestFilms(t *testing.T) {
	_, h := serving(t, server.Options{})
	m := loaded()["demo-image"]
	picture := landscape(t)
	black := image.NewNRGBA(picture.Rect)
	for i := range black.Pix { // the upper half is white
		if black.Pix[i] = 0; i%4 == 3 || i < len(black.Pix)/2 {
			black.Pix[i] = 255
		}
	}
	tokens, err := m.Pictures.Mask(picture, black)
	require.NoError(t, err)
	film := func(start []int32) []byte {
		f := paint.NewFilm(1, m.Spec(), start)
		f.Scale = 3 // 64 pixels, shown as 192
		run := recipe(t, "demo-image", generate.Options{Request: generate.Request{Seed: 8, Index: 1,
			Known: start}})
		run.Steps = 5
		for step, err := range generate.Run(t.Context(), m.Denoiser, run) {
			require.NoError(t, err)
			one := *step.Sequences[0].Sequence
			one.Index = 0
			f.Add(&one)
		}
		data, err := f.Encode(m.Pictures, func(int) *model.Condition { return nil })
		require.NoError(t, err)
		return data
	}
	a := ask(t, h.URL+"/v1/images/generations", `{"prompt":"","seed":8,"steps":5,"n":2}`)
	status, header, data := get(t, h.URL+"/v1/results/"+a.Unmask.Key+"/1.gif")
	require.Equal(t, 200, status, "%s", data)
	require.Equal(t, "image/gif", header.Get("Content-Type"))
	require.Equal(t, film(nil), data)
	require.Contains(t, header.Get("Cache-Control"), "immutable")
	status, _, _ = get(t, h.URL+"/v1/results/"+a.Unmask.Key+"/1.gif", "If-None-Match",
		header.Get("ETag"))
	require.Equal(t, 304, status)

	status, data = postForm(t, h.URL+"/v1/images/edits", "image", pngOf(t, picture), "mask",
		pngOf(t, black), "seed", 8, "first", 1, "steps", 5)
	require.Equal(t, 200, status, "%s", data)
	_, _, data = get(t, h.URL+"/v1/results/"+read(t, data).Unmask.Key+"/0.gif")
	require.Equal(t, film(tokens), data)

	text := ask(t, h.URL+"/v1/completions", with(`"steps":2`))
	for _, path := range []string{a.Unmask.Key + "/2.gif", a.Unmask.Key + "/-1.gif",
		a.Unmask.Key + "/0.jpg", a.Unmask.Key + "/0", text.Unmask.Key + "/0.gif"} {
		status, header, data := get(t, h.URL+"/v1/results/"+path)
		refusal{path, 404, "result_not_found", "", "no such result"}.compare(t, status, header, data)
	}
}

func TestDiffusingForm(t *testing.T) {
	_, h := serving(t, server.Options{})
	body := `{"prompt":"A","max_tokens":10,"steps":4,"seed":5`
	whole := ask(t, h.URL+"/v1/completions", body+`}`)
	events := stream(t, h.URL+"/v1/completions", body+`,"stream":true,"diffusing":true}`)
	require.Len(t, events, 4+1)
	require.Contains(t, events[0].data, prompt.Hole)
	require.Equal(t, whole.Choices[0].Text, read(t, []byte(events[3].data)).Choices[0].Text)
	require.NotContains(t, events[3].data, prompt.Hole)
}
