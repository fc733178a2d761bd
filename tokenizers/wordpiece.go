package tokenizers

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the longest word, in characters, that WordPiece divides (BertTokenizer,
// max_input_chars_per_word).
const maxWord = 100

// pieceWords cuts text as BERT's tokenizer does: at white space, around each punctuation mark and
// each Chinese character, and then each word into the longest tokens from its start on, where all
// but the first begin with ##. With lower, letters lose their case and accents first.
func (w *wordList) pieceWords(text string, lower bool) ([]string, error) {
	var out []string
	for _, word := range basicWords(text, lower) {
		pieces := w.longest(word)
		if pieces == nil {
			return nil, fmt.Errorf("word %.40q is not in the vocabulary", word)
		}
		out = append(out, pieces...)
	}
	return out, nil
}

// longest cuts one word, or returns nil if a part has no token.
func (w *wordList) longest(word string) (pieces []string) {
	if utf8.RuneCountInString(word) > maxWord {
		return nil
	}
	prefix := ""
	for word != "" {
		end := len(word)
		for end > 0 {
			if _, ok := w.ids[prefix+word[:end]]; ok {
				break
			}
			_, size := utf8.DecodeLastRuneInString(word[:end])
			end -= size
		}
		if end == 0 {
			return nil
		}
		pieces = append(pieces, prefix+word[:end])
		word, prefix = word[end:], "##"
	}
	return pieces
}

// basicWords divides text into words and single marks.
func basicWords(text string, lower bool) []string {
	var spaced strings.Builder
	if lower {
		text = lowercase(norm.NFD.String(text))
	}
	for _, r := range text {
		switch {
		case r == 0 || r == utf8.RuneError || lower && unicode.Is(unicode.Mn, r):
		case unicode.IsSpace(r):
			spaced.WriteByte(' ')
		case unicode.In(r, unicode.Cc, unicode.Cf):
		case isMark(r) || unicode.Is(unicode.Han, r):
			spaced.WriteString(" " + string(r) + " ")
		default:
			spaced.WriteRune(r)
		}
	}
	return strings.Fields(spaced.String())
}

// isMark reports whether r is punctuation for BERT: also every sign of ASCII that is neither letter
// nor digit.
func isMark(r rune) bool {
	ascii := r > ' ' && r < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	return ascii || unicode.IsPunct(r)
}
