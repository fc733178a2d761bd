package unmask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// ReplyLength is the default length of an answer in tokens.
const ReplyLength = model.DefaultTextLength

// Chat reads the chat template beside the model's weights. It returns an error if the model makes
// no text, has no tokenizer, or has no template because it was not trained to chat.
func (m *Model) Chat() (*chat.Model, error) { return m.chat() }

// readChat is Chat, which calls it once.
func (m *Model) readChat() (*chat.Model, error) {
	switch {
	case m.Text == nil:
		return nil, refuseMessages("the model makes no text")
	case m.Source == nil:
		return nil, refuseMessages("the model has no chat template")
	case tokenizers.IsNumeric(m.Text.Tokenizer):
		return nil, refuseMessages("the model has no tokenizer, want one beside its weights or in its " +
			"GGUF file")
	}
	c, err := chat.ForModel(m.Source.Files, m.Text.Tokenizer, m.Source.Template)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuseMessages("the model has no chat template, want chat_template.jinja or " +
			"tokenizer_config.json beside its weights")
	}
	if err != nil {
		return nil, err
	}
	c.Variables = m.templateVariables
	return c, nil
}

// refuseMessages returns the refusal of a conversation.
func refuseMessages(reason string) error {
	return param.Refuse("messages", param.Unsupported, "%s", reason)
}

// callForm returns how the model's answers spell calls, and whether its template says so.
func (m *Model) callForm() (form chat.CallForm, isOwn bool) {
	c, err := m.Chat()
	if err != nil {
		return chat.PlainCalls, false
	}
	return c.CallForm()
}

// messageTokens returns the tokens of a conversation, and those that end an answer.
func (m *Model) messageTokens(ctx context.Context, r *Request) (tokens, endTokens []int32,
	err error) {
	c, err := m.Chat()
	if err != nil {
		return nil, nil, err
	}
	c = c.WithContext(ctx)
	options := chat.Options{Tools: r.Tools, Variables: r.Variables}
	tokens, err = c.EncodeJSON(r.Messages, options)
	if err == nil {
		err = c.Template.CheckMessages(r.Messages)
	}
	if err != nil {
		return nil, nil, &param.Error{Name: "messages", Err: err}
	}

	// A template that drops the calls of earlier turns would let the model answer a conversation
	// that nobody had, so this is refused and not only noted.
	withoutCalls, hasCalls := withoutToolCalls(r.Messages)
	if hasCalls {
		tokensWithoutCalls, err := c.EncodeJSON(withoutCalls, options)
		if err == nil && slices.Equal(tokens, tokensWithoutCalls) {
			return nil, nil, param.Refuse("messages", param.Unsupported,
				"messages have tool_calls, want none: the model's chat template leaves them out")
		}
	}
	return tokens, c.EndTokens(), nil
}

// withoutToolCalls returns messages without their calls of tools, and whether there were any.
func withoutToolCalls(messages []byte) (stripped []byte, hasCalls bool) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(messages, &list) != nil {
		return messages, false
	}
	for _, message := range list {
		calls := string(message["tool_calls"])
		if calls != "" && calls != "null" && calls != "[]" {
			hasCalls = true
		}
		delete(message, "tool_calls")
	}
	stripped, err := json.Marshal(list)
	return stripped, hasCalls && err == nil
}

// TemplateNote returns a note about what the model's chat template drops of conversations, of which
// some may be nil; "" for nothing.
func (m *Model) TemplateNote(conversations ...[]byte) string {
	type message struct{ Role string }
	withSystem := 0
	for _, messages := range conversations {
		var list []message
		if json.Unmarshal(messages, &list) == nil && slices.Contains(list, message{"system"}) {
			withSystem++
		}
	}
	if withSystem == 0 {
		return ""
	}
	c, err := m.Chat()
	if err != nil || c.WritesSystem() {
		return ""
	}
	note := "the model's chat template leaves system messages out"
	if len(conversations) > 1 {
		note += fmt.Sprintf(" (of %d of %d inputs)", withSystem, len(conversations))
	}
	return note
}

// TokensWithAnswer returns the tokens of what r begins with (Prompt, Messages, Tokens or nothing)
// followed by an answer, for package likelihood: the answer is tokens[start:end]. It is given as
// ids or, where they are nil, as text. Nothing is a prompt without text. Positions behind the
// answer are masked, if the model has sequences of one length only. A prompt and its answer are
// tokenized together, unless that would change the prompt's own tokens; blanks at the prompt's end
// belong to the answer. An answer to messages is tokenized alone. An error is a *param.Error that
// names the answer, the prompt or the messages: a model of no text, a text with what the vocabulary
// lacks, or more tokens than the model has positions.
func (m *Model) TokensWithAnswer(ctx context.Context, r Request, answer string,
	ids []int32) (tokens []int32, start, end int, err error) {
	if m.Text == nil {
		return nil, 0, 0, param.Refuse("answer", param.Unsupported, "the model makes no text")
	}
	t := m.Text.WithContext(ctx)
	if err := r.checkStart(true); err != nil {
		return nil, 0, 0, err
	}

	prefix := r.Tokens
	var last []int32
	switch {
	case r.Messages != nil:
		prefix, _, err = m.messageTokens(ctx, &r)
	case r.Tokens == nil:
		// Blanks at its end are part of the answer's first token, as in the harnesses of LLaDA, Dream
		// and dLLM.
		text := strings.TrimRightFunc(r.Prompt, unicode.IsSpace)
		answer = r.Prompt[len(text):] + answer
		r.Prompt = text
		prefix, err = t.Begin(text, r.Special, true)
		err = param.WithName("prompt", err)
		last = t.Last()
	}
	if err != nil {
		return nil, 0, 0, err
	}
	if ids == nil {
		ids, err = t.After(prefix, r.Prompt, r.Special, answer)
		if err != nil {
			return nil, 0, 0, param.WithName("answer", err)
		}
	}

	room := t.MaxLength() - len(prefix) - len(last)
	if len(ids) == 0 || len(ids) > room {
		refusal := &param.Error{
			Name:   "answer",
			Found:  fmt.Sprintf("%d tokens", len(ids)),
			Want:   fmt.Sprintf("1 to %d", room),
			Reason: param.TooLong,
		}
		if room < 1 {
			refusal.Want = fmt.Sprintf("a prompt of fewer than %d", len(prefix)+room)
		}
		return nil, 0, 0, refusal
	}

	masksBehind := 0
	if m.Spec().Fixed {
		masksBehind = room - len(ids)
	}
	start = len(prefix)
	tokens = t.Surround(slices.Concat(prefix, ids), masksBehind, last)
	if r.Messages != nil {
		tokens = t.WithoutSurroundings(tokens)
	} else {
		start += len(m.Spec().BeforeText)
	}
	return tokens, start, start + len(ids), nil
}
