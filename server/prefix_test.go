package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// URLs of pictures lead back through the prefix under which a program mounts the server.
func TestPicturesUnderAPrefix(t *testing.T) {
	s, _ := serving(t, server.Options{})
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", s.Handler()))
	mux.Handle("/", s.Handler())
	h := httptest.NewServer(mux)
	defer h.Close()
	for _, prefix := range []string{"/ai", ""} {
		status, _, data := post(t, h.URL+prefix+"/v1/images/generations?x=/v1/images/generations",
			`{"model":"demo-image","steps":2,"seed":3,"response_format":"url"}`)
		require.Equal(t, 200, status, "%s", data)
		var out struct{ Data []struct{ URL string } }
		require.NoError(t, json.Unmarshal(data, &out))
		require.Regexp(t, "^"+h.URL+prefix+"/v1/results/", out.Data[0].URL)
		status, header, _ := get(t, out.Data[0].URL)
		require.Equal(t, 200, status)
		require.Equal(t, "image/png", header.Get("Content-Type"))
	}
}
