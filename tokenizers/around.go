package tokenizers

import (
	"encoding/json"
	"fmt"
	"slices"
)

// surrounding holds the ids that a post-processor puts before and after the ids of a text.
type surrounding struct{ before, after []int32 }

// readPostProcessor reads a post-processor; its effect on offsets is ignored.
func readPostProcessor(s object) (surrounding, error) {
	kind, err := s.kind()
	if err != nil || kind == "" {
		return surrounding{}, err
	}
	switch kind {
	case "ByteLevel":
		return surrounding{}, s.allowOnly("add_prefix_space", "trim_offsets", "use_regex")
	case "TemplateProcessing":
		return readTemplateProcessing(s)
	case "BertProcessing", "RobertaProcessing":
		var sep, cls []json.RawMessage
		if err := s.readFields(map[string]any{"sep": &sep, "cls": &cls}, "trim_offsets",
			"add_prefix_space"); err != nil {
			return surrounding{}, err
		}
		var first, last int32
		if len(sep) != 2 || len(cls) != 2 || json.Unmarshal(cls[1], &first) != nil ||
			json.Unmarshal(sep[1], &last) != nil {
			return surrounding{}, fmt.Errorf("sep and cls are not a token and its id each")
		}
		return surrounding{[]int32{first}, []int32{last}}, nil
	case "Sequence":
		return readSequence(s, "processors", readPostProcessor, func(all []surrounding) surrounding {
			var sum surrounding
			for _, a := range all { // each puts its tokens around what those before it have made
				sum.before = slices.Concat(a.before, sum.before)
				sum.after = append(sum.after, a.after...)
			}
			return sum
		})
	}
	return surrounding{}, fmt.Errorf("type is %.40q, want ByteLevel, TemplateProcessing, "+
		"RobertaProcessing, BertProcessing or Sequence", kind)
}

// readTemplateProcessing reads the tokens before and after A in the template of one text.
func readTemplateProcessing(s object) (surrounding, error) {
	type reference struct {
		ID string `json:"id"`
	}
	var single []struct {
		Sequence     *reference
		SpecialToken *reference
	}
	var special map[string]struct {
		IDs []int32 `json:"ids"`
	}
	if err := s.readFields(map[string]any{"single": &single, "special_tokens": &special},
		"pair"); err != nil {
		return surrounding{}, err
	}
	var a surrounding
	texts := 0
	for i, part := range single {
		switch {
		case part.Sequence != nil && part.SpecialToken == nil && part.Sequence.ID == "A":
			texts++
		case part.SpecialToken != nil && part.Sequence == nil:
			token, ok := special[part.SpecialToken.ID]
			if !ok {
				return a, fmt.Errorf("single[%d]: %.40q is not in special_tokens", i,
					part.SpecialToken.ID)
			}
			if texts == 0 {
				a.before = append(a.before, token.IDs...)
			} else {
				a.after = append(a.after, token.IDs...)
			}
		default:
			return a, fmt.Errorf("single[%d] is neither Sequence A nor a SpecialToken", i)
		}
	}
	if texts != 1 {
		return a, fmt.Errorf("single has the text %d times, want 1", texts)
	}
	return a, nil
}
