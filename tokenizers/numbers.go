package tokenizers

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers returns a tokenizer for models that have none: ids 0 to size-1 are written as numbers,
// each followed by a space.
func Numbers(size int) Tokenizer { return asNumbers(size) }

type asNumbers int

// IsNumeric reports whether a tokenizer is that of Numbers, WithMask or without.
func IsNumeric(t Tokenizer) bool {
	if m, ok := t.(*masked); ok {
		t = m.Tokenizer
	}
	_, ok := t.(asNumbers)
	return ok
}

// Encode reads what Decode writes.
func (n asNumbers) Encode(text string) ([]int32, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("text is %d bytes, want at most %d", len(text), MaxText)
	}
	var ids []int32
	for field := range strings.FieldsSeq(text) {
		id, err := strconv.Atoi(field)
		if err != nil || id < 0 || id >= int(n) {
			return nil, fmt.Errorf("token is %.20q, want numbers 0 to %d with spaces between", field,
				int(n)-1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

func (n asNumbers) EncodeSpecial(text string) ([]int32, error) { return n.Encode(text) }

func (n asNumbers) Decode(ids []int32) string { return strings.Join(n.Pieces(ids), "") }

func (n asNumbers) Pieces(ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		var ok bool
		if out[i], ok = n.Token(id); !ok {
			out[i] = "\uFFFD"
		}
	}
	return out
}

func (n asNumbers) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= int(n) {
		return "", false
	}
	return strconv.Itoa(int(id)) + " ", true
}

func (n asNumbers) Special(string) (int32, bool) { return 0, false }
func (n asNumbers) VocabSize() int               { return int(n) }
