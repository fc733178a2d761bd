package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/generate"
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/tokenizers/chat"
)

// roles are the roles that a message can have.
var roles = []string{"system", "user", "assistant", "tool"}

// maxMessages bounds a conversation.
const maxMessages = 1024

// chatNames are the fields of /v1/chat/completions that a request has by other names.
var chatNames = map[string]string{"calls": "tools", "length": "max_tokens"}

// chats reads POST /v1/chat/completions.
func (s *Server) chats(r *http.Request, f *fields) (query, streaming) {
	var list []message
	f.messages(func(o *fields) { list = append(list, messageOf(o)) })
	return s.converse(r, f, talk{"chat", "chatcmpl-", nil, chatWire, list})
}

// talk is a request of any API for the answer to a conversation. Its fields have the names and the
// values of /v1/chat/completions, except for its messages.
type talk struct {
	kind, prefix string            // see query
	names        map[string]string // the client's names of the chat's fields where they differ
	wire         wire
	messages     []message
}

// converse reads a request for the answer to a conversation.
func (s *Server) converse(r *http.Request, f *fields, t talk) (q query, st streaming) {
	defer func() {
		if f.fault != nil && f.fault.Code != "unknown_parameter" {
			f.fault.renamed(t.names)
		}
	}()
	m := s.model(f, wantsChat)
	if m == nil {
		return q, st
	}
	if m.chat == nil {
		f.fail(bad("no_chat_template", "model", "%s, use /v1/completions", oneLine(m.chatless)))
		return q, st
	}
	set, st, logs := t.read(f, m)
	q.sequences = set.prepare(r.Context(), f, m, chatNames, nil, set.request)
	if f.fault != nil {
		return q, st
	}
	form := m.textForm(&set.request, &q.sequences[0], logs)
	forms := slices.Repeat([]textForm{form}, set.n)
	set.checkTop(f, "top_logprobs", q.sequences, m)
	q.kind, q.prefix, q.model, q.set, q.forms = t.kind, t.prefix, m, set, forms
	if q.form = forms; t.wire != chatWire {
		q.form = []any{forms, t.wire}
	}
	if note := m.TemplateNote(set.request.Messages); note != "" {
		q.notes = []string{note}
		q.form = []any{q.form, q.notes}
	}
	q.prompt, q.wire, q.answers = form.From, t.wire, textAnswer
	return q, st
}

// read reads the fields, and whether log-probabilities are asked for.
func (t *talk) read(f *fields, m *servedModel) (set settings, st streaming, logs bool) {
	set, st = readSettings(f), readStream(f)
	logs = f.flag("logprobs")
	if set.top = f.maybe("top_logprobs", 0, generate.MaxTop, 0); set.top > 0 && !logs {
		f.fail(outOfRange("top_logprobs", set.top, "0, or logprobs true"))
	}
	textOnly(f, &set, m)
	set.request.Tools = set.tools(f, m)
	f.decode("chat_template_kwargs", &set.request.Variables,
		"an object of true, false, texts, whole numbers or null")
	f.refuse(st.form == "diffusing" && set.request.Calls != nil,
		bad("unsupported_parameter", "diffusing", "diffusing is true with tools, want it left out"))
	if t.wire != chatWire {
		f.refuse(set.n != 1, outOfRange("n", set.n, "1"))
		f.refuse(st.form == "diffusing" || st.steps,
			bad("unsupported_parameter", "stream", "stream has steps, want settled text alone"))
	}
	set.readLength(f)
	checkResults(f, t.messages)
	set.request.Messages = encode(t.messages)
	return set, st, logs
}

// checkResults refuses the result of a call that no assistant made before it.
func checkResults(f *fields, messages []message) {
	ids := map[string]bool{"": true}
	for _, m := range messages {
		for _, call := range m.Calls {
			ids[call.ID] = true
		}
		f.refuse(!ids[m.CallID], bad("out_of_range", "messages",
			"messages has a result of the call %s, want the call before it", param.Quote(m.CallID)))
	}
}

// messages reads a list of messages that must be there.
func (f *fields) messages(read func(o *fields)) {
	switch string(f.value("messages")) {
	case "":
		f.fail(missing("messages", "a list of messages"))
	case "[]":
		f.fail(bad("out_of_range", "messages", "messages is a list of 0, want 1 to %d", maxMessages))
	}
	f.each("messages", maxMessages, read)
}

// message is one of a conversation, as chat templates have it.
type message struct {
	chat.Message
	Calls  []messageCall `json:"tool_calls,omitempty"`
	CallID string        `json:"tool_call_id,omitempty"` // of the call that a tool answers
}

// role reads the role of a message.
func (o *fields) role(roles ...string) string {
	role := o.text("role")
	if role == "developer" { // OpenAI's newer name
		role = "system"
	}
	o.refuse(!slices.Contains(roles, role),
		outOfRange("role", param.Quote(role), param.JoinOr(roles)))
	return role
}

func messageOf(o *fields) (m message) {
	m.Role = o.role(roles...)
	if m.Role == "assistant" {
		m.Calls = readCalls(o)
	} else {
		o.neutral("tool_calls", "[]")
	}
	if m.Role == "tool" {
		m.CallID = o.text("tool_call_id")
	}
	open := len(m.Calls) > 0 || m.Role == "assistant" && string(o.raw("content")) == "null"
	if o.value("content") != nil || !open {
		m.Content = readContent(o, "content", "text")
	}
	o.neutral("reasoning_content", `""`)
	for _, name := range []string{"name", "refusal", "parsed", "function_call", "audio"} {
		o.neutral(name) // no template has a place for it, but OpenAI's package sends what it has read
	}
	o.neutral("annotations", "[]")
	return m
}

// partFields are fields of a part of a text that have no place in a template.
var partFields = []string{"annotations", "logprobs", "cache_control", "citations"}

// readContent reads a text, or a list of parts of some types that are texts.
func readContent(o *fields, name string, kinds ...string) string {
	raw := o.value(name)
	o.refuse(raw == nil, missing(name, "a text"))
	if o.fault != nil {
		return ""
	}
	if raw[0] == '"' {
		return o.textOf(name, raw)
	}
	var text strings.Builder
	for _, one := range o.list(name, raw) {
		part := &fields{known: slices.Clone(partFields)}
		if json.Unmarshal(one, &part.object) != nil {
			o.wrongType(name, one, "a list of parts")
			return ""
		}
		if kind := part.text("type"); !slices.Contains(kinds, kind) {
			o.fail(bad("unsupported_parameter", name, "%s has a part of type %s, want %s", name,
				param.Quote(kind), param.JoinOr(kinds)))
			return ""
		}
		text.WriteString(part.text("text"))
		if fault := part.end(); fault != nil {
			o.fail(fault)
			return ""
		}
	}
	return text.String()
}

type chatChoice struct {
	Index    int          `json:"index"`
	Message  *chatMessage `json:"message,omitempty"`
	Delta    *chatMessage `json:"delta,omitempty"`
	LogProbs *chatLogs    `json:"logprobs"`
	Finish   *string      `json:"finish_reason"`
	// of guided_choice: each text with its probability
	Choices []constrain.Choice `json:"choices,omitempty"`
}

type chatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// chatLogs are the log-probabilities of an answer's tokens when they opened.
type chatLogs struct {
	Content []chatLog `json:"content"`
}

type chatLog struct {
	chatToken
	Top []chatToken `json:"top_logprobs"`
}

type chatToken struct {
	Token   string   `json:"token"`
	LogProb *float64 `json:"logprob"` // null where it is not known
	Bytes   []int    `json:"bytes"`
}

func newChatToken(bytes string, logP *float64) chatToken {
	t := chatToken{Token: validText(bytes), LogProb: logP, Bytes: []int{}}
	for _, b := range []byte(bytes) {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// chatWire is the wire of /v1/chat/completions.
var chatWire = &openAIWire[chatChoice]{"chat.completion", "chat.completion.chunk", chatOf}

func chatOf(p *saying) chatChoice {
	m := &chatMessage{Content: &p.text, ToolCalls: p.calls}
	if p.text == "" && p.form.Calls != nil {
		m.Content = nil
	}
	if p.begins {
		m.Role = "assistant"
	}
	c := chatChoice{Index: p.index, LogProbs: p.logs()}
	if p.shown != nil {
		c.Finish, c.Choices = &p.finish, p.of.Choices
	}
	if c.Message = m; p.part {
		c.Message, c.Delta = nil, m
	}
	return c
}

// logs returns the log-probabilities, nil where they are not asked for or not there yet.
func (p *saying) logs() *chatLogs {
	if p.shown == nil || !p.form.LogProbs {
		return nil
	}
	out := &chatLogs{Content: []chatLog{}}
	for _, t := range p.shown.Tokens() {
		one := chatLog{newChatToken(t.Bytes, jsonline.FiniteOrNil(p.of.LogP[t.Position])), []chatToken{}}
		if p.of.Top != nil {
			for _, l := range p.of.Top[t.Position] {
				if text, ok := p.form.model.Text.Token(l.Token); ok {
					one.Top = append(one.Top, newChatToken(text, &l.LogP))
				}
			}
		}
		out.Content = append(out.Content, one)
	}
	return out
}
