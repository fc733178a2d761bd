package flags

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/prompt"
	"unmask/research/export"
)

// Text holds the flags for what texts begin with, and for the tokens that they may have.
type Text struct {
	Constraints

	// Length is --length, 0 for the model's.
	Length int

	// MaxTokens is --max-tokens, 0 for no bound.
	MaxTokens int

	// Inputs are those of --prompts, which Check reads. A caller without the flag may set them.
	Inputs []unmask.Input

	prompt   string
	infill   string
	prompts  string // a file's name
	tokensIn string // a file's name
	special  bool
	chat     chatFlags
}

// Register adds the flags.
func (t *Text) Register(f *pflag.FlagSet) {
	t.Constraints.Register(f)
	Length(f, &t.Length)
	MaxTokens(f, &t.MaxTokens)
	f.StringVarP(&t.prompt, "prompt", "p", "",
		"text that every sample begins with; - reads it from standard input, as a pipe or a file there "+
			"is read without such a flag")
	f.StringVar(&t.infill, "infill", "",
		`text with holes, [N] for N tokens, such as "Once upon a time there[3] girl named Lily."`)
	f.StringVar(&t.prompts, "prompts", "",
		"`FILE` of prompts, one a line, or JSONL of objects with prompt or infill, and seed, or FASTA "+
			"(.fasta, .fa, .faa) of sequences with or without holes; - reads "+
			"standard input; sample i uses line i, starting over after the last")
	f.StringVar(&t.tokensIn, "tokens-in", "",
		"token ids that every sample begins with: a safetensors `FILE` with tokens I64, or FILE:TENSOR")
	f.BoolVar(&t.special, "special", false,
		"take the spellings of special tokens in a prompt as these tokens; without it they are text")
	t.chat.register(f)
}

// noteSpecialTokens prints a note if a prompt spells special tokens: users who paste a template of
// their own would see them read as text, and get poor answers.
func (t *Text) noteSpecialTokens(text *prompt.Text) {
	if text == nil || t.special {
		return
	}
	if names := text.SpecialSpellings(t.prompt + t.infill); names != nil {
		terminal.Logf("note: the prompt has %s, which stays text: --special takes it as a token",
			strings.Join(names, ", "))
	}
}

// Length adds --length.
func Length(f *pflag.FlagSet, length *int) {
	Int(f, length, param.Param{
		Name:    "length",
		Min:     1,
		Max:     1 << 30,
		Zero:    "the model's",
		Default: "0",
		Help: "tokens of a sample, 0 for the model's length or, of a model with more than " +
			"1024, those of the prompt and of a usual answer",
	})
}

// MaxTokens adds --max-tokens.
func MaxTokens(f *pflag.FlagSet, tokens *int) {
	Int(f, tokens, param.Param{
		Name:    "max-tokens",
		Min:     1,
		Max:     1 << 30,
		Zero:    "no bound",
		Default: "0",
		Help: "most tokens of an answer, 0 for no bound; of what is no answer, as after the prompt " +
			"of a model without an end token, the number of tokens",
	})
}

// ReadPiped takes what a pipe or a file on standard input has as the prompt, if no flag says what
// texts begin with. Other kinds of standard input are left alone: nobody may ever write to a
// terminal or to the socket that a program gives its children.
func (t *Text) ReadPiped(ctx context.Context, f *pflag.FlagSet) (err error) {
	for _, name := range []string{"prompt", "infill", "prompts", "tokens-in", "chat", "messages"} {
		if f.Changed(name) {
			return nil
		}
	}
	in, err := os.Stdin.Stat()
	if err != nil || !in.Mode().IsRegular() && in.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	t.prompt, err = readStdin(ctx)
	return err
}

// Check returns an error for flags that exclude each other, and reads standard input and --prompts
// if needed.
func (t *Text) Check(ctx context.Context, f *pflag.FlagSet) (err error) {
	for _, text := range []*string{&t.prompt, &t.infill} {
		if *text != "-" {
			continue
		}
		*text, err = readStdin(ctx)
		if err != nil {
			return err
		}
	}
	if err := t.chat.check(f); err != nil {
		return err
	}

	prompted := t.prompt != "" || t.infill != ""
	switch {
	case t.prompt != "" && t.infill != "":
		return Usagef("--prompt and --infill together, want one of them")
	case t.chat.hasMessages() && prompted:
		return Usagef("--chat or --messages with --prompt or --infill, want one of them")
	case t.tokensIn != "" && (prompted || t.chat.hasMessages()):
		return Usagef("--tokens-in with another prompt, want one of them")
	case t.tokensIn != "" && t.MaxTokens != 0:
		return Usagef("--tokens-in with --max-tokens, want --length")
	case t.prompts == "":
		return nil
	}
	// --watch and --trace show one prompt's positions.
	for _, name := range []string{"prompt", "infill", "tokens-in", "chat", "messages", "watch",
		"trace"} {
		if f.Changed(name) {
			return Usagef("--prompts and --%s together, want one of them", name)
		}
	}
	t.Inputs, err = readInputs(t.prompts)
	return Wrap("--prompts", err)
}

// MaxSchema bounds the file of a schema, in bytes.
const MaxSchema = 16 << 20

// Request returns the request of the flags, with parameters that they override.
func (t *Text) Request(m *unmask.Model,
	overrides generate.Overrides) (r unmask.Request, err error) {
	r = unmask.Request{
		Prompt:      t.prompt,
		Infill:      t.infill,
		Special:     t.special,
		Length:      t.Length,
		MaxTokens:   t.MaxTokens,
		Overrides:   overrides,
		Constraints: t.Constraints.Constraints,
	}
	t.noteSpecialTokens(m.Text)
	if t.schema != "" {
		r.Schema, err = atomicfile.ReadSmall(t.schema, MaxSchema)
		if err != nil {
			return r, Wrap("--schema", err)
		}
	}
	if t.tokensIn != "" {
		r.Tokens, err = export.ReadPrompt(m, t.tokensIn, t.Length)
		return r, Wrap("--tokens-in", err)
	}

	r.Variables, err = t.chat.variables.Values()
	if err != nil {
		return r, err
	}
	c, err := m.Chat()
	if t.chat.system != "" && err == nil && !c.WritesSystem() {
		return r, Usagef("--system: the model's template leaves system messages out")
	}
	r.Messages, err = t.chat.readMessages()
	return r, err
}

// NameFlag returns the error of preparing the request of the flags, with the name of the flag that
// is wrong.
func (t *Text) NameFlag(err error) error {
	if t.Inputs != nil {
		return Wrap("--prompts", err)
	}
	return t.chat.nameFlag(NameFlag(err))
}

// registerTokenFlags adds the flags that restrict the drawn tokens; tokens describes their values
// in help.
func registerTokenFlags(f *pflag.FlagSet, ban, bias *[]string, tokens string) {
	f.StringArrayVar(ban, "ban", nil, "never draw these `TOKENS`: "+tokens+"; may be repeated")
	f.StringArrayVar(bias, "bias", nil,
		"add to the logits of tokens, `TOKENS=VALUE`; may be repeated")
}

// Constraints are the flags that restrict the drawn tokens and end a text.
type Constraints struct {
	prompt.Constraints

	schema string // a file's name
}

// Register adds the flags.
func (c *Constraints) Register(f *pflag.FlagSet) {
	registerTokenFlags(f, &c.Ban, &c.Bias, "ids such as 198,220, or a text, for all of its tokens")
	f.StringVar(&c.End, "end", "", "the `TOKEN` that ends a text, an id or a text, for --min-length "+
		"and --cut")
	f.Lookup("end").DefValue = "the tokenizer's"
	Int(f, &c.MinLength, param.Param{
		Name:    "min-length",
		Min:     0,
		Max:     1 << 30,
		Default: "0",
		Help:    "positions at the start that draw no end of text",
	})
	f.BoolVar(&c.Cut, "cut", false,
		"show the text only up to its first end after the prompt; the ids of --json stay whole")
	f.StringArrayVar(&c.Stop, "stop", nil,
		"show the text only up to the first of this `TEXT` after the prompt; may be repeated")
	f.StringVar(&c.schema, "schema", "", "make JSON by the JSON Schema in this `FILE`")
	Int(f, &c.Recursion, prompt.Recursion)
	f.StringVar(&c.Regex, "regex", "", "make text that this `EXPRESSION` matches, in RE2's syntax")
	f.StringArrayVar(&c.Avoid, "avoid", nil, "make text in which this `EXPRESSION` matches nowhere, "+
		"also not over the borders of holes; may be repeated")
	f.StringSliceVar(&c.Choice, "choice", nil, "make one of these `TEXTS`, separated by commas")
}
