package flags

import (
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

	end int32 // the token for Cut
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
}

func (c *Constraints) check(f *pflag.FlagSet) error {
	if f.Changed("end") && c.MinLength == 0 && !c.Cut {
		return Usage("--end is %q, want it with --min-length or --cut", c.End)
	}
	return nil
}

// Constrain applies the flags to a run.
func (c *Constraints) Constrain(m *unmask.Model, r *unmask.Run) (err error) {
	constraints := unmask.Constraints{Ban: c.Ban, Bias: c.Bias, MinLength: c.MinLength, End: c.End}
	if err := m.Constrain(r, constraints); err != nil {
		return Usage("--%v", err)
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
	if !c.Cut {
		return s.Tokens
	}
	made := slices.IndexFunc(s.Opening.Steps, func(step int) bool { return step > 0 })
	return unmask.Cut(s.Tokens, max(0, made), c.end)
}
