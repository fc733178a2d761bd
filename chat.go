package unmask

import (
	"errors"
	"io/fs"

	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// ReplyLength is the default length of an answer in tokens, as in LLaDA's own program.
const ReplyLength = 128

// Chat is the side of a model that answers messages. Its methods may be called concurrently.
type Chat struct {
	*chat.Model

	text *Text
}

// Chat reads the chat template beside the model's weights. It returns an error if the model makes
// no text, has no tokenizer, or has no template because it was not trained to chat.
func (m *Model) Chat() (*Chat, error) { return m.chat() }

func (m *Model) readChat() (*Chat, error) {
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
	return &Chat{c, m.Text}, nil
}

// noChat refuses messages.
func noChat(why string) error { return param.Refuse("messages", param.Unsupported, "%s", why) }

// Tokens returns the tokens [length] of a run that answers messages, and the position where the
// answer begins. With a length of 0 the answer has [ReplyLength] tokens, or as many as the model
// has positions left.
func (c *Chat) Tokens(messages []chat.Message, length int) (tokens []int32, from int, err error) {
	known, err := c.Encode(messages, chat.Options{})
	if err != nil {
		return nil, 0, err
	}
	n, err := c.text.room("messages", len(known), length, 0, ReplyLength)
	if err != nil {
		return nil, 0, err
	}
	return c.text.around(known, n, nil), len(known) + len(c.text.spec.Before), nil
}

// Reply returns the text of an answer that begins at position from. It ends before the first token
// that ends a text, so the filling of a model of fixed length is left out.
func (c *Chat) Reply(tokens []int32, from int) string {
	answer, _ := c.Answer(tokens[from:])
	return c.text.Decode(answer)
}
