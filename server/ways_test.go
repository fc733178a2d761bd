package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/internal/requesttest"
	"unmask/param"
	"unmask/server"
)

// The body of an HTTP request prepares what the unmask.Request itself prepares, and is refused when
// that is refused.
func TestBodiesPrepareTheSame(t *testing.T) {
	s, _ := serving(t, server.Options{})
	for _, name := range []string{"demo", "demo-image"} {
		m := loaded()[name]
		prepared := 0
		rapid.Check(t, func(t *rapid.T) {
			r := requesttest.Picture
			if m.Text != nil {
				r = func(t *rapid.T) unmask.Request { return requesttest.Text(t, m.Spec().Mask) }
			}
			if sameBody(t, s, m, r(t)) {
				prepared++
			}
		})
		require.Positive(t, prepared)
	}
}

// sameBody compares what a request and its body prepare, and reports whether both do.
func sameBody(t *rapid.T, s *server.Server, m *unmask.Model, r unmask.Request) bool {
	kind, body := bodyOf(t, m, r)
	if kind == "" {
		return false
	}
	want, wantErr := m.Prepare(context.Background(), r)
	got, err := s.Prepared(kind, body)
	refused, ok := errors.AsType[*param.Error](wantErr)
	switch {
	case ok && refused.Reason == param.NoEffect && (refused.Name == "steps" ||
		refused.Name == "schedule"):
		require.NoError(t, err, "clients give these with every sampler")
		return false
	case wantErr != nil:
		fault, ok := errors.AsType[*server.Fault](err)
		require.True(t, ok, "%s: %v", body, wantErr)
		if r.Infill == "" && r.Tokens == nil { // the routes have other names for these
			require.Equal(t, unmask.FieldName(refused.Name), fault.Param, "%s", body)
		}
		return false
	case m.Spec().Masked(want.Known) == 0:
		require.Error(t, err, "nothing is to be filled")
		return false
	}
	requesttest.RequireSame(t, want, nil, got, err)
	return true
}

// bodyOf returns a request as the body of an HTTP request, and the kind of its route; "" if no
// route takes such a request. Fields have their names in the request's own JSON, except those that
// OpenAI names or that routes have in other forms.
func bodyOf(t *rapid.T, m *unmask.Model, r unmask.Request) (kind string, body []byte) {
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a seed has 64 bits
	require.NoError(t, d.Decode(&fields))
	rename := func(from, to string) {
		if value, ok := fields[from]; ok {
			delete(fields, from)
			fields[to] = value
		}
	}
	rename("index", "first")
	switch {
	case m.Text == nil:
		kind = "images"
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
	body, err = json.Marshal(fields)
	require.NoError(t, err)
	return kind, body
}
