// Package chat turns messages into the tokens of a model's chat format. It uses the chat template
// that the model brings, in the part of the Jinja language that such templates need.
//
// The evaluator is our own for two reasons. A template is a program by strangers: here it cannot
// read files, run or nest without end, or make more than 64 MB (see the limits beside [MaxSource]).
// And user input must never become a special token, whatever a template does with it, so every
// string records which of its bytes came from the conversation. Results equal those of Jinja 3.1
// with trim_blocks and lstrip_blocks, as Hugging Face's transformers sets them; unsupported
// features are errors that name them.
package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"unmask/internal/jsonline"
	"unmask/tokenizers"
)

// Message is one turn of a conversation.
type Message struct {
	// system, user or assistant; other roles if the template knows them
	Role    string `json:"role"`
	Content string `json:"content"`
}

// MessagesJSON returns messages as JSON. A text that is not UTF-8 is an error.
func MessagesJSON(messages []Message) ([]byte, error) {
	for i, m := range messages {
		for _, text := range []string{m.Role, m.Content} {
			if err := jsonline.CheckUTF8(text); err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
		}
	}
	return json.Marshal(messages)
}

// QuestionJSON returns the JSON of a question's messages; system, which may be "", is the first
// one.
func QuestionJSON(system, question string) ([]byte, error) {
	list := []Message{{Role: "user", Content: question}}
	if system != "" {
		list = append([]Message{{Role: "system", Content: system}}, list...)
	}
	return MessagesJSON(list)
}

// Template renders conversations. It is safe for concurrent use.
type Template struct {
	body []stmt

	// specialTokens are the texts of bos_token and similar.
	specialTokens map[string]string

	// source is the text of the template, with that of toolTemplate.
	source string

	// toolTemplate is for conversations with functions; nil means this one.
	toolTemplate *Template
}

// Options say what a rendering is for. The zero value asks for the assistant's next message.
type Options struct {
	// Complete: nothing follows the conversation, so that no header for an answer is written.
	Complete bool

	// Tools is JSON, an array of the functions that the model may call; nil for none.
	Tools []byte

	// Variables are for the template, such as enable_thinking: bool, string, int or nil.
	Variables map[string]any

	// Now is the time for strftime_now; zero means the time of the call.
	Now time.Time
}

// Parse parses a template. tokens are the texts of special tokens by their names in a template,
// such as bos_token. An error names the line and what is not supported there.
func Parse(source string, tokens map[string]string) (t *Template, err error) {
	defer recoverFailure(&err)
	if len(source) > MaxSource {
		fail("chat template is %d bytes, want at most %d", len(source), MaxSource)
	}
	p := parser{tokens: lex(source)}
	body, _ := p.parseBody()
	return &Template{body: body, specialTokens: tokens, source: source}, nil
}

// Render returns the text of messages, in parts; parts that are not Special come from the
// conversation. An error is the template's own, such as one for an unknown role, or about a limit.
func (t *Template) Render(messages []Message, o Options) ([]tokenizers.Part, error) {
	data, err := MessagesJSON(messages)
	if err != nil {
		return nil, err
	}
	return t.RenderJSON(data, o)
}

// RenderJSON is Render for messages in JSON, which may have more fields, such as tool_calls. An
// error is that of JSON which is no list of messages, one that the template raises, or one of its
// limits.
func (t *Template) RenderJSON(messages []byte, o Options) (parts []tokenizers.Part, err error) {
	out, err := t.render(messages, o)
	return out.parts(), err
}

// render returns the text of messages as transformers 5.24 passes them to a template.
func (t *Template) render(messages []byte, o Options) (out text, err error) {
	conversation, err := parseJSON(messages)
	if err != nil {
		return text{}, fmt.Errorf("messages: %w", err)
	}
	l, ok := conversation.(*list)
	if !ok {
		return text{}, fmt.Errorf("messages: found %s, want a JSON array",
			jsonline.ValueKind(messages))
	}
	for i, m := range l.items {
		if m, ok := m.(*dict); ok {
			l.items[i] = m.normalizeMessage()
		}
	}
	return t.renderJinja(l, o)
}

// normalizeMessage returns a message without its fields that are null, and with its reasoning under
// the names that templates read (transformers, _normalize_chat_messages and
// _alias_reasoning_fields).
func (d *dict) normalizeMessage() *dict {
	out := newDict()
	put := func(key, value any) {
		if value != nil {
			out.set(key, value)
		}
	}
	get := func(name string) any {
		v, _ := d.get(text{s: name})
		return v
	}
	reasoning := cmp.Or(get("reasoning_content"), get("thinking"), get("reasoning"))
	put(userText("thinking"), reasoning)
	for i, key := range d.keys {
		put(key, d.values[i])
	}
	put(userText("reasoning_content"), reasoning)
	return out
}

// renderJinja returns what Jinja makes of a conversation as it is.
func (t *Template) renderJinja(conversation *list, o Options) (out text, err error) {
	var tools any
	if o.Tools != nil {
		t = cmp.Or(t.toolTemplate, t)
		tools, err = parseJSON(o.Tools)
		if err != nil {
			return text{}, fmt.Errorf("tools: %w", err)
		}
	}
	defer recoverFailure(&err)
	r := &run{now: func() time.Time { return cmp.Or(o.Now, time.Now()) }}
	s := &scope{names: globalFunctions()}
	for name, token := range t.specialTokens {
		s.names[name] = text{s: token}
	}
	s.names["messages"] = conversation
	s.names["tools"] = tools
	s.names["documents"] = nil
	s.names["add_generation_prompt"] = !o.Complete
	for name, v := range o.Variables {
		switch v := v.(type) {
		case nil, bool:
			s.names[name] = v
		case string:
			s.names[name] = userText(v)
		case int:
			s.names[name] = int64(v)
		default:
			fail("variable %s is a %T, want bool, string, int or nil", name, v)
		}
	}
	b := builder{run: r}
	r.execute(t.body, s.nested(), &b)
	return b.text(), nil
}
