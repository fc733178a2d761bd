package unmask

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
	Ban  []string `json:"ban,omitempty"`  // TOKENS that are never drawn
	Bias []string `json:"bias,omitempty"` // TOKENS=VALUE adds VALUE to their logits

	// MinLength is the least length of a text: End is not drawn at the first MinLength positions.
	MinLength int `json:"min_length,omitempty"`
	// Cut shows a text only up to its first End after what was given.
	Cut bool   `json:"cut,omitempty"`
	End string `json:"end,omitempty"` // the token for MinLength and Cut, as Text.End reads it
	// Stop are texts; what is shown of a text ends before the first of them in what was made.
	Stop []string `json:"stop,omitempty"`

	Grammar
}

// constrain adds the bans and biases of c to a filter, and returns the rest as an Adjust, nil for
// none. length is the number of the sequence's positions, with those around the text.
func (m *Model) constrain(f *model.Filter, c Constraints, length int) (
	adjust func(position int, logits []float32), err error) {
	for _, text := range c.Ban {
		tokens, err := tokenIDs(m.Text, m.Spec(), text)
		if err != nil {
			return nil, param.About("ban", err)
		}
		f.Ban = append(slices.Clip(f.Ban), tokens...)
	}
	if len(c.Bias) > 0 {
		f.Bias = maps.Clone(f.Bias)
	}
	for _, text := range c.Bias {
		if err := m.bias(f, text); err != nil {
			return nil, param.About("bias", err)
		}
	}
	if c.MinLength == 0 && !c.Cut {
		return nil, nil
	}
	spec := m.Spec()
	length -= spec.Around()
	if c.MinLength < 0 || c.MinLength > length {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: fmt.Sprintf("0 to %d, the length", length)}
	}
	if m.Text == nil {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: "0: the model makes no text", Reason: param.Unsupported}
	}
	end, err := m.Text.End(c.End)
	if err != nil || c.MinLength == 0 {
		return nil, err
	}
	return func(position int, logits []float32) {
		if position < len(spec.Before)+c.MinLength {
			logits[end] = float32(math.Inf(-1))
		}
	}, nil
}

// bias adds one "TOKENS=VALUE" of Constraints.Bias to a filter.
func (m *Model) bias(f *model.Filter, text string) error {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return fmt.Errorf("%q has no value, want TOKENS=VALUE", text)
	}
	value, err := strconv.ParseFloat(text[at+1:], 32)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 1) {
		return fmt.Errorf("the value of %q is %q, want a number", text, text[at+1:])
	}
	tokens, err := tokenIDs(m.Text, m.Spec(), text[:at])
	if err != nil {
		return err
	}
	if f.Bias == nil {
		f.Bias = map[int32]float32{}
	}
	for _, t := range tokens {
		f.Bias[t] += float32(value)
	}
	return nil
}

// listed matches a list of token ids.
var listed = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// tokenIDs reads TOKENS as Constraints describes them; t is nil where the model makes no text.
func tokenIDs(t *Text, spec model.Spec, text string) ([]int32, error) {
	switch {
	case listed.MatchString(text):
	case t == nil:
		return nil, fmt.Errorf("tokens are %q, want ids such as 3,17", text)
	default:
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
	for field := range strings.SplitSeq(text, ",") {
		id, err := strconv.Atoi(field)
		if most := spec.Outcomes - 1; err != nil || id > most {
			return nil, fmt.Errorf("token is %s, want 0 to %d", field, most)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
