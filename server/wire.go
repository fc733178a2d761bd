package server

import (
	"encoding/json"
	"fmt"
	"slices"

	"unmask/param"
	"unmask/tokenizers/chat"
)

// wire is the shape in which a client's API has the answer to a conversation. Its fields are what
// the answer repeats of the request, and are part of the answer's key as JSON.
//
// To add an API, write a reader that makes a talk of its request, and a wire. The answer and its
// stream are the chat's: the wire only writes them down.
type wire interface {
	whole(made *call, c *chatCompletion) *answer
	writer() chatWriter // of one stream
}

// chatWriter writes the stream of a conversation.
type chatWriter interface {
	// piece writes what is new of a choice: c.Delta has its text, nil for none, and its calls, each
	// with its name in its first part alone. The choice's last piece has c.Finish. p is for fields
	// that unmask adds.
	piece(s *stream, made *call, c *chatChoice, p *part) error
	// end is chunker's.
	end(s *stream, made *call, a *answer, f *Fault, count bool) error
}

// openAIChat is the wire of /v1/chat/completions.
type openAIChat struct{}

func (openAIChat) whole(_ *call, c *chatCompletion) *answer { return &answer{body: encode(c)} }

func (openAIChat) writer() chatWriter { return openAIPieces{} }

// openAIPieces has the choices whose first chunk was sent: it has the role.
type openAIPieces map[int]bool

func (begun openAIPieces) piece(s *stream, made *call, c *chatChoice, p *part) error {
	if !begun[c.Index] {
		begun[c.Index], c.Delta.Role = true, "assistant"
	}
	out := made.chatCompletion("chat.completion.chunk")
	out.Choices, out.Unmask = []chatChoice{*c}, p.info()
	return s.send("", "", encode(out))
}

func (openAIPieces) end(s *stream, made *call, a *answer, f *Fault, count bool) error {
	if !count {
		return s.done(a, f, nil)
	}
	return s.done(a, f, func(used usage) any {
		out := made.chatCompletion("chat.completion.chunk")
		out.Choices, out.Usage = []chatChoice{}, &used
		return out
	})
}

// events writes named events whose data have their name as type. After an error it writes none.
type events struct {
	n   int // that were written
	err error
}

func (e *events) send(s *stream, name string, data map[string]any) {
	data["type"] = name
	if e.err == nil {
		e.err = s.send(name, "", encode(data))
	}
	e.n++
}

// set sets a field of the chat that the client's API has by another name, from.
func (f *fields) set(name, from string, value any) {
	if f.has(name) {
		f.fail(bad("unknown_parameter", name, "unknown field %s, did you mean %s?", param.Quote(name),
			from))
	}
	f.object[name] = encode(value)
}

// rename gives a field of the client's API its name in the chat.
func (f *fields) rename(from, to string) {
	if raw := f.value(from); raw != nil {
		f.set(to, from, raw)
	}
}

// flatTools gives tools the chat's form. Each has the fields of a function beside its type, kind;
// its parameters are in schema. The fields of ignored change no answer.
func (f *fields) flatTools(kind, schema string, ignored ...string) {
	raw := f.value("tools")
	if raw == nil {
		return
	}
	type function struct {
		Name        json.RawMessage `json:"name,omitempty"`
		Description json.RawMessage `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      json.RawMessage `json:"strict,omitempty"`
	}
	tools := []any{}
	for i, one := range f.list("tools", raw) {
		f.inner(fmt.Sprintf("tools[%d]", i), one, func(o *fields) {
			o.word("type", kind)
			tools = append(tools, struct {
				Type     string   `json:"type"`
				Function function `json:"function"`
			}{"function", function{o.value("name"), o.value("description"), o.value(schema),
				o.value("strict")}})
			o.known = append(o.known, ignored...)
		})
	}
	f.object["tools"] = encode(tools)
}

// choiceOf is the chat's tool_choice of one function.
func choiceOf(name string) any {
	return map[string]any{"type": "function", "function": map[string]string{"name": name}}
}

// said returns a message of text alone.
func said(role, text string) message {
	return message{Message: chat.Message{Role: role, Content: text}}
}

// called adds a call to a conversation whose last message may be the assistant's that made it.
func called(list []message, call messageCall) []message {
	if n := len(list); n == 0 || list[n-1].Role != "assistant" {
		list = append(list, said("assistant", ""))
	}
	last := &list[len(list)-1]
	last.Calls = append(slices.Clip(last.Calls), call)
	return list
}
