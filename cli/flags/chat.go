package flags

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/internal/atomicfile"
	"unmask/tokenizers"
	chats "unmask/tokenizers/chat"
)

// chat holds the flags of a conversation.
type chat struct {
	question, system, messages string

	model *unmask.Chat // nil without messages
	from  int          // the position at which the answer begins
}

func (c *chat) register(f *pflag.FlagSet) {
	f.StringVar(&c.question, "chat", "", "a user's question, put into the model's chat template; only the "+
		"answer is shown, up to its end")
	f.StringVar(&c.system, "system", "", "the system message before --chat")
	f.StringVar(&c.messages, "messages", "", `a conversation from this JSON `+"`FILE`"+`: `+
		`[{"role": "user", "content": "..."}, ...]`)
}

func (c *chat) asked() bool { return c.question != "" || c.messages != "" }

// check returns an error for flags that are empty or exclude each other.
func (c *chat) check(f *pflag.FlagSet) error {
	switch {
	case c.question != "" && c.messages != "":
		return Usage("--chat and --messages together, want one of them")
	case f.Changed("system") && !f.Changed("chat"):
		return Usage("--system is given, want it with --chat")
	}
	return nil
}

// readMessages reads a file of at most tokenizers.MaxText bytes; - is standard input.
func readMessages(name string) ([]byte, error) {
	in, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, tokenizers.MaxText+1))
	if err == nil && len(data) > tokenizers.MaxText {
		err = fmt.Errorf("it has more than %d bytes", tokenizers.MaxText)
	}
	return data, err
}

// tokens returns the known tokens [length] of an answer's run.
func (c *chat) tokens(m *unmask.Model, length int) (tokens []int32, err error) {
	flag := "--chat"
	var messages []byte
	if c.messages != "" {
		flag = "--messages " + c.messages
		if messages, err = readMessages(c.messages); err != nil {
			return nil, Wrap(flag, atomicfile.Cause(err))
		}
	} else if messages, err = chats.Ask(c.system, c.question); err != nil {
		return nil, err
	}
	if c.model, err = m.Chat(); err != nil {
		return nil, Wrap(flag, err)
	}
	if tokens, c.from, err = c.model.TokensJSON(messages, length, chats.Options{}); err == nil {
		err = c.model.Template.Check(messages)
	}
	return tokens, Wrap(flag, err)
}

// shown returns the answer without the conversation before it.
func (c *chat) shown(tokens []int32) []int32 {
	answer, _ := c.model.Answer(tokens[c.from:])
	return answer
}
