package exact

import (
	"fmt"
	"strconv"
	"strings"

	"unmask/tokenizers"
)

// Symbols writes the tokens of a model as letters a to z or, if there are more, as numbers followed
// by a space; those of Letters are a to z and a space. Rows of a grid end with a line break. hole
// stands for a masked position.
func Symbols(m *Model, hole string) tokenizers.Tokenizer {
	s := symbols{tokens: m.Tokens(), length: m.Length(), letters: m.alphabet, hole: hole}
	if m.Tokens() < len(alphabet) {
		s.letters = alphabet[:m.Tokens()]
	}
	if shape := m.Shape(); len(shape) == 2 {
		s.width = shape[1]
	}
	return s
}

// symbols is the tokenizer that Symbols returns.
type symbols struct {
	tokens int
	length int // positions of a whole sequence

	// width is the number of columns of a grid, 0 for a line.
	width int

	// letters are those of the tokens; "" for numbers.
	letters string

	// hole stands for a masked position.
	hole string
}

// Encode reads what Decode writes, except holes.
func (s symbols) Encode(text string) ([]int32, error) {
	var ids []int32
	if s.letters != "" {
		for _, r := range text {
			if id := strings.IndexRune(s.letters, r); id >= 0 {
				ids = append(ids, int32(id))
			} else if r != '\n' && r != ' ' {
				return nil, fmt.Errorf("oracle: symbol %q, want letters a to %c", r,
					'a'+min(s.tokens, len(alphabet)-1)-1)
			}
		}
		return ids, nil
	}
	for field := range strings.FieldsSeq(text) {
		id, err := strconv.Atoi(field)
		if err != nil || id < 0 || id >= s.tokens {
			return nil, fmt.Errorf("oracle: symbol %q, want numbers 0 to %d with spaces between", field,
				s.tokens-1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

func (s symbols) EncodeSpecial(text string) ([]int32, error) { return s.Encode(text) }

func (s symbols) Decode(ids []int32) string { return strings.Join(s.Pieces(ids), "") }

// Pieces implements tokenizers.Tokenizer. The rows of a grid are lines.
func (s symbols) Pieces(ids []int32) []string {
	isGrid := s.width > 0 && len(ids) == s.length
	pieces := make([]string, len(ids))
	for i, id := range ids {
		piece, ok := s.Token(id)
		if !ok {
			piece = "\uFFFD"
		}
		if isGrid && (i+1)%s.width == 0 && i+1 < len(ids) {
			piece += "\n"
		}
		pieces[i] = piece
	}
	return pieces
}

// Token implements tokenizers.Tokenizer: a letter, or a number with a space behind it, so that
// numbers beside each other can be told apart.
func (s symbols) Token(id int32) (string, bool) {
	text := ""
	switch {
	case int(id) == s.tokens:
		text = s.hole
	case id < 0 || int(id) > s.tokens:
		return "", false
	case s.letters != "":
		return s.letters[id : id+1], true
	default:
		text = strconv.Itoa(int(id))
	}
	if s.letters == "" {
		text += " "
	}
	return text, true
}

func (s symbols) Special(string) (int32, bool) { return 0, false }
func (s symbols) VocabSize() int               { return s.tokens + 1 }
