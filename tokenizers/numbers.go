package tokenizers

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers returns a tokenizer for models that have none: ids 0 to size-1 are written as numbers,
// each followed by a space.
func Numbers(size int) Tokenizer { return numberTokenizer(size) }

type numberTokenizer int

// IsNumeric reports whether a tokenizer is that of Numbers, also below WithMask.
func IsNumeric(t Tokenizer) bool {
	if m, ok := t.(*masked); ok {
		t = m.Tokenizer
	}
	_, ok := t.(numberTokenizer)
	return ok
}

// Encode reads what Decode writes.
func (n numberTokenizer) Encode(text string) ([]int32, error) {
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

func (n numberTokenizer) EncodeSpecial(text string) ([]int32, error) { return n.Encode(text) }

func (n numberTokenizer) Decode(ids []int32) string { return strings.Join(n.Pieces(ids), "") }

// Pieces implements Tokenizer.
func (n numberTokenizer) Pieces(ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		text, ok := n.Token(id)
		if !ok {
			text = replacement
		}
		out[i] = text
	}
	return out
}

// Token implements Tokenizer: the number, and a blank that divides it from the next.
func (n numberTokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= int(n) {
		return "", false
	}
	return strconv.Itoa(int(id)) + " ", true
}

func (n numberTokenizer) Special(string) (int32, bool) { return 0, false }
func (n numberTokenizer) VocabSize() int               { return int(n) }
