package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// A program of one's own serves a model beside its other routes.
func Example() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	s, err := server.New(server.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	if err := s.Add(server.Model{Name: "demo", Model: m}); err != nil {
		panic(err)
	}
	listener := httptest.NewServer(s.Handler()) // or http.ListenAndServe(address, s.Handler())
	defer listener.Close()

	a, err := http.Post(listener.URL+"/v1/infill", "application/json",
		strings.NewReader(`{"parts": ["Once upon a time there", 3, " girl named Lily."], "seed": 1}`))
	if err != nil {
		panic(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		panic(err)
	}
	_, text, _ := strings.Cut(string(body), `"text":"`)
	text, _, _ = strings.Cut(text, `"`)
	fmt.Println(a.Status, strings.HasSuffix(text, " girl named Lily."))
	// Output: 200 OK true
}
