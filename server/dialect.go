package server

import (
	"cmp"
	"net/http"
	"strings"
)

// dialect is what all answers to clients of one API have in common.
type dialect struct {
	fault  func(f *Fault, id string) []byte // the body of an error; id is the request's
	stream string                           // the content type of streams
	beat   string                           // what a stream sends while nothing else comes
}

var (
	openAI = &dialect{func(f *Fault, _ string) []byte { return f.JSON() },
		"text/event-stream; charset=utf-8", ": still here\n\n"}
	anthropic = &dialect{anthropicFault, openAI.stream, "event: ping\ndata: {\"type\":\"ping\"}\n\n"}
	ollama    = &dialect{ollamaFault, "application/x-ndjson",
		`{"message":{"role":"assistant","content":""},"response":"","done":false}` + "\n"}
)

// dialectOf returns the dialect in which a request is answered, also where its route is not there.
func dialectOf(r *http.Request) *dialect {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/api/"):
		return ollama
	case path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/") ||
		r.Header.Get("Anthropic-Version") != "":
		return anthropic
	}
	return openAI
}

// anthropicKinds are Anthropic's types of errors by status; others are OpenAI's.
var anthropicKinds = map[int]string{http.StatusNotFound: "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusServiceUnavailable:    "overloaded_error", http.StatusGatewayTimeout: "timeout_error",
	http.StatusInternalServerError: "api_error"}

// anthropicFault returns {"type": "error", "error": {...}}, with OpenAI's code and param too.
func anthropicFault(f *Fault, id string) []byte {
	b := f.details()
	b.Type = cmp.Or(anthropicKinds[f.Status], b.Type)
	return encode(struct {
		Type  string    `json:"type"`
		Error faultBody `json:"error"`
		ID    string    `json:"request_id"`
	}{"error", b, id})
}

// ollamaFault returns {"error": "..."}.
func ollamaFault(f *Fault, _ string) []byte {
	return encode(map[string]string{"error": f.Message})
}
