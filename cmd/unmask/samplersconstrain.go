package main

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/internal/durable"
	"unmask/tokenizers"
)

// tokenFlags say which tokens may be drawn.
type tokenFlags struct {
	ban, bias []string
}

func (c *tokenFlags) register(f *pflag.FlagSet, tokens string) {
	f.StringArrayVar(&c.ban, "ban", nil, "never draw these `TOKENS`: "+tokens+"; may be repeated")
	f.StringArrayVar(&c.bias, "bias", nil, "add to the logits of tokens, `TOKENS=VALUE`; may be repeated")
}

// constraintFlags say which tokens may be drawn, and where the text ends.
type constraintFlags struct {
	tokenFlags
	end       string
	minLength int
	cut       bool

	from  int   // the first position that may end the text
	endID int32 // -1 where nothing ends it
}

func (c *constraintFlags) register(f *pflag.FlagSet) {
	c.tokenFlags.register(f, "ids such as 198,220, or a text, each token of it")
	f.StringVar(&c.end, "end", tokenizers.EndOfText, "the `TOKEN` that ends a text, an id or a text, for --min-length and --cut")
	f.IntVar(&c.minLength, "min-length", 0, "draw no end of text at the first so many positions")
	f.BoolVar(&c.cut, "cut", false, "show text up to its first end, after what was given; the ids of --json stay whole")
}

// ids is a list of token ids.
var ids = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// tokenIDs reads ids, the spelling of a special token, or a text.
func tokenIDs(flag string, m *unmask.Model, text string) ([]int32, error) {
	if !ids.MatchString(text) {
		if m.Tokenizer == nil {
			return nil, usage("%s %q, allowed are ids such as 3,17", flag, text)
		}
		if id, ok := m.Tokenizer.Special(text); ok && id != m.Spec().Mask {
			return []int32{id}, nil
		}
		out, err := m.Tokenizer.Encode(text)
		if err == nil && len(out) == 0 {
			err = usage("no token")
		}
		if err != nil {
			return nil, usage("%s %q: %v", flag, text, err)
		}
		return out, nil
	}
	var out []int32
	for field := range strings.SplitSeq(text, ",") {
		id, err := strconv.Atoi(field)
		if most := m.Spec().Outcomes - 1; err != nil || id > most {
			return nil, usage("%s %q: token %s, allowed are 0..%d", flag, text, field, most)
		}
		out = append(out, int32(id))
	}
	return out, nil
}

// filter checks the flags and puts them into a run.
func (c *tokenFlags) filter(m *unmask.Model, o *generate.Options) error {
	for _, text := range c.ban {
		tokens, err := tokenIDs("--ban", m, text)
		if err != nil {
			return err
		}
		o.Filter.Ban = append(o.Filter.Ban, tokens...)
	}
	for _, text := range c.bias {
		at := strings.LastIndexByte(text, '=')
		if at < 0 {
			return usage("--bias %q, allowed is TOKENS=VALUE", text)
		}
		value, err := strconv.ParseFloat(text[at+1:], 32)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 1) {
			return usage("--bias %q: value %q, allowed are numbers", text, text[at+1:])
		}
		tokens, err := tokenIDs("--bias", m, text[:at])
		if err != nil {
			return err
		}
		if o.Filter.Bias == nil {
			o.Filter.Bias = map[int32]float32{}
		}
		for _, t := range tokens {
			o.Filter.Bias[t] += float32(value)
		}
	}
	return nil
}

// settings are those of a long run.
func (c *tokenFlags) settings(s durable.Settings) {
	s["ban"], s["bias"] = strings.Join(c.ban, "\n"), strings.Join(c.bias, "\n")
}

// constrain checks the flags and puts them into a run.
func (c *constraintFlags) constrain(m *unmask.Model, o *generate.Options) error {
	if err := c.filter(m, o); err != nil {
		return err
	}
	return c.constrainEnd(m, o)
}

// constrainEnd finds the token that ends the text and keeps it from coming too soon.
func (c *constraintFlags) constrainEnd(m *unmask.Model, o *generate.Options) error {
	c.endID = -1
	if c.minLength < 0 || c.minLength > len(o.Tokens) {
		return usage("--min-length is %d, allowed are 0..%d, the length", c.minLength, len(o.Tokens))
	}
	if c.minLength == 0 && !c.cut {
		return nil
	}
	if _, special := m.Tokenizer.Special(c.end); !special && c.end == tokenizers.EndOfText {
		return usage("this model's vocabulary has no %s, so --min-length and --cut need --end TOKEN", c.end)
	}
	end, err := tokenIDs("--end", m, c.end)
	if err != nil {
		return err
	}
	if len(end) != 1 {
		return usage("--end %q is %d tokens, allowed is one", c.end, len(end))
	}
	c.endID = end[0]
	c.from = max(0, slices.Index(o.Tokens, m.Spec().Mask))
	if c.minLength > 0 {
		least, id := c.minLength, c.endID
		o.Adjust = func(_, position int, logits []float32) {
			if position < least {
				logits[id] = float32(math.Inf(-1))
			}
		}
	}
	return nil
}

// shown is the part of a finished sample that is text.
func (c *constraintFlags) shown(tokens []int32) []int32 {
	if c.cut {
		if n := slices.Index(tokens[c.from:], c.endID); n >= 0 {
			return tokens[:c.from+n]
		}
	}
	return tokens
}
