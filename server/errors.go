package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"unmask"
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/server/engine"
)

// Fault is an answer that is an error, in OpenAI's shape.
type Fault struct {
	Status  int       // of HTTP
	Code    string    // such as out_of_range
	Param   string    // the field that it is about; "" for none
	Message string    // one line
	Retry   int       // seconds after which to try again; 0: not said
	header  [2]string // one more header
	closes  bool      // the connection
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// kind returns OpenAI's type of error.
func (f *Fault) kind() string {
	switch {
	case f.Status == http.StatusUnauthorized:
		return "authentication_error"
	case f.Status == http.StatusForbidden:
		return "permission_error"
	case f.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case f.Status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// faultBody is the JSON of a fault.
type faultBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func (f *Fault) details() faultBody {
	b := faultBody{Message: f.Message, Type: f.kind(), Code: f.Code}
	if f.Param != "" {
		b.Param = &f.Param
	}
	return b
}

// JSON returns {"error": {...}}.
func (f *Fault) JSON() []byte { return encode(map[string]faultBody{"error": f.details()}) }

// write sends the fault in the dialect of the request that w answers.
func (f *Fault) write(w http.ResponseWriter) {
	h := w.Header()
	for _, name := range []string{"ETag", "Cache-Control", "Unmask-Cache"} {
		h.Del(name)
	}
	if f.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(f.Retry))
	}
	if f.header[0] != "" {
		h.Set(f.header[0], f.header[1])
	}
	if f.closes {
		h.Set("Connection", "close")
	}
	spoken := openAI
	if c, ok := w.(*counting); ok {
		spoken = c.dialect
	}
	writeBody(w, f.Status, jsonType, append(spoken.fault(f, h.Get("X-Request-Id")), '\n'))
}

// bad returns a fault of a request's field.
func bad(code, name, format string, args ...any) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: code, Param: name,
		Message: fmt.Sprintf(format, args...)}
}

// fault returns a fault that is about no field.
func fault(status int, code, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// outOfRange returns the fault "NAME is FOUND, want WANT".
func outOfRange(name string, found any, want string) *Fault {
	return bad("out_of_range", name, "%s is %v, want %s", name, found, want)
}

// missing returns the fault "NAME is missing, want WANT".
func missing(name, want string) *Fault {
	return bad("missing", name, "%s is missing, want %s", name, want)
}

// codes are the codes of refusals by their reason; out_of_range where there is none.
var codes = map[param.Reason]string{param.WrongType: "wrong_type", param.Missing: "missing",
	param.TooLong: "context_length_exceeded", param.NoHole: "no_hole"}

// codesOf are the codes of fields that have one of their own.
var codesOf = map[string]string{"sampler": "unknown_sampler", "schedule": "unknown_schedule"}

// refusal is a field and why it is refused.
type refusal struct {
	field  string
	reason param.Reason
}

// promptUnsupported is the code of a prompt for a model of pictures that reads none.
const promptUnsupported = "prompt_unsupported"

// codesFor are the codes of refusals that have one of their own.
var codesFor = map[refusal]string{
	{"prompt", param.Unsupported}:   promptUnsupported,
	{"messages", param.Unsupported}: "unsupported_parameter",
	{"sampler", param.WrongType}:    "wrong_type",
	{"schedule", param.WrongType}:   "wrong_type",
	{"mask", param.OutOfRange}:      "mask_size",
	{"mask", param.NoHole}:          "mask_empty",
}

// refused returns the fault for an error of the library: the code and the field of a refused value,
// in the words of the error. name is the field to report for any other error.
func refused(name string, err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	code, text := "out_of_range", strings.TrimPrefix(oneLine(err), "generate: ")
	if e, ok := errors.AsType[*param.Error](err); ok {
		name = unmask.FieldName(e.Name)
		code = cmp.Or(codesFor[refusal{name, e.Reason}], codesOf[name], codes[e.Reason], code)
		if rest, found := strings.CutPrefix(text, e.Name); found {
			text = name + rest
		}
		if code == promptUnsupported {
			text += ", or ignore_prompt true"
		}
	}
	return bad(code, name, "%s", text)
}

// jsonCodes are the codes of bodies that are not strict JSON.
var jsonCodes = map[jsonline.Kind]string{
	jsonline.Syntax:        "invalid_json",
	jsonline.NotUTF8:       "invalid_utf8",
	jsonline.TooDeep:       "too_deep",
	jsonline.DuplicateName: "duplicate_key",
}

// failures are the status and the code of calls without an answer.
var failures = map[engine.Kind]struct {
	status int
	code   string
}{
	engine.QueueFull:    {http.StatusTooManyRequests, "queue_full"},
	engine.WaitTooLong:  {http.StatusTooManyRequests, "wait_too_long"},
	engine.ShuttingDown: {http.StatusServiceUnavailable, "shutting_down"},
	engine.Deadline:     {http.StatusGatewayTimeout, "deadline"},
	engine.Cancelled:    {statusGone, "cancelled"},
	engine.StepFailed:   {http.StatusInternalServerError, "step_failed"},
	engine.AnswerFailed: {http.StatusInternalServerError, "answer_failed"},
}

// statusGone is the status that is logged for a client that went before its answer.
const statusGone = 499

// failed returns the fault for a call without an answer.
func failed(err error) *Fault {
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return refused("", err) // of the answer: it is a Fault
	}
	f := fault(failures[e.Kind].status, failures[e.Kind].code, "%s", e.Message)
	f.Retry = e.Retry
	return f
}

// renamed puts the client's name of a field in the place of the library's.
func (f *Fault) renamed(names map[string]string) *Fault {
	if name := names[f.Param]; name != "" {
		if rest, found := strings.CutPrefix(f.Message, f.Param); found {
			f.Message = name + rest
		}
		f.Param = name
	}
	return f
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// encode returns v as JSON. v must be a value that encoding/json can write.
func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("server: JSON of %T: %v", v, err))
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

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
