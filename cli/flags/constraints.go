package flags

import (
	"github.com/spf13/pflag"

	"unmask"
	"unmask/param"
)

// registerTokens adds the flags that restrict the drawn tokens; tokens describes their values in
// help.
func registerTokens(f *pflag.FlagSet, ban, bias *[]string, tokens string) {
	f.StringArrayVar(ban, "ban", nil, "never draw these `TOKENS`: "+tokens+"; may be repeated")
	f.StringArrayVar(bias, "bias", nil,
		"add to the logits of tokens, `TOKENS=VALUE`; may be repeated")
}

// Constraints are the flags that restrict the drawn tokens and end a text.
type Constraints struct {
	unmask.Constraints

	schema string // a file's name
}

// Register adds the flags.
func (c *Constraints) Register(f *pflag.FlagSet) {
	registerTokens(f, &c.Ban, &c.Bias, "ids such as 198,220, or a text, for all of its tokens")
	f.StringVar(&c.End, "end", "", "the `TOKEN` that ends a text, an id or a text, for --min-length "+
		"and --cut")
	f.Lookup("end").DefValue = "the tokenizer's"
	Int(f, &c.MinLength, param.Param{Name: "min-length", Min: 0, Max: 1 << 30, Default: "0",
		Help: "positions at the start that draw no end of text"})
	f.BoolVar(&c.Cut, "cut", false,
		"show the text only up to its first end after the prompt; the ids of --json stay whole")
	f.StringArrayVar(&c.Stop, "stop", nil,
		"show the text only up to the first of this `TEXT` after the prompt; may be repeated")
	f.StringVar(&c.schema, "schema", "", "make JSON by the JSON Schema in this `FILE`")
	Int(f, &c.Recursion, unmask.Recursion)
	f.StringVar(&c.Regex, "regex", "", "make text that this `EXPRESSION` matches, in RE2's syntax")
	f.StringArrayVar(&c.Avoid, "avoid", nil, "make text in which this `EXPRESSION` matches nowhere, "+
		"also not over the borders of holes; may be repeated")
	f.StringSliceVar(&c.Choice, "choice", nil, "make one of these `TEXTS`, separated by commas")
}
