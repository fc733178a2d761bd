package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"unmask/tokenizers"
)

// Files are the names that [ForModel] reads if they exist.
var Files = []string{"chat_template.jinja", "additional_chat_templates/tool_use.jinja",
	"tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}

// Model is the chat format of one model. It is safe for concurrent use.
type Model struct {
	Template  *Template
	Tokenizer tokenizers.Tokenizer

	// Variables are those of the template, where Options has no other value.
	Variables map[string]any

	endTokens []int32
	stopTexts []string
	callForm  *CallForm // of the template; nil: it has none
}

// ForModel reads the chat template in a model's folder, chat_template.jinja or the field
// chat_template of tokenizer_config.json, with the one named tool_use for requests with functions,
// and the tokens that end an answer. t is the model's tokenizer; template, if it is not "", takes
// the place of the folder's. The error is fs.ErrNotExist if there is no template, because the model
// was not trained to chat.
func ForModel(files fs.FS, t tokenizers.Tokenizer, template string) (*Model, error) {
	config, err := tokenizers.ReadConfig(files, "tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	named := map[string]string{"default": template}
	if template == "" {
		named, err = readTemplates(files, config)
		if err != nil {
			return nil, err
		}
	}
	specialTokens, err := tokenizers.ReadRoles(files)
	if err != nil {
		return nil, err
	}
	tmpl, err := Parse(named["default"], specialTokens)
	if tools, ok := named["tool_use"]; ok && err == nil {
		tmpl.toolTemplate, err = Parse(tools, specialTokens)
		tmpl.source += tools
	}
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	m := New(tmpl, t)
	generation, err := tokenizers.ReadConfig(files, "generation_config.json")
	if err != nil {
		return nil, err
	}
	for _, id := range parseIDs(generation["eos_token_id"]) {
		m.addEndToken(id)
	}
	return m, nil
}

// New returns the Model of a template. Answers end with its eos_token, and with what it puts after
// an assistant's message.
func New(tmpl *Template, t tokenizers.Tokenizer) *Model {
	m := &Model{Template: tmpl, Tokenizer: t}
	if id, ok := t.Special(tmpl.specialTokens["eos_token"]); ok {
		m.addEndToken(id)
	}
	m.findAnswerEnd()
	m.callForm = m.findCallForm()
	return m
}

// findAnswerEnd renders a conversation with an answer and looks at what the template puts after it:
// a special token, or an ordinary text such as [/Answer]. No file of a model names the latter.
func (m *Model) findAnswerEnd() {
	const answer = "unmask"
	conversation := []byte(`[{"role":"user","content":"?"},{"role":"assistant","content":"` +
		answer + `"}]`)
	out, err := m.Template.render(conversation, Options{Complete: true})
	i := strings.LastIndex(out.s, answer)
	if err != nil || i < 0 {
		return
	}
	afterAnswer := out.s[i+len(answer):]
	ids, err := m.Tokenizer.EncodeSpecial(afterAnswer)
	if err == nil && len(ids) > 0 && tokenizers.IsSpecial(m.Tokenizer, ids[0]) {
		m.addEndToken(ids[0])
		return
	}
	line, _, _ := strings.Cut(strings.TrimSpace(afterAnswer), "\n")
	if line != "" {
		m.stopTexts = append(m.stopTexts, line)
	}
}

// addEndToken adds a token that ends answers, once; -1 is none.
func (m *Model) addEndToken(id int32) {
	if id >= 0 && !slices.Contains(m.endTokens, id) {
		m.endTokens = append(m.endTokens, id)
	}
}

// WithContext returns m for the conversations of one request: encoding ends soon after ctx is done.
func (m *Model) WithContext(ctx context.Context) *Model {
	out := *m
	out.Tokenizer = tokenizers.WithContext(ctx, m.Tokenizer)
	return &out
}

// Encode returns the ids of a conversation, up to the start of the answer. The text of messages
// never becomes a special token. An error is that of the template, which may refuse a conversation,
// or of the tokenizer.
func (m *Model) Encode(messages []Message, o Options) ([]int32, error) {
	data, err := MessagesJSON(messages)
	if err != nil {
		return nil, err
	}
	return m.EncodeJSON(data, o)
}

// EncodeJSON is Encode for messages in JSON, which may have more fields, such as tool_calls.
func (m *Model) EncodeJSON(messages []byte, o Options) ([]int32, error) {
	if len(m.Variables) > 0 {
		variables := maps.Clone(m.Variables)
		maps.Copy(variables, o.Variables)
		o.Variables = variables
	}
	parts, err := m.Template.RenderJSON(messages, o)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return tokenizers.EncodeParts(m.Tokenizer, parts)
}

// TryRender renders one user message and returns the template's error. A template that fails there
// fails on every conversation.
func (m *Model) TryRender() error {
	_, err := m.Encode([]Message{{Role: "user", Content: "?"}}, Options{})
	return err
}

// WritesSystem reports whether the template writes a system message; many leave it out in silence.
func (m *Model) WritesSystem() bool {
	const word = "unmask"
	data := []byte(`[{"role":"system","content":"` + word + `"},{"role":"user","content":"?"}]`)
	out, err := m.Template.render(data, Options{Variables: m.Variables})
	// A template that refuses system messages says so itself, to whoever sends one.
	return err != nil || strings.Contains(out.s, word)
}

// EndTokens returns the tokens that end an answer; the model's end of text, if it has one, is
// first.
func (m *Model) EndTokens() []int32 { return slices.Clone(m.endTokens) }

// StopTexts returns the ordinary texts that the template puts after an answer, which end one too.
func (m *Model) StopTexts() []string { return slices.Clone(m.stopTexts) }

// CutAnswer returns ids before the first one that ends an answer, and whether there was one. A
// model of fixed length fills the rest of its answer with end of text, which is not shown.
func (m *Model) CutAnswer(ids []int32) (answer []int32, ended bool) {
	i := slices.IndexFunc(ids, func(id int32) bool { return slices.Contains(m.endTokens, id) })
	if i < 0 {
		return ids, false
	}
	return ids[:i], true
}

// readTemplates returns the sources of the model's templates by their names: of its files or,
// without any, of the config, where one text is the default.
func readTemplates(files fs.FS, config map[string]json.RawMessage) (map[string]string, error) {
	named := map[string]string{}
	for name, file := range map[string]string{"default": Files[0], "tool_use": Files[1]} {
		data, err := tokenizers.ReadFile(files, file, MaxSource)
		if err == nil {
			named[name] = string(data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	var source *string
	var several []struct{ Name, Template string }
	raw, ok := config["chat_template"]
	switch {
	case len(named) > 0 || !ok:
	case json.Unmarshal(raw, &source) == nil && source != nil:
		named["default"] = *source
	case json.Unmarshal(raw, &several) == nil:
		for _, t := range several {
			named[t.Name] = t.Template
		}
	default:
		return nil, fmt.Errorf("tokenizer_config.json: chat_template is neither a text nor a " +
			"list of them")
	}
	if _, ok := named["default"]; !ok {
		return nil, fmt.Errorf("chat template: the model has none: %w", fs.ErrNotExist)
	}
	return named, nil
}

// parseIDs reads one id or a list of ids; nil for anything else.
func parseIDs(raw json.RawMessage) []int32 {
	var id *int32
	if json.Unmarshal(raw, &id) == nil && id != nil {
		return []int32{*id}
	}
	var list []int32
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}
