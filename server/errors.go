package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"unmask"
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/server/engine"
)

// Fault is an answer that is an error, in OpenAI's shape.
type Fault struct {
	// Status is that of HTTP.
	Status int

	// Code is for programs, such as out_of_range.
	Code string

	// Param is the field that the fault is about, "" for none.
	Param string

	// Message is one line.
	Message string

	// Retry is the number of seconds after which to try again, 0 where none is known.
	Retry int

	// header is the name and the value of one more header, "" for none.
	header [2]string

	// closes reports whether the connection ends after the answer.
	closes bool
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// openAIType returns OpenAI's type of error.
func (f *Fault) openAIType() string {
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

// body returns the fault as OpenAI's clients read it.
func (f *Fault) body() faultBody {
	b := faultBody{Message: faultText(f.Message, maxFaultMessage), Type: f.openAIType(), Code: f.Code}
	if f.Param != "" {
		name := faultText(f.Param, maxFaultName)
		b.Param = &name
	}
	return b
}

// JSON returns {"error": {...}}.
func (f *Fault) JSON() []byte { return encodeJSON(map[string]faultBody{"error": f.body()}) }

// write sends the fault in the dialect of the request that w answers.
func (f *Fault) write(w http.ResponseWriter) {
	h := w.Header()
	for _, name := range []string{"ETag", "Cache-Control", "Unmask-Cache"} {
		h.Del(name) // which an answer would have had
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
	d := openAI
	if sw, ok := w.(*statusWriter); ok {
		d = sw.dialect
	}
	body := d.encodeFault(f, h.Get("X-Request-Id"))
	writeBody(w, f.Status, jsonType, append(body, '\n'))
}

// Bounds of what a fault repeats of a request, in bytes.
const (
	maxFaultName    = 128
	maxFaultMessage = 600
)

// fieldFault returns a fault of a request's field.
func fieldFault(code, name, format string, args ...any) *Fault {
	f := newFault(http.StatusBadRequest, code, format, args...)
	f.Param = shorten(name, maxFaultName)
	return f
}

// newFault returns a fault that is about no field.
func newFault(status int, code, format string, args ...any) *Fault {
	message := shorten(fmt.Sprintf(format, args...), maxFaultMessage)
	return &Fault{Status: status, Code: code, Message: message}
}

// faultText returns a text as an answer may repeat it: one line of at most so many bytes, in which
// characters that no reader sees, or that move others, are spelled out.
func faultText(text string, maxBytes int) string {
	text = shorten(text, maxBytes)
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return shorten(b.String(), maxBytes)
}

// shorten returns a text of at most so many bytes, and "..." where there are more.
func shorten(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "..."
}

// rangeFault returns the fault "NAME is FOUND, want WANT".
func rangeFault(name string, found any, want string) *Fault {
	return fieldFault("out_of_range", name, "%s is %v, want %s", name, found, want)
}

// missingFault returns the fault "NAME is missing, want WANT".
func missingFault(name, want string) *Fault {
	return fieldFault("missing", name, "%s is missing, want %s", name, want)
}

// codeOfReason has the codes of refusals by their reason. Other reasons are out_of_range.
var codeOfReason = map[param.Reason]string{
	param.WrongType: "wrong_type",
	param.Missing:   "missing",
	param.TooLong:   "context_length_exceeded",
	param.NoHole:    "no_hole",
}

// codeOfField has the codes of fields that have one of their own, whatever the reason.
var codeOfField = map[string]string{
	"sampler":  "unknown_sampler",
	"schedule": "unknown_schedule",
}

// refusalKey is a field and why it is refused.
type refusalKey struct {
	field  string
	reason param.Reason
}

// promptUnsupported is the code of a prompt for a model of pictures that reads none.
const promptUnsupported = "prompt_unsupported"

// codeOfRefusal has the codes of refusals that have one of their own.
var codeOfRefusal = map[refusalKey]string{
	{"prompt", param.Unsupported}:   promptUnsupported,
	{"messages", param.Unsupported}: "unsupported_parameter",
	{"sampler", param.WrongType}:    "wrong_type",
	{"schedule", param.WrongType}:   "wrong_type",
	{"mask", param.OutOfRange}:      "mask_size",
	{"mask", param.NoHole}:          "mask_empty",
}

// faultOf returns the fault for an error of the library: the code and the field of a refused value,
// in the words of the error. name is the field to report for any other error.
func faultOf(name string, err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	code := "out_of_range"
	text := strings.TrimPrefix(oneLine(err), "generate: ")
	if e, ok := errors.AsType[*param.Error](err); ok {
		name = unmask.FieldName(e.Name)
		code = cmp.Or(codeOfRefusal[refusalKey{name, e.Reason}], codeOfField[name],
			codeOfReason[e.Reason], code)
		if rest, found := strings.CutPrefix(text, e.Name); found {
			text = name + rest
		}
		if code == promptUnsupported {
			text += ", or ignore_prompt true"
		}
	}
	return fieldFault(code, name, "%s", text)
}

// jsonCodes are the codes of bodies that are not strict JSON.
var jsonCodes = map[jsonline.Kind]string{
	jsonline.Syntax:        "invalid_json",
	jsonline.NotUTF8:       "invalid_utf8",
	jsonline.TooDeep:       "too_deep",
	jsonline.TooMany:       "too_many_values",
	jsonline.DuplicateName: "duplicate_key",
}

// statusOfKind has the status and the code of calls without an answer.
var statusOfKind = map[engine.Kind]struct {
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

// statusGone is the status that is logged for a client that went before its answer, as nginx has
// it.
const statusGone = 499

// callFault returns the fault for a call without an answer.
func callFault(err error) *Fault {
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return faultOf("", err) // making the answer returned a Fault
	}
	known := statusOfKind[e.Kind]
	f := newFault(known.status, known.code, "%s", e.Message)
	f.Retry = e.Retry
	return f
}

// renameParam puts the client's name of a field in the place of the library's.
func (f *Fault) renameParam(names map[string]string) *Fault {
	name := names[f.Param]
	if name == "" {
		return f
	}
	if rest, found := strings.CutPrefix(f.Message, f.Param); found {
		f.Message = name + rest
	}
	f.Param = name
	return f
}

// oneLine returns an error's text without line breaks, which a header or a log line cannot have.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// encodeJSON returns v as JSON. v must be a value that encoding/json can write. The characters <, >
// and & stay as they are: no answer is HTML.
func encodeJSON(v any) []byte {
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
	// encodeFault returns the body of an error. requestID is that of X-Request-Id.
	encodeFault func(f *Fault, requestID string) []byte

	// streamType is the content type of streams.
	streamType string

	// heartbeat is what a stream sends while nothing else comes, so that proxies do not end it.
	heartbeat string

	// takesAnyType reports whether clients may name any content type for a body, or none.
	takesAnyType bool
}

var (
	openAI = &dialect{
		encodeFault: func(f *Fault, _ string) []byte { return f.JSON() },
		streamType:  "text/event-stream; charset=utf-8",
		heartbeat:   ": still here\n\n",
	}
	anthropic = &dialect{
		encodeFault: encodeAnthropicFault,
		streamType:  openAI.streamType,
		heartbeat:   "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	}
	ollama = &dialect{
		encodeFault: encodeOllamaFault,
		streamType:  "application/x-ndjson",
		heartbeat: `{"message":{"role":"assistant","content":""},"response":"","done":false}` +
			"\n",
		takesAnyType: true,
	}
)

// anthropicTypes are Anthropic's types of errors by status. Others are OpenAI's.
var anthropicTypes = map[int]string{
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
	http.StatusInternalServerError:   "api_error",
}

// encodeAnthropicFault returns {"type": "error", "error": {...}}, with OpenAI's code and param too.
func encodeAnthropicFault(f *Fault, requestID string) []byte {
	b := f.body()
	b.Type = cmp.Or(anthropicTypes[f.Status], b.Type)
	return encodeJSON(struct {
		Type  string    `json:"type"`
		Error faultBody `json:"error"`
		ID    string    `json:"request_id"`
	}{"error", b, requestID})
}

// encodeOllamaFault returns {"error": "..."}.
func encodeOllamaFault(f *Fault, _ string) []byte {
	return encodeJSON(map[string]string{"error": f.Message})
}
