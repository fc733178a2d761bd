package unmask

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"unmask/model"
)

// Constraints restrict the tokens that a run may draw, in text. TOKENS are ids such as "3,17" or,
// where the model makes text, a special token's spelling or a text, meaning each of its tokens.
type Constraints struct {
	Ban  []string // TOKENS that are never drawn
	Bias []string // TOKENS=VALUE adds VALUE to their logits

	// MinLength is the least length of a text: End, as Text.End reads it, is not drawn at the first
	// MinLength positions.
	MinLength int
	End       string
}

// Constrain adds c to a run.
func (m *Model) Constrain(r *Run, c Constraints) error {
	for _, text := range c.Ban {
		tokens, err := tokenIDs(m.Text, m.Spec(), text)
		if err != nil {
			return fmt.Errorf("ban: %w", err)
		}
		r.Filter.Ban = append(r.Filter.Ban, tokens...)
	}
	for _, text := range c.Bias {
		if err := m.bias(r, text); err != nil {
			return fmt.Errorf("bias: %w", err)
		}
	}
	if c.MinLength == 0 {
		return nil
	}
	length := r.Length
	if length == 0 {
		length = m.Spec().Length()
		if r.Tokens != nil {
			length = len(r.Tokens)
		}
	}
	if c.MinLength < 0 || c.MinLength > length {
		return fmt.Errorf("min-length is %d, want 0 to %d, the length", c.MinLength, length)
	}
	if m.Text == nil {
		return fmt.Errorf("min-length is %d, want 0: the model makes no text", c.MinLength)
	}
	end, err := m.Text.End(c.End)
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	before := r.Adjust
	r.Adjust = func(sequence, position int, logits []float32) {
		if before != nil {
			before(sequence, position, logits)
		}
		if position < c.MinLength {
			logits[end] = float32(math.Inf(-1))
		}
	}
	return nil
}

// bias adds one "TOKENS=VALUE" of Constraints.Bias to a run.
func (m *Model) bias(r *Run, text string) error {
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
	if r.Filter.Bias == nil {
		r.Filter.Bias = map[int32]float32{}
	}
	for _, t := range tokens {
		r.Filter.Bias[t] += float32(value)
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
