package cli

import (
	"slices"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/outputs"
	"unmask/param"
	"unmask/param/flags"
	"unmask/tokenizers"
)

// tokenFlags say which tokens may be drawn.
type tokenFlags struct {
	ban, bias []string
}

func (c *tokenFlags) register(f *pflag.FlagSet, tokens string) {
	f.StringArrayVar(&c.ban, "ban", nil, "never draw these `TOKENS`: "+tokens+"; may be repeated")
	f.StringArrayVar(&c.bias, "bias", nil,
		"add to the logits of tokens, `TOKENS=VALUE`; may be repeated")
}

// constraintFlags say which tokens may be drawn, and where the text ends.
type constraintFlags struct {
	tokenFlags
	end       string
	minLength int
	cut       bool

	endID int32
}

func (c *constraintFlags) register(f *pflag.FlagSet) {
	c.tokenFlags.register(f, "ids such as 198,220, or a text, each token of it")
	f.StringVar(&c.end, "end", tokenizers.EndOfText,
		"the `TOKEN` that ends a text, an id or a text, for --min-length and --cut")
	flags.Int(f, &c.minLength, param.Param{Name: "min-length", Min: 0, Max: 1 << 30, Default: "0",
		Help: "draw no end of text at the first so many positions"})
	f.BoolVar(&c.cut, "cut", false,
		"show text up to its first end, after what was given; the ids of --json stay whole")
}

// constrain puts the flags into a run.
func (c *constraintFlags) constrain(m *unmask.Model, o *generate.Options) (err error) {
	constraints := unmask.Constraints{Ban: c.ban, Bias: c.bias, MinLength: c.minLength, End: c.end}
	if err := m.Constrain(o, constraints); err != nil {
		return usage("%v", err)
	}
	if c.cut {
		if c.endID, err = m.Text.End(c.end); err != nil {
			return usage("end: %v", err)
		}
	}
	return nil
}

// shown is the part of a finished sample that is text.
func (c *constraintFlags) shown(s outputs.Sample) []int32 {
	if !c.cut {
		return s.Tokens
	}
	made := slices.IndexFunc(s.Opening.Steps, func(step int) bool { return step > 0 })
	return unmask.Cut(s.Tokens, max(0, made), c.endID)
}
