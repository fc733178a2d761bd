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

// chatFlags holds the flags of a conversation.
type chatFlags struct {
	question string
	system   string
	messages string // a file's name

	variables Variables
}

// Variables are those that --template-var sets for a chat template, as NAME=VALUE.
type Variables []string

// Register adds --template-var.
func (v *Variables) Register(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(v), "template-var", nil, "set a variable of the chat template, "+
		"`NAME=VALUE`, such as enable_thinking=true; may be repeated")
}

// Values returns the variables by name, with values of JSON.
func (v Variables) Values() (values prompt.Variables, err error) {
	for _, pair := range v {
		if err := values.Set(pair); err != nil {
			return nil, Wrap("--template-var", err)
		}
	}
	return values, nil
}

// register adds the flags.
func (c *chatFlags) register(f *pflag.FlagSet) {
	f.StringVar(&c.question, "chat", "", "a user's question, put into the model's chat template; only the "+
		"answer is shown, up to its end")
	f.StringVar(&c.system, "system", "", "the system message before --chat")
	f.StringVar(&c.messages, "messages", "", `a conversation from this JSON `+"`FILE`"+`: `+
		`[{"role": "user", "content": "..."}, ...]`)
	c.variables.Register(f)
}

// hasMessages reports whether the flags have a conversation.
func (c *chatFlags) hasMessages() bool { return c.question != "" || c.messages != "" }

// check returns an error for flags that are empty or exclude each other.
func (c *chatFlags) check(f *pflag.FlagSet) error {
	switch {
	case c.question != "" && c.messages != "":
		return Usagef("--chat and --messages together, want one of them")
	case f.Changed("system") && !f.Changed("chat"):
		return Usagef("--system is given, want it with --chat")
	case len(c.variables) > 0 && !c.hasMessages():
		return Usagef("--template-var is given, want it with --chat or --messages")
	}
	return nil
}

// readMessageFile reads a file of at most tokenizers.MaxText bytes; - is standard input.
func readMessageFile(name string) ([]byte, error) {
	in, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, tokenizers.MaxText+1))
	if err == nil && len(data) > tokenizers.MaxText {
		err = fmt.Errorf("more than %d bytes", tokenizers.MaxText)
	}
	return data, err
}

// readMessages returns the messages as JSON, nil without any.
func (c *chatFlags) readMessages() (messages []byte, err error) {
	switch {
	case c.messages != "":
		messages, err = readMessageFile(c.messages)
	case c.question != "":
		messages, err = chats.QuestionJSON(c.system, c.question)
	}
	return messages, Wrap(c.flagName(), atomicfile.WithoutPath(err))
}

// flagName returns the flag of the messages, for errors.
func (c *chatFlags) flagName() string {
	if c.messages != "" {
		return "--messages " + c.messages
	}
	return "--chat"
}

// nameFlag returns the error of a request with messages, with their flag's name.
func (c *chatFlags) nameFlag(err error) error {
	if !c.hasMessages() {
		return err
	}
	refused, ok := errors.AsType[*param.Error](err)
	if ok && refused.Name != "messages" {
		return err
	}
	if ok {
		err = refused.Cause()
	}
	return Wrap(c.flagName(), err)
}
