package prompt

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask/model"
	"unmask/param"
)

// Constraints restrict the tokens that a run may draw, in text. TOKENS are ids such as "3,17" or,
// where the model makes text, a special token's spelling or a text, meaning each of its tokens.
type Constraints struct {
	// Ban are TOKENS that are never drawn.
	Ban []string `json:"ban,omitempty"`

	// Bias are TOKENS=VALUE, each of which adds VALUE to the logits of TOKENS.
	Bias []string `json:"bias,omitempty"`

	// MinLength is the least length of a text: End is not drawn at the first MinLength positions.
	MinLength int `json:"min_length,omitempty"`

	// Cut shows a text only up to its first End after what the request gave.
	Cut bool `json:"cut,omitempty"`

	// End is the token for MinLength and Cut, as Text.End reads it.
	End string `json:"end,omitempty"`

	// Stop are texts; what is shown of a text ends before the first of them in the generated part.
	Stop []string `json:"stop,omitempty"`

	Grammar
}

// ApplyTo adds the bans and biases of c to a filter of a model with the given Spec, and returns
// what else changes logits, nil for nothing. t is nil where the model makes no text. length is the
// number of the sequence's positions, with those around the text. An error is a *param.Error that
// names the field.
func (c Constraints) ApplyTo(f *model.Filter, t *Text, spec model.Spec, length int) (
	adjust func(position int, logits []float32), err error) {
	f.Ban = slices.Clone(f.Ban)
	for _, text := range c.Ban {
		tokens, err := ParseTokens(t, spec, text)
		if err != nil {
			return nil, param.WithName("ban", err)
		}
		f.Ban = append(f.Ban, tokens...)
	}
	slices.Sort(f.Ban)
	f.Ban = slices.Compact(f.Ban)

	if len(c.Bias) > 0 {
		f.Bias = maps.Clone(f.Bias)
	}
	for _, text := range c.Bias {
		if err := addBias(f, t, spec, text); err != nil {
			return nil, param.WithName("bias", err)
		}
	}

	if c.MinLength == 0 && !c.Cut {
		return nil, nil
	}
	return c.minLength(t, spec, length-spec.SpecialCount())
}

// minLength returns the function that forbids the end token at the first MinLength of length
// positions.
func (c Constraints) minLength(t *Text, spec model.Spec, length int) (
	adjust func(position int, logits []float32), err error) {
	if c.MinLength < 0 || c.MinLength > length {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: fmt.Sprintf("0 to %d, the length", length)}
	}
	if t == nil {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: "0: the model makes no text", Reason: param.Unsupported}
	}
	end, err := t.End(c.End)
	if err != nil || c.MinLength == 0 {
		return nil, err
	}
	firstAllowed := len(spec.BeforeText) + c.MinLength
	return func(position int, logits []float32) {
		if position < firstAllowed {
			logits[end] = float32(math.Inf(-1))
		}
	}, nil
}

// addBias adds one "TOKENS=VALUE" of Constraints.Bias to a filter.
func addBias(f *model.Filter, t *Text, spec model.Spec, text string) error {
	separator := strings.LastIndexByte(text, '=')
	if separator < 0 {
		return fmt.Errorf("%q has no value, want TOKENS=VALUE", text)
	}
	number := text[separator+1:]
	value, err := strconv.ParseFloat(number, 32)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 1) {
		return fmt.Errorf("the value of %q is %q, want a number", text, number)
	}
	tokens, err := ParseTokens(t, spec, text[:separator])
	if err != nil {
		return err
	}
	if f.Bias == nil {
		f.Bias = map[int32]float32{}
	}
	for _, id := range tokens {
		f.Bias[id] += float32(value)
	}
	return nil
}

// idList matches a list of token ids.
var idList = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// ParseTokens reads TOKENS as Constraints describes them; t is nil where the model makes no text.
// An id beyond the vocabulary is an error, and a text without tokens.
func ParseTokens(t *Text, spec model.Spec, text string) ([]int32, error) {
	if !idList.MatchString(text) {
		if t == nil {
			return nil, fmt.Errorf("tokens are %q, want ids such as 3,17", text)
		}
		if id, ok := t.Special(text); ok && id != spec.Mask {
			return []int32{id}, nil
		}
		ids, err := t.Encode(text)
		if err == nil && len(ids) == 0 {
			err = fmt.Errorf("tokens are %q, want at least one", text)
		}
		return ids, err
	}

	var ids []int32
	largest := spec.Outcomes - 1
	for field := range strings.SplitSeq(text, ",") {
		id, err := strconv.Atoi(field)
		if err != nil || id > largest {
			return nil, fmt.Errorf("token is %s, want 0 to %d", field, largest)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
