package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/generate"
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
func (s *Server) chats(r *http.Request, f *fields) (q query, st streaming) {
	m := s.model(f, wantsChat)
	if m == nil {
		return q, st
	}
	if m.chat == nil {
		f.fail(bad("no_chat_template", "model", "%s, use /v1/completions", oneLine(m.chatless)))
		return q, st
	}
	set := readSettings(f)
	st = readStream(f)
	logs := f.flag("logprobs")
	if set.top = f.maybe("top_logprobs", 0, generate.MaxTop, 0); set.top > 0 && !logs {
		f.fail(outOfRange("top_logprobs", set.top, "0, or logprobs true"))
	}
	textOnly(f, &set, m)
	set.request.Tools = set.tools(f, m)
	if raw := f.value("chat_template_kwargs"); raw != nil {
		if err := json.Unmarshal(raw, &set.request.Variables); err != nil {
			f.wrongType("chat_template_kwargs", raw,
				"an object of true, false, texts, whole numbers or null")
		}
	}
	if st.form == "diffusing" && set.request.Calls != nil {
		f.fail(bad("unsupported_parameter", "diffusing",
			"diffusing is true with tools, want it left out"))
	}
	set.readLength(f)
	set.request.Messages = encode(readMessages(f))
	q.sequences = set.prepare(r.Context(), f, m, chatNames, nil, set.request)
	if f.fault != nil {
		return q, st
	}
	form := m.textForm(&set.request, &q.sequences[0], logs)
	forms := slices.Repeat([]textForm{form}, set.n)
	set.checkTop(f, "top_logprobs", q.sequences, m)
	used := usage{Prompt: form.From}
	q.kind, q.prefix, q.model, q.set, q.form = "chat", "chatcmpl-", m, set, forms
	q.answers = func(made *call) (*answer, *Fault) { return chatAnswer(made, forms, used) }
	return q, st
}

// readMessages reads a conversation of texts.
func readMessages(f *fields) (messages []message) {
	raw := f.value("messages")
	if raw == nil {
		if f.fault == nil {
			f.fail(missing("messages", "a list of messages"))
		}
		return nil
	}
	list := f.list("messages", raw)
	if n := len(list); f.fault == nil && (n == 0 || n > maxMessages) {
		f.fail(bad("out_of_range", "messages", "messages is a list of %d, want 1 to %d", n, maxMessages))
	}
	for i, one := range list {
		if f.fault != nil {
			return nil
		}
		messages = append(messages, readMessage(f, i, one))
	}
	return messages
}

// message is one of a conversation, as chat templates have it.
type message struct {
	chat.Message
	Calls  []messageCall `json:"tool_calls,omitempty"`
	CallID string        `json:"tool_call_id,omitempty"` // of the call that a tool answers
}

func readMessage(f *fields, i int, raw json.RawMessage) (m message) {
	at := fmt.Sprintf("messages[%d]", i)
	o := &fields{}
	if json.Unmarshal(raw, &o.object) != nil {
		f.wrongType(at, raw, "an object")
		return m
	}
	role := o.text("role")
	if role == "developer" { // OpenAI's newer name
		role = "system"
	}
	if o.fault == nil && !slices.Contains(roles, role) {
		o.fail(outOfRange("role", param.Quote(role), param.Either(roles)))
	}
	m.Role = role
	if role == "assistant" {
		m.Calls = readCalls(o)
	} else {
		o.neutral("tool_calls", "[]")
	}
	if role == "tool" {
		m.CallID = o.text("tool_call_id")
	}
	if len(m.Calls) == 0 || o.value("content") != nil {
		m.Content = readContent(o)
	}
	o.neutral("name") // no template has a place for it
	o.neutral("refusal")
	o.neutral("parsed") // OpenAI's package sends back what it has read
	o.neutral("function_call")
	o.neutral("audio")
	o.neutral("annotations", "[]")
	if fault := o.end(); fault != nil {
		fault.Param, fault.Message = at+"."+fault.Param, at+": "+fault.Message
		f.fail(fault)
	}
	return m
}

// readContent reads a text, or a list of parts that are texts.
func readContent(o *fields) string {
	raw := o.value("content")
	if o.fault != nil {
		return ""
	}
	if raw == nil || raw[0] == '"' {
		if raw == nil {
			o.fail(missing("content", "a text"))
			return ""
		}
		return o.textOf("content", raw)
	}
	var text strings.Builder
	for _, one := range o.list("content", raw) {
		part := &fields{}
		if json.Unmarshal(one, &part.object) != nil {
			o.wrongType("content", one, "a list of parts")
			return ""
		}
		if kind := part.text("type"); kind != "text" {
			o.fail(bad("unsupported_parameter", "content", "content has a part of type %s, want text",
				param.Quote(kind)))
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

// chatCompletion is the answer of /v1/chat/completions.
type chatCompletion = choices[chatChoice]

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
	Refusal   *string    `json:"refusal,omitempty"`
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

func (c *call) chatCompletion(object string) chatCompletion {
	return chatCompletion{ID: c.id(), Object: object, Created: c.Created.Unix(),
		Model: c.model.name, Fingerprint: c.model.fingerprint()}
}

func (c *textChoice) chatLogs() *chatLogs {
	out := &chatLogs{Content: []chatLog{}}
	for _, t := range c.Tokens() {
		one := chatLog{newChatToken(t.Bytes, known(c.logP[t.Position])), []chatToken{}}
		if c.top != nil {
			for _, l := range c.top[t.Position] {
				if text, ok := c.form.model.Text.Token(l.Token); ok {
					one.Top = append(one.Top, newChatToken(text, &l.LogP))
				}
			}
		}
		out.Content = append(out.Content, one)
	}
	return out
}

// chatAnswer makes the answer of finished sequences.
func chatAnswer(made *call, forms []textForm, used usage) (*answer, *Fault) {
	c := made.chatCompletion("chat.completion")
	for i, m := range made.Members {
		t := forms[i].choice(m.Tokens, m.LogP, m.Top)
		used.Completion += t.Count()
		choice := chatChoice{Index: i, Message: &chatMessage{Role: "assistant", Content: &t.Text},
			Finish: &t.Finish, Choices: m.Choices}
		choice.calls(made, &forms[i], t.Text)
		if forms[i].LogProbs {
			choice.LogProbs = t.chatLogs()
		}
		c.Choices = append(c.Choices, choice)
	}
	used.Total = used.Prompt + used.Completion
	c.Usage, c.Unmask = &used, made.info()
	return &answer{body: encode(c), parts: used}, nil
}

// chatChunks makes the chunks of /v1/chat/completions. The first of each choice has the role.
type chatChunks struct {
	of    []textForm
	begun map[int]bool
	calls map[int]*callStream
}

func (c *chatChunks) forms() []textForm { return c.of }

func (c *chatChunks) chunk(w *call, p part) []byte {
	out := w.chatCompletion("chat.completion.chunk")
	choice := chatChoice{Index: p.choice, Delta: &chatMessage{Content: &p.text}, Choices: p.likely}
	if p.finish != "" {
		choice.Finish = &p.finish
	}
	if form := &c.of[p.choice]; form.Calls != nil {
		if c.calls[p.choice] == nil {
			c.calls[p.choice] = &callStream{}
		}
		c.calls[p.choice].take(w, form, &choice, p.text)
		if d := choice.Delta; d.Content == nil && d.ToolCalls == nil && p.finish == "" && p.step == nil {
			return nil
		}
	}
	if !c.begun[p.choice] {
		c.begun[p.choice], choice.Delta.Role = true, "assistant"
	}
	if p.logs != nil {
		choice.LogProbs = p.logs.chatLogs()
	}
	out.Choices, out.Unmask = []chatChoice{choice}, p.info()
	return encode(out)
}

func (c *chatChunks) counted(made *call, used *usage) []byte {
	out := made.chatCompletion("chat.completion.chunk")
	out.Choices, out.Usage = []chatChoice{}, used
	return encode(out)
}
