package tokenizers

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// maxWord is the longest word, in characters, that WordPiece divides (BertTokenizer,
// max_input_chars_per_word).
const maxWord = 100

// longToken bounds the tokens of a vocabulary that divides words longer than maxWord, in bytes:
// each place of a word is tried with as many ends.
const longToken = 256

// wordPieces divides words as WordPiece does: into the longest tokens from the start on, where all
// but the first begin with a prefix (Devlin et al. 2019). A word without such tokens is an error.
type wordPieces struct {
	ids    map[string]int32
	prefix string
	most   int // characters of the longest word
	ends   int // bytes of the longest token
}

// divide returns the tokens of one word, nil if a part has none.
func (w *wordPieces) divide(word string) (pieces []string) {
	if utf8.RuneCountInString(word) > w.most {
		return nil
	}
	prefix := ""
	for word != "" {
		end := min(len(word), w.ends)
		for end > 0 && end < len(word) && !utf8.RuneStart(word[end]) {
			end--
		}
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
		word, prefix = word[end:], w.prefix
	}
	return pieces
}

func (w *wordPieces) append(ids []int32, word string, _ *scratch) ([]int32, error) {
	pieces := w.divide(word)
	if pieces == nil {
		return ids, fmt.Errorf("word %.40q is not in the vocabulary", word)
	}
	for _, p := range pieces {
		ids = append(ids, w.ids[p])
	}
	return ids, nil
}

// readWordPiece reads the settings of a WordPiece model.
func readWordPiece(model object) (*wordPieces, error) {
	w := &wordPieces{prefix: "##", most: maxWord}
	var unknown string
	if err := model.read(map[string]any{"unk_token": &unknown,
		"continuing_subword_prefix": &w.prefix, "max_input_chars_per_word": &w.most},
		"vocab"); err != nil {
		return nil, err
	}
	if w.most < 1 || w.most > 1<<20 {
		return nil, fmt.Errorf("max_input_chars_per_word: %d, want 1 to %d", w.most, 1<<20)
	}
	return w, nil
}

func (w *wordPieces) learn(_ object, vocab map[string]int64, bytes bool) error {
	if bytes {
		return fmt.Errorf("pre_tokenizer.type is \"ByteLevel\" with a WordPiece model, want another")
	}
	w.ids = make(map[string]int32, len(vocab))
	for text, id := range vocab {
		w.ids[text], w.ends = int32(id), max(w.ends, len(text))
	}
	if w.most > maxWord && w.ends > longToken {
		return fmt.Errorf("max_input_chars_per_word: %d with a token of %d bytes, want at most %d with it",
			w.most, w.ends, maxWord)
	}
	return nil
}

func (w *wordPieces) bar(ids map[int32]bool) {
	maps.DeleteFunc(w.ids, func(_ string, id int32) bool { return ids[id] })
}

func (w *wordPieces) clone() subwords {
	out := *w
	out.ids = maps.Clone(w.ids)
	return &out
}

// readDecodeWordPiece reads a decoder that puts a space before each token but the first that is
// shown, unless it begins with the prefix. With cleanup it takes away spaces before marks and
// English endings.
func readDecodeWordPiece(s object) (decoder, error) {
	prefix, cleanup := "##", true
	if err := s.read(map[string]any{"prefix": &prefix, "cleanup": &cleanup}); err != nil {
		return nil, err
	}
	words := each(func(first bool, text string) string {
		if rest, ok := strings.CutPrefix(text, prefix); !first && ok {
			text = rest
		} else if !first {
			text = " " + text
		}
		if cleanup {
			for _, r := range tidied {
				text = strings.ReplaceAll(text, r[0], r[1])
			}
		}
		return text
	})
	return func(tokens []spelled) []spelled {
		begun := false
		for _, t := range tokens {
			if begun && len(t) > 0 && t[0].fixed && !t[0].hidden {
				t[0].text = " " + t[0].text
			}
			begun = begun || len(t) > 0 && !t[0].hidden
		}
		return words(tokens)
	}, nil
}

// tidied are the replacements of cleanup in each token, in this order (tokenizers,
// decoders/wordpiece.rs).
var tidied = [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
	{" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"},
	{" 're", "'re"}}
