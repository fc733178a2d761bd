package flags

import (
	"os"
	"slices"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/param"
	"unmask/runs/outputs"
	"unmask/tokenizers"
)

// Tokens are the flags that restrict the drawn tokens.
type Tokens struct {
	Ban, Bias []string
}

// Register adds the  tokens describes their values in help.
func (t *Tokens) Register(f *pflag.FlagSet, tokens string) {
	f.StringArrayVar(&t.Ban, "ban", nil, "never draw these `TOKENS`: "+tokens+"; may be repeated")
	f.StringArrayVar(&t.Bias, "bias", nil,
		"add to the logits of tokens, `TOKENS=VALUE`; may be repeated")
}

// Constrain applies the flags to a run.
func (t *Tokens) Constrain(m *unmask.Model, r *unmask.Run) error {
	if err := m.Constrain(r, unmask.Constraints{Ban: t.Ban, Bias: t.Bias}); err != nil {
		return Usage("--%v", err)
	}
	return nil
}

// Constraints are the flags that restrict the drawn tokens and end a text.
type Constraints struct {
	Tokens
	End       string
	MinLength int
	Cut       bool

	schema, regex string
	choice        []string

	end  int32   // the token for Cut
	ends []int32 // those after which a grammar's text is not shown
}

// Register adds the
func (c *Constraints) Register(f *pflag.FlagSet) {
	c.Tokens.Register(f, "ids such as 198,220, or a text, for all of its tokens")
	f.StringVar(&c.End, "end", tokenizers.EndOfText,
		"the `TOKEN` that ends a text, an id or a text, for --min-length and --cut")
	Int(f, &c.MinLength, param.Param{Name: "min-length", Min: 0, Max: 1 << 30, Default: "0",
		Help: "positions at the start that draw no end of text"})
	f.BoolVar(&c.Cut, "cut", false,
		"show the text only up to its first end after the prompt; the ids of --json stay whole")
	f.StringVar(&c.schema, "schema", "", "make JSON by the JSON Schema in this `FILE`")
	f.StringVar(&c.regex, "regex", "", "make text that this `EXPRESSION` matches, in RE2's syntax")
	f.StringSliceVar(&c.choice, "choice", nil, "make one of these `TEXTS`, separated by commas")
}

func (c *Constraints) check(f *pflag.FlagSet) error {
	if f.Changed("end") && c.MinLength == 0 && !c.Cut {
		return Usage("--end is %q, want it with --min-length or --cut", c.End)
	}
	return nil
}

// Constrain applies the flags to a run.
func (c *Constraints) Constrain(m *unmask.Model, r *unmask.Run) (err error) {
	constraints := unmask.Constraints{Ban: c.Ban, Bias: c.Bias, MinLength: c.MinLength, End: c.End,
		Grammar: unmask.Grammar{Regex: c.regex, Choice: c.choice}}
	if c.schema != "" {
		if constraints.Schema, err = os.ReadFile(c.schema); err != nil {
			return Wrap("--schema", err)
		}
	}
	if err := m.Constrain(r, constraints); err != nil {
		return Usage("--%v", err)
	}
	if !constraints.Grammar.IsZero() {
		c.ends = r.Ends
	}
	if c.Cut {
		if c.end, err = m.Text.End(c.End); err != nil {
			return Usage("end: %v", err)
		}
	}
	return nil
}

// shown returns the part of a finished sample that is shown as text.
func (c *Constraints) shown(s outputs.Sample) []int32 {
	if !c.Cut && c.ends == nil {
		return s.Tokens
	}
	made := slices.IndexFunc(s.Opening.Steps, func(step int) bool { return step > 0 })
	tokens := s.Tokens
	for _, end := range c.ends {
		tokens = unmask.Cut(tokens, max(0, made), end)
	}
	if c.Cut {
		tokens = unmask.Cut(tokens, max(0, made), c.end)
	}
	return tokens
}
