package cli

import (
	"os"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/internal/whole"
	"unmask/tokenizers/chat"
)

// chatFlags say what a model is asked.
type chatFlags struct {
	chat, system, messages string

	model *unmask.Chat // nil where nothing is asked
	from  int          // the position where the answer begins
}

func (c *chatFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.chat, "chat", "", "what a user asks, in the model's chat template; only the "+
		"answer is shown, up to where it ends")
	f.StringVar(&c.system, "system", "", "what the model is told before --chat")
	f.StringVar(&c.messages, "messages", "", `a conversation from this JSON `+"`FILE`"+`: `+
		`[{"role": "user", "content": "..."}, ...]`)
}

func (c *chatFlags) asked() bool { return c.chat != "" || c.messages != "" }

// check refuses flags that do not go together.
func (c *chatFlags) check(f *textFlags) error {
	switch {
	case c.chat != "" && c.messages != "":
		return usage("--chat and --messages together, want one of them")
	case c.system != "" && c.chat == "":
		return usage("--system is given, want it with --chat")
	case c.asked() && (f.prompt != "" || f.infill != ""):
		return usage("--chat or --messages with --prompt or --infill, want one of them")
	}
	return nil
}

// tokens returns what is known of an answer from the start.
func (c *chatFlags) tokens(m *unmask.Model, length int) (tokens []int32, err error) {
	flag := "--chat"
	var messages []byte
	if c.messages != "" {
		flag = "--messages " + c.messages
		if messages, err = os.ReadFile(c.messages); err != nil {
			return nil, wrap(flag, whole.Cause(err))
		}
	} else {
		if messages, err = chat.Ask(c.system, c.chat); err != nil {
			return nil, err
		}
	}
	if c.model, err = m.Chat(); err != nil {
		return nil, wrap(flag, err)
	}
	tokens, c.from, err = c.model.TokensJSON(messages, length, chat.Options{})
	return tokens, wrap(flag, err)
}

// shown returns the part of a sample that is the answer.
func (c *chatFlags) shown(tokens []int32) []int32 {
	answer, _ := c.model.Answer(tokens[c.from:])
	return answer
}
