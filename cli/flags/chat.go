package flags

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/prompt"
	"unmask/tokenizers"
	chats "unmask/tokenizers/chat"
)

// chat holds the flags of a conversation.
type chat struct {
	question string
	system   string
	messages string

	set Variables
}

// Variables are those that --template-var sets of a chat template.
type Variables []string

// Register adds --template-var.
func (v *Variables) Register(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(v), "template-var", nil, "set a variable of the chat template, "+
		"`NAME=VALUE`, such as enable_thinking=true; may be repeated")
}

// Values returns the variables.
func (v Variables) Values() (values prompt.Variables, err error) {
	for _, one := range v {
		if err = values.Set(one); err != nil {
			return nil, Wrap("--template-var", err)
		}
	}
	return values, nil
}

func (c *chat) register(f *pflag.FlagSet) {
	f.StringVar(&c.question, "chat", "", "a user's question, put into the model's chat template; only the "+
		"answer is shown, up to its end")
	f.StringVar(&c.system, "system", "", "the system message before --chat")
	f.StringVar(&c.messages, "messages", "", `a conversation from this JSON `+"`FILE`"+`: `+
		`[{"role": "user", "content": "..."}, ...]`)
	c.set.Register(f)
}

func (c *chat) given() bool { return c.question != "" || c.messages != "" }

// check returns an error for flags that are empty or exclude each other.
func (c *chat) check(f *pflag.FlagSet) error {
	switch {
	case c.question != "" && c.messages != "":
		return Usagef("--chat and --messages together, want one of them")
	case f.Changed("system") && !f.Changed("chat"):
		return Usagef("--system is given, want it with --chat")
	case len(c.set) > 0 && !c.given():
		return Usagef("--template-var is given, want it with --chat or --messages")
	}
	return nil
}

// readMessages reads a file of at most tokenizers.MaxText bytes; - is standard input.
func readMessages(name string) ([]byte, error) {
	in, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, tokenizers.MaxText+1))
	if err == nil && len(data) > tokenizers.MaxText {
		err = fmt.Errorf("it has more than %d bytes, want at most that", tokenizers.MaxText)
	}
	return data, err
}

// read returns the messages as JSON, nil without any.
func (c *chat) read() (messages []byte, err error) {
	switch {
	case c.messages != "":
		messages, err = readMessages(c.messages)
	case c.question != "":
		messages, err = chats.QuestionJSON(c.system, c.question)
	}
	return messages, Wrap(c.flag(), atomicfile.WithoutPath(err))
}

// flag returns the flag of the messages.
func (c *chat) flag() string {
	if c.messages != "" {
		return "--messages " + c.messages
	}
	return "--chat"
}

// refusal returns the error of a request with messages, with their flag's name.
func (c *chat) refusal(err error) error {
	e, ok := errors.AsType[*param.Error](err)
	switch {
	case !c.given() || ok && e.Name != "messages":
		return err
	case ok:
		err = e.Cause()
	}
	return Wrap(c.flag(), err)
}
