package server

import (
	"encoding/json"
	"slices"

	"unmask"
	"unmask/param"
	"unmask/server/engine"
	"unmask/tokenizers/chat"
)

// saying is what a choice says or, in a stream, what is new of it.
type saying struct {
	index  int
	form   *textForm
	part   bool // it is a piece of a stream
	begins bool // it is the first of the choice
	text   string
	calls  []toolCall       // in a stream, each with its name and id in its first part alone
	finish string           // OpenAI's finish_reason; "" but in a choice's last piece
	shown  *unmask.Rendered // the whole of it, in its last piece
	of     *engine.Member   // and what it was made from
}

// finished sets all that a finished sequence says.
func (p *saying) finished(m *engine.Member) {
	p.shown, p.of = p.form.Render(m.Tokens), m
	p.text, p.finish = p.shown.Text, p.shown.Finish
}

// wire is the shape in which a client's API has the texts that it asked for.
//
// To add an API, write a reader that makes a talk of its request, and a wire. The answer and its
// stream are those of all APIs: the wire only writes them down.
type wire interface {
	whole(made *call, all []saying, used usage) *answer
	writer() writer // of one stream
}

// writer writes a stream.
type writer interface {
	// piece writes what is new of a choice. info is for the field unmask, nil for nothing.
	piece(s *stream, made *call, p *saying, info any) error
	// end writes what comes after all choices: the answer is a, or f is why there is none. count says
	// that the client wants to know how many tokens there are.
	end(s *stream, made *call, a *answer, f *Fault, count bool) error
}

// textAnswer makes the answer of finished sequences.
func textAnswer(made *call) (*answer, *Fault) {
	used := usage{Prompt: made.prompt}
	var all []saying
	for i, m := range made.Members {
		p := saying{index: i, form: &made.forms[i], begins: true}
		p.finished(m)
		used.Completion += p.shown.Count()
		p.divide(made)
		all = append(all, p)
	}
	used.Total = used.Prompt + used.Completion
	a := made.wire.whole(made, all, used)
	a.parts = used
	return a, nil
}

// openAIWire is the wire of OpenAI's first two routes, which have choices.
type openAIWire[Choice any] struct {
	object, chunk string
	choice        func(p *saying) Choice
}

func (w *openAIWire[C]) whole(made *call, all []saying, used usage) *answer {
	out := newChoices[C](made, w.object)
	for i := range all {
		out.Choices = append(out.Choices, w.choice(&all[i]))
	}
	out.Usage, out.Unmask = &used, made.info()
	return &answer{body: encode(out)}
}

func (w *openAIWire[C]) writer() writer { return w }

func (w *openAIWire[C]) piece(s *stream, made *call, p *saying, info any) error {
	out := newChoices[C](made, w.chunk)
	out.Choices, out.Unmask = append(out.Choices, w.choice(p)), info
	return s.send("", "", encode(out))
}

func (w *openAIWire[C]) end(s *stream, made *call, a *answer, f *Fault, count bool) error {
	if f != nil {
		return s.send("", "", f.JSON())
	}
	if used, ok := a.parts.(usage); ok && count {
		out := newChoices[C](made, w.chunk)
		out.Usage = &used
		if err := s.send("", "", encode(out)); err != nil {
			return err
		}
	}
	return s.send("", "", []byte("[DONE]"))
}

// blocks divides a stream into blocks, a text and then calls, for APIs whose events tell where each
// begins and ends.
type blocks struct {
	s    *stream
	made *call
	sent int    // events
	n    int    // blocks that have begun
	at   *block // that is open
	err  error  // after which nothing is sent
}

type block struct {
	index  int
	call   *toolCall // nil: it is the text
	text   string    // or the call's arguments, so far
	finish string    // of the choice, when it ends with the block
	logs   *chatLogs // of the text, when it ends
}

// blockEvents writes the events of blocks.
type blockEvents interface {
	begin(b *block)
	more(b *block, text string)
	done(b *block)
}

// take writes what is new.
func (t *blocks) take(to blockEvents, s *stream, made *call, p *saying) error {
	t.s, t.made = s, made
	next := func(call *toolCall) {
		if t.at != nil {
			to.done(t.at)
		}
		t.at = &block{index: t.n, call: call}
		t.n++
		to.begin(t.at)
	}
	add := func(text string) {
		if text != "" {
			t.at.text += text
			to.more(t.at, text)
		}
	}
	if p.text != "" || p.finish != "" && t.n == 0 && p.calls == nil {
		if t.at == nil {
			next(nil)
		}
		add(p.text)
	}
	for i := range p.calls {
		if p.calls[i].ID != "" {
			next(&p.calls[i])
		}
		add(p.calls[i].Function.Arguments)
	}
	if p.finish != "" {
		t.at.finish, t.at.logs = p.finish, p.logs()
		to.done(t.at)
	}
	return t.err
}

// send writes an event whose data have its name as type.
func (t *blocks) send(name string, data map[string]any) {
	data["type"] = name
	if t.err == nil {
		t.err = t.s.send(name, "", encode(data))
	}
	t.sent++
}

// set sets a field of the chat that the client's API has by another name, from.
func (f *fields) set(name, from string, value any) {
	f.refuse(f.has(name),
		bad("unknown_parameter", name, "unknown field %s, did you mean %s?", param.Quote(name),
			from))
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
	type tool struct { // in the order in which templates show it
		Type     string `json:"type"`
		Function struct {
			Name        json.RawMessage `json:"name,omitempty"`
			Description json.RawMessage `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
			Strict      json.RawMessage `json:"strict,omitempty"`
		} `json:"function"`
	}
	tools := []tool{}
	f.each("tools", maxTools, func(o *fields) {
		o.word("type", kind)
		o.known = append(o.known, ignored...)
		t := tool{Type: "function"}
		of := &t.Function
		of.Name, of.Description = o.value("name"), o.value("description")
		of.Parameters, of.Strict = o.value(schema), o.value("strict")
		tools = append(tools, t)
	})
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
