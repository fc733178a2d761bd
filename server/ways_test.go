package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/demo"
	"unmask/param"
	"unmask/server"
	"unmask/testkit/requesttest"
)

// The body of an HTTP request prepares what the unmask.Request itself prepares, and is refused when
// that is refused.
func TestBodiesPrepareTheSame(t *testing.T) {
	s, _ := serving(t, server.Options{})
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo-chat", Model: chat}))
	text, picture := loaded()["demo"], loaded()["demo-image"]
	files := requesttest.NewFiles(t)
	check := func(m *unmask.Model, draw func(*rapid.T) unmask.Request, plain ...unmask.Request) {
		for _, r := range plain {
			r.Seed = 1
			require.True(t, sameBody(t, s, m, r), "%+v", r)
		}
		rapid.Check(t, func(t *rapid.T) { sameBody(t, s, m, draw(t)) })
	}
	check(text, func(t *rapid.T) unmask.Request { return requesttest.DrawText(t, text.Spec().Mask) },
		unmask.Request{Prompt: "Once upon"}, unmask.Request{Infill: "Lily[3]."})
	check(picture, func(t *rapid.T) unmask.Request { return requesttest.DrawPicture(t, files) },
		unmask.Request{Class: "dusk"}, unmask.Request{Image: &unmask.ImageInput{File: files.Holes}},
		unmask.Request{Image: &unmask.ImageInput{File: files.Picture, MaskFile: files.Mask}})
	check(chat, requesttest.DrawChat,
		unmask.Request{Messages: json.RawMessage(`[{"role":"user","content":"Who is Tom?"}]`)})
}

// sameBody compares what a request and its HTTP request prepare, and reports whether both do.
func sameBody(t require.TestingT, s *server.Server, m *unmask.Model, r unmask.Request) bool {
	kind, h := httpRequest(t, m, r)
	if kind == "" {
		return false
	}
	want, wantErr := m.Prepare(context.Background(), r)
	got, err := s.Prepared(kind, h)
	refused, ok := errors.AsType[*param.Error](wantErr)
	switch {
	case ok && refused.Reason == param.NoEffect && (refused.Name == "steps" ||
		refused.Name == "schedule"):
		without := r
		without.Overrides = maps.Clone(r.Overrides)
		delete(without.Overrides, "steps")
		delete(without.Overrides, "schedule")
		if _, other := m.Prepare(context.Background(), without); other == nil {
			require.NoError(t, err, "clients give these with every sampler")
		}
		return false
	case wantErr != nil:
		fault, ok := errors.AsType[*server.Fault](err)
		require.True(t, ok, "%+v: %v", r, wantErr)
		name := unmask.FieldName(refused.Name)
		if name == "length" && r.Length == 0 { // by which clients set it
			name = "max_tokens"
		}
		if r.Infill == "" && r.Tokens == nil { // the routes have other names for these
			require.Equal(t, name, fault.Param, "%+v: %v", r, wantErr)
		}
		return false
	case m.Spec().CountMasked(want.Known) == 0:
		require.Error(t, err, "nothing is to be filled")
		return false
	}
	requesttest.RequireSame(t, want, nil, got, err)
	return true
}

// httpRequest returns a request as that of HTTP, and the kind of its route; "" if no route takes
// such a request. Fields have their names in the request's own JSON, except those that OpenAI names
// or that routes have in other forms.
func httpRequest(t require.TestingT, m *unmask.Model, r unmask.Request) (kind string,
	h *http.Request) {
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a seed has 64 bits
	require.NoError(t, d.Decode(&fields))
	fields["model"] = m.Name
	rename := func(from, to string) {
		if value, ok := fields[from]; ok {
			delete(fields, from)
			fields[to] = value
		}
	}
	rename("index", "first")
	switch {
	case r.Image != nil && (r.Image.Box != "" || r.Image.Strength != 0):
		return "", nil
	case r.Image != nil:
		delete(fields, "image")
		return "edits", formRequest(t, fields, r.Image)
	case m.Text == nil:
		kind = "images"
	case r.Messages != nil:
		kind = "chat"
		if calls := r.Calls; calls != nil {
			delete(fields, "calls")
			fields["tool_choice"], fields["parallel_tool_calls"] = "required", calls.Several
		}
	case r.Infill != "":
		kind = "infill"
		rename("infill", "text")
	case r.Tokens != nil && r.MaxTokens == 0:
		kind = "infill"
		var ids []any
		for _, id := range r.Tokens {
			if ids = append(ids, id); id == m.Spec().Mask {
				ids[len(ids)-1] = nil
			}
		}
		fields["tokens"] = ids
	case r.Tokens != nil:
		return "", nil
	default:
		kind = "completions"
		fields["prompt"] = r.Prompt
	}
	if kind == "infill" && (r.Cut || r.MaxTokens != 0) {
		return "", nil
	}
	body, err := json.Marshal(fields)
	require.NoError(t, err)
	h = httptest.NewRequest("POST", "/", bytes.NewReader(body))
	h.Header.Set("Content-Type", "application/json")
	return kind, h
}

// formRequest returns a request whose body has fields and the files of a picture as parts.
func formRequest(t require.TestingT, fields map[string]any, in *unmask.ImageInput) *http.Request {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, value := range fields {
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, one := range list {
			require.NoError(t, w.WriteField(name, fmt.Sprint(one)))
		}
	}
	if in.Fit != "" {
		require.NoError(t, w.WriteField("fit", in.Fit))
	}
	for name, file := range map[string]string{"image": in.File, "mask": in.MaskFile} {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		part, err := w.CreateFormFile(name, name+".png")
		require.NoError(t, err)
		_, err = part.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	h := httptest.NewRequest("POST", "/", &body)
	h.Header.Set("Content-Type", w.FormDataContentType())
	return h
}
