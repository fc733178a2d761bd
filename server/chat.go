package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/tokenizers/chat"
)

// roles are the roles that a message can have.
var roles = []string{"system", "user", "assistant", "tool"}

// maxMessages bounds a conversation.
const maxMessages = 1024

// readChat reads POST /v1/chat/completions.
func (s *Server) readChat(r *http.Request, f *fields) (query, streamOptions) {
	t := chatRequest{modelName: f.text("model"), messagesField: "messages"}
	t.kind = "chat"
	t.idPrefix = "chatcmpl-"
	t.wire = chatWire
	f.readMessages(func(o *fields) { t.messages = append(t.messages, readChatMessage(o)) })
	t.stream = readStreamOptions(f)
	t.readLogProbs(f)
	t.readStopAndFormat(f)
	t.tools.readChatTools(f)
	t.readMaxTokens(f, "max_tokens")
	return s.readConversation(r, f, t)
}

// readConversation reads a request for the answer to a conversation.
func (s *Server) readConversation(r *http.Request, f *fields, t chatRequest) (q query,
	options streamOptions) {
	m := s.findModel(f, t.modelName, f.has("model"), needsChat)
	if m == nil {
		return q, options
	}
	if m.chat == nil {
		f.fail(fieldFault("no_chat_template", "model", "%s, use /v1/completions",
			oneLine(m.noChatReason)))
		return q, options
	}
	t.messages = withoutEmptySystem(t.messages)
	set := t.readSettings(f, m)
	names := t.libraryNames()
	names["calls"] = "tools"
	names["messages"] = t.messagesField
	q.sequences = set.prepare(r.Context(), f, m, names, nil, set.request)
	if f.fault != nil {
		return q, options
	}

	form := m.textForm(&set.request, &q.sequences[0], t.logProbs)
	set.checkTop(f, t.topField, q.sequences, m)
	q.kind = t.kind
	q.idPrefix = t.idPrefix
	q.model = m
	q.settings = set
	q.textForms = slices.Repeat([]textForm{form}, set.n)
	q.promptTokens = form.From
	q.wire = t.wire
	q.makeAnswer = answerTexts

	q.answerKey = q.textForms
	if t.wire != chatWire {
		q.answerKey = []any{q.textForms, t.wire}
	}
	if note := m.TemplateNote(set.request.Messages); note != "" {
		q.notes = []string{note}
		q.answerKey = []any{q.answerKey, q.notes}
	}
	return q, t.stream
}

// readSettings returns the settings of a conversation's answer. It reads the fields that all APIs
// call the same.
func (t *chatRequest) readSettings(f *fields, m *servedModel) settings {
	set := readSettings(f)
	set.readTextFields(f, m, &t.textRequest)
	set.setCalls(f, m, &t.tools)
	f.decode("chat_template_kwargs", &set.request.Variables,
		"an object of true, false, texts, whole numbers or null")
	f.failIf(t.stream.form == streamsDiffusing && set.request.Calls != nil,
		fieldFault("unsupported_parameter", "diffusing",
			"diffusing is true with tools, want it left out"))
	if t.wire != chatWire { // other APIs have no place for these
		f.failIf(set.n != 1, rangeFault("n", set.n, "1"))
		f.failIf(t.stream.form == streamsDiffusing || t.stream.withSteps,
			fieldFault("unsupported_parameter", "stream",
				"stream has steps, want settled text alone"))
	}
	t.checkToolResults(f)
	set.request.Messages = encodeJSON(t.messages)
	return set
}

// checkToolResults refuses the result of a call that no assistant made before it.
func (t *chatRequest) checkToolResults(f *fields) {
	known := map[string]bool{"": true}
	for _, m := range t.messages {
		for _, call := range m.Calls {
			known[call.ID] = true
		}
		f.failIf(!known[m.CallID], fieldFault("out_of_range", t.messagesField,
			"%s has a result of the call %s, want the call before it", t.messagesField,
			param.Quote(m.CallID)))
	}
}

// readMessages reads a list of messages that must be there.
func (f *fields) readMessages(read func(o *fields)) {
	switch string(f.value("messages")) {
	case "":
		f.fail(missingFault("messages", "a list of messages"))
	case "[]":
		f.fail(fieldFault("out_of_range", "messages", "messages is a list of 0, want 1 to %d",
			maxMessages))
	}
	f.readObjects("messages", maxMessages, read)
}

// message is one of a conversation, as chat templates have it.
type message struct {
	chat.Message
	Calls []messageCall `json:"tool_calls,omitempty"`

	// CallID is the id of the call that a tool answers.
	CallID string `json:"tool_call_id,omitempty"`

	// Reasoning is what an assistant thought before it said anything.
	Reasoning string `json:"reasoning_content,omitempty"`
}

// readReasoning reads the thoughts of a message, which only an assistant has.
func (m *message) readReasoning(o *fields, names ...string) {
	for _, name := range names {
		if m.Role != "assistant" || m.Reasoning != "" {
			o.requireNeutral(name, `""`)
		} else if o.value(name) != nil {
			m.Reasoning = o.text(name)
		}
	}
}

// withoutEmptySystem returns a conversation without system messages that say nothing, which are
// none, as on the command line. The last message stays.
func withoutEmptySystem(messages []message) []message {
	var kept []message
	for i, m := range messages {
		if m.Role != "system" || m.Content != "" || i == len(messages)-1 {
			kept = append(kept, m)
		}
	}
	return kept
}

// role reads the role of a message, one of those that are allowed.
func (f *fields) role(allowed ...string) string {
	role := f.text("role")
	if role == "developer" { // OpenAI's newer name
		role = "system"
	}
	f.failIf(!slices.Contains(allowed, role),
		rangeFault("role", param.Quote(role), param.JoinOr(allowed)))
	return role
}

// readChatMessage reads a message of /v1/chat/completions.
func readChatMessage(o *fields) (m message) {
	m.Role = o.role(roles...)
	if m.Role == "assistant" {
		m.Calls = readCalls(o)
	} else {
		o.requireNeutral("tool_calls", "[]")
	}
	if m.Role == "tool" {
		m.CallID = o.text("tool_call_id")
	}

	// An assistant that made calls need not have said anything.
	mayBeEmpty := len(m.Calls) > 0 || m.Role == "assistant" && string(o.raw("content")) == "null"
	if o.value("content") != nil || !mayBeEmpty {
		m.Content = readContent(o, "content", "text")
	}
	m.readReasoning(o, "reasoning_content", "reasoning") // vLLM's names, the second is the newer one
	// No template has a place for these, but OpenAI's package sends what it has read.
	for _, name := range []string{"name", "refusal", "parsed", "function_call", "audio"} {
		o.requireNeutral(name)
	}
	o.requireNeutral("annotations", "[]")
	return m
}

// partFields are fields of a part of a text that have no place in a template.
var partFields = []string{"annotations", "logprobs", "cache_control", "citations"}

// readContent reads a text, or a list of parts of some types that are texts.
func readContent(o *fields, name string, types ...string) string {
	raw := o.value(name)
	if raw == nil {
		o.fail(missingFault(name, "a text"))
	}
	if o.fault != nil {
		return ""
	}
	if raw[0] == '"' {
		return o.parseText(name, raw)
	}

	var content strings.Builder
	for _, element := range o.parseList(name, raw) {
		part := &fields{}
		part.accept(partFields...)
		if json.Unmarshal(element, &part.object) != nil {
			o.failType(name, element, "a list of parts")
			return ""
		}
		if partType := part.text("type"); !slices.Contains(types, partType) {
			o.fail(fieldFault("unsupported_parameter", name, "%s has a part of type %s, want %s",
				name, param.Quote(partType), param.JoinOr(types)))
			return ""
		}
		content.WriteString(part.text("text"))
		if fault := part.finish(); fault != nil {
			o.fail(fault)
			return ""
		}
	}
	return content.String()
}

// chatChoice is a choice of /v1/chat/completions, with a message as a whole or a delta in a stream.
type chatChoice struct {
	Index    int          `json:"index"`
	Message  *chatMessage `json:"message,omitempty"`
	Delta    *chatMessage `json:"delta,omitempty"`
	LogProbs *chatLogs    `json:"logprobs"`
	Finish   *string      `json:"finish_reason"`

	// Choices are the texts of guided_choice with their probabilities.
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

// list returns the log-probabilities of all tokens. It is never nil, because clients expect a list.
func (l *chatLogs) list() []chatLog {
	if l == nil {
		return []chatLog{}
	}
	return l.Content
}

// chatLog is a token of the answer and the most probable ones in its place.
type chatLog struct {
	chatToken
	Top []chatToken `json:"top_logprobs"`
}

type chatToken struct {
	Token string `json:"token"`

	// LogProb is null where it is not known.
	LogProb *float64 `json:"logprob"`

	Bytes []int `json:"bytes"`
}

// newChatToken returns a token in the form of logprobs. A token may be a part of a character, so
// its bytes are there too.
func newChatToken(bytes string, logP *float64) chatToken {
	t := chatToken{Token: validText(bytes), LogProb: logP, Bytes: []int{}}
	for _, b := range []byte(bytes) {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// chatWire is the wire of /v1/chat/completions.
var chatWire = &openAIWire[chatChoice]{object: "chat.completion", chunk: "chat.completion.chunk",
	newChoice: newChatChoice}

// newChatChoice returns a choice of a chat completion or, in a stream, of a chunk, which has what
// is new. content is null where there are calls alone, as clients expect.
func newChatChoice(u *choiceUpdate) chatChoice {
	m := &chatMessage{Content: &u.text, ToolCalls: u.calls}
	if u.text == "" && u.form.Calls != nil {
		m.Content = nil
	}
	if u.isFirst {
		m.Role = "assistant"
	}
	c := chatChoice{Index: u.index, LogProbs: u.chatLogs()}
	if u.rendered != nil {
		c.Finish = &u.finish
		c.Choices = u.member.Choices
	}
	if u.isDelta {
		c.Delta = m
	} else {
		c.Message = m
	}
	return c
}

// chatLogs returns the log-probabilities, nil where they are not asked for or not there yet.
func (u *choiceUpdate) chatLogs() *chatLogs {
	if u.rendered == nil || !u.form.LogProbs {
		return nil
	}
	out := &chatLogs{Content: []chatLog{}}
	for _, t := range u.rendered.Tokens() {
		logP := jsonline.FiniteOrNil(u.member.LogP[t.Position])
		entry := chatLog{newChatToken(t.Bytes, logP), []chatToken{}}
		if u.member.Top != nil {
			for _, candidate := range u.member.Top[t.Position] {
				if text, ok := u.form.model.Text.Token(candidate.Token); ok {
					entry.Top = append(entry.Top, newChatToken(text, &candidate.LogP))
				}
			}
		}
		out.Content = append(out.Content, entry)
	}
	return out
}
