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

// wordPieceModel divides words as WordPiece does: into the longest tokens from the start on, where
// all but the first begin with a prefix (Devlin et al. 2019). A word without such tokens is an
// error.
type wordPieceModel struct {
	ids           map[string]int32
	prefix        string
	maxCharacters int // characters of the longest word
	maxTokenBytes int // bytes of the longest token

	// unknownID is the file's unknown token, -1 for none. readsUnknown: it stands for words without
	// tokens.
	unknownText  string
	unknownID    int32
	readsUnknown bool
}

// divideWord returns the tokens of one word, nil if a part has none.
func (w *wordPieceModel) divideWord(word string) (pieces []string) {
	if utf8.RuneCountInString(word) > w.maxCharacters {
		return nil
	}
	prefix := ""
	for word != "" {
		end := min(len(word), w.maxTokenBytes)
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
		word = word[end:]
		prefix = w.prefix
	}
	return pieces
}

// appendIDs adds the ids of a word, all of which is unknown if a piece of it has no token.
func (w *wordPieceModel) appendIDs(ids []int32, word string, _ *scratch) ([]int32, error) {
	pieces := w.divideWord(word)
	if pieces == nil && w.readsUnknown {
		return append(ids, w.unknownID), nil
	}
	if pieces == nil {
		return ids, fmt.Errorf("word %.40q is not in the vocabulary", word)
	}
	for _, p := range pieces {
		ids = append(ids, w.ids[p])
	}
	return ids, nil
}

// readWordPiece reads the settings of a WordPiece model.
func readWordPiece(model object) (*wordPieceModel, error) {
	w := &wordPieceModel{prefix: "##", maxCharacters: maxWord, unknownText: "[UNK]", unknownID: -1}
	if err := model.readFields(map[string]any{
		"unk_token":                 &w.unknownText,
		"continuing_subword_prefix": &w.prefix,
		"max_input_chars_per_word":  &w.maxCharacters,
	},
		"vocab"); err != nil {
		return nil, err
	}
	if w.maxCharacters < 1 || w.maxCharacters > 1<<20 {
		return nil, fmt.Errorf("max_input_chars_per_word: %d, want 1 to %d", w.maxCharacters, 1<<20)
	}
	return w, nil
}

// setVocabulary keeps the ids of tokens.
func (w *wordPieceModel) setVocabulary(_ object, vocab map[string]int64, bytes bool) error {
	if bytes {
		return fmt.Errorf("pre_tokenizer.type is \"ByteLevel\" with a WordPiece model, want another")
	}
	w.ids = make(map[string]int32, len(vocab))
	for text, id := range vocab {
		w.ids[text] = int32(id)
		w.maxTokenBytes = max(w.maxTokenBytes, len(text))
	}
	if id, ok := w.ids[w.unknownText]; ok {
		w.unknownID = id
	}
	if w.maxCharacters > maxWord && w.maxTokenBytes > longToken {
		return fmt.Errorf("max_input_chars_per_word: %d with a token of %d bytes, want at most %d "+
			"with it", w.maxCharacters, w.maxTokenBytes, maxWord)
	}
	return nil
}

func (w *wordPieceModel) forbid(ids map[int32]bool) {
	maps.DeleteFunc(w.ids, func(_ string, id int32) bool { return ids[id] })
}

func (w *wordPieceModel) readUnknown() int32 {
	w.readsUnknown = w.unknownID >= 0
	return w.unknownID
}

// clone returns a model whose tokens can be forbidden without a change of w.
func (w *wordPieceModel) clone() subwordModel {
	out := *w
	out.ids = maps.Clone(w.ids)
	return &out
}

// readWordPieceDecoder reads a decoder that puts a space before each token but the first that is
// shown, unless it begins with the prefix. With cleanup it takes away spaces before marks and
// English endings.
func readWordPieceDecoder(s object) (decoder, error) {
	prefix := "##"
	cleanup := true
	if err := s.readFields(map[string]any{"prefix": &prefix, "cleanup": &cleanup}); err != nil {
		return nil, err
	}
	words := eachToken(func(first bool, text string) string {
		if !first {
			continued, isContinued := strings.CutPrefix(text, prefix)
			if isContinued {
				text = continued
			} else {
				text = " " + text
			}
		}
		if cleanup {
			for _, r := range cleanups {
				text = strings.ReplaceAll(text, r[0], r[1])
			}
		}
		return text
	})
	return func(tokens []decoderToken) []decoderToken {
		follows := false // a token that is shown
		for _, t := range tokens {
			if follows && len(t) > 0 && t[0].fixed && !t[0].hidden {
				t[0].text = " " + t[0].text
			}
			follows = follows || len(t) > 0 && !t[0].hidden
		}
		return words(tokens)
	}, nil
}

// cleanups are the replacements of cleanup in each token, in this order (tokenizers,
// decoders/wordpiece.rs).
var cleanups = [][2]string{
	{" .", "."},
	{" ?", "?"},
	{" !", "!"},
	{" ,", ","},
	{" ' ", "'"},
	{" n't", "n't"},
	{" 'm", "'m"},
	{" do not", " don't"},
	{" 's", "'s"},
	{" 've", "'ve"},
	{" 're", "'re"},
}
