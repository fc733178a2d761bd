package unmask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// ReplyLength is the default length of an answer in tokens, as in LLaDA's own program.
const ReplyLength = 128

// Chat reads the chat template beside the model's weights. It returns an error if the model makes
// no text, has no tokenizer, or has no template because it was not trained to chat.
func (m *Model) Chat() (*chat.Model, error) { return m.chat() }

func (m *Model) readChat() (*chat.Model, error) {
	switch {
	case m.Text == nil:
		return nil, noChat("the model makes no text")
	case m.Source == nil:
		return nil, noChat("the model has no chat template")
	case tokenizers.AreNumbers(m.Text.Tokenizer):
		return nil, noChat("the model has no tokenizer, want one beside its weights or in its " +
			"GGUF file")
	}
	c, err := chat.ForTemplate(m.Source.Files, m.Text.Tokenizer, m.Source.Template)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noChat("the model has no chat template, want chat_template.jinja or " +
			"tokenizer_config.json beside its weights")
	}
	if err != nil {
		return nil, err
	}
	c.Variables = m.vars
	return c, nil
}

// noChat refuses messages.
func noChat(why string) error { return param.Refuse("messages", param.Unsupported, "%s", why) }

// Variables are values for a chat template: bool, string, int or nil.
type Variables map[string]any

// UnmarshalJSON reads an object.
func (v *Variables) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	out := Variables{}
	for name, value := range raw {
		var err error
		if out[name], err = readVariable(name, value); err != nil {
			return err
		}
	}
	*v = out
	return nil
}

// Set adds NAME=VALUE, where a VALUE that is not a bool, a whole number or null is a text.
func (v *Variables) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%s has no value, want NAME=VALUE", param.Quote(text))
	}
	if *v == nil {
		*v = Variables{}
	}
	one, err := readVariable(name, []byte(value))
	if (*v)[name] = one; err != nil {
		(*v)[name] = value
	}
	return nil
}

func readVariable(name string, raw json.RawMessage) (any, error) {
	var text string
	switch n, err := strconv.Atoi(string(raw)); {
	case err == nil:
		return n, nil
	case string(raw) == "null":
		return nil, nil
	case string(raw) == "true", string(raw) == "false":
		return string(raw) == "true", nil
	case json.Unmarshal(raw, &text) == nil:
		return text, nil
	}
	return nil, &param.Error{Name: "chat_template_kwargs", Found: fmt.Sprintf("%s: %.40s", name, raw),
		Want: "true, false, a text, a whole number or null", Reason: param.WrongType}
}
