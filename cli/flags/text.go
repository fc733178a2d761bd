package flags

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/param"
	"unmask/research/export"
	"unmask/runs"
	"unmask/runs/outputs"
)

// Text holds the flags for what texts begin with, and for the tokens that they may have.
type Text struct {
	Constraints
	Length int            // --length, 0 for the model's
	Inputs []unmask.Input // of --prompts, set by Check, or set by the caller without the flag

	prompt, infill, prompts, tokensIn string
	chat                              chat
}

// Register adds the
func (t *Text) Register(f *pflag.FlagSet) {
	t.Constraints.Register(f)
	Length(f, &t.Length)
	f.StringVar(&t.prompt, "prompt", "",
		"text that every sample begins with; - reads it from standard input")
	f.StringVar(&t.infill, "infill", "",
		`text with holes, [N] for N tokens, such as "Once upon a time there[3] girl named Lily."`)
	f.StringVar(&t.prompts, "prompts", "",
		"`FILE` of prompts, one a line, or JSONL of objects with prompt or infill, and seed, or FASTA "+
			"(.fasta, .fa, .faa) of sequences with or without holes; - reads "+
			"standard input; sample i uses line i, starting over after the last")
	f.StringVar(&t.tokensIn, "tokens-in", "",
		"token ids that every sample begins with: a safetensors `FILE` with tokens I64, or FILE:TENSOR")
	t.chat.register(f)
}

// Length adds --length.
func Length(f *pflag.FlagSet, to *int) {
	Int(f, to, param.Param{Name: "length", Min: 1, Max: 1 << 30, Zero: "the model's",
		Default: "0", Help: "tokens of a sample, 0 for the model's length"})
}

// Check returns an error for flags that exclude each other, and reads standard input and --prompts
// if needed.
func (t *Text) Check(f *pflag.FlagSet) (err error) {
	if err := t.Constraints.check(f); err != nil {
		return err
	}
	for _, text := range []*string{&t.prompt, &t.infill} {
		if *text == "-" {
			if *text, err = readText(); err != nil {
				return err
			}
		}
	}
	if err := t.chat.check(f); err != nil {
		return err
	}
	switch given := t.prompt != "" || t.infill != ""; {
	case t.prompt != "" && t.infill != "":
		return Usage("--prompt and --infill together, want one of them")
	case t.chat.asked() && given:
		return Usage("--chat or --messages with --prompt or --infill, want one of them")
	case t.tokensIn != "" && (given || t.chat.asked()):
		return Usage("--tokens-in with another prompt, want one of them")
	case t.prompts == "":
		return nil
	}
	for _, other := range []string{"prompt", "infill", "tokens-in", "chat", "messages", "watch",
		"trace"} {
		if f.Changed(other) {
			return Usage("--prompts and --%s together, want one of them", other)
		}
	}
	if t.Inputs, err = readInputs(t.prompts); err != nil {
		return Wrap("--prompts", err)
	}
	return nil
}

// Begin sets a run's known tokens (none, or those of a prompt, a text with holes, or messages) and
// the tokens that it may draw.
func (t *Text) Begin(m *unmask.Model, r *unmask.Run) (err error) {
	switch in := (unmask.Input{Prompt: t.prompt, Infill: t.infill}); {
	case t.chat.asked():
		if r.Tokens, err = t.chat.tokens(m, t.Length); err != nil {
			return err
		}
		r.Ends = t.chat.model.Stops()
	case t.tokensIn != "":
		if r.Tokens, err = export.Prompt(m, t.tokensIn, t.Length); err != nil {
			return Wrap("--tokens-in", err)
		}
	default:
		if r.Tokens, err = m.Text.Known(in, t.Length); err == nil {
			break
		}
		flag := "length"
		if t.prompt != "" {
			flag = "prompt"
		} else if t.infill != "" {
			flag = "infill"
		}
		return Usage("--%s: %v", flag, err)
	}
	return t.Constrain(m, r)
}

// Shown returns the shown tokens of a sample.
func (t *Text) Shown(s outputs.Sample) []int32 {
	switch {
	case s.Unfinished:
		return s.Tokens[t.chat.from:]
	case t.chat.model != nil:
		return t.chat.shown(s.Tokens)
	}
	return t.Constraints.shown(s)
}

// Settings adds everything that decides the bytes of a file of texts.
func (t *Text) Settings(s runs.Settings) {
	if t.chat.asked() {
		s["text"] = "answer"
	}
	if t.schema != "" || t.regex != "" || t.choice != nil {
		s["schema"], s["regex"], s["choice"] = t.schema, t.regex, strings.Join(t.choice, ",")
	}
	if t.MinLength > 0 || t.Cut {
		s["end"], s["min-length"], s["cut"] = t.End, strconv.Itoa(t.MinLength),
			strconv.FormatBool(t.Cut)
	}
}
