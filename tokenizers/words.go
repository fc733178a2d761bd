package tokenizers

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/internal/jsonline"
)

// wordList is the Tokenizer of a vocab.txt: one token a line, whose number is its id. Its tokens
// show how text is cut:
//
//   - single characters: letters of residues, as in ESM-2's and other models of proteins;
//   - atoms, bonds and brackets of SMILES: reactions and molecules, cut by smilesTokens;
//   - anything else: WordPiece (Devlin et al. 2019), see wordpiece.go.
//
// What is not in the vocabulary is an error, never the unknown token.
type wordList struct {
	tokens   []string
	ids      map[string]int32
	special  map[string]int32
	find     *finder // of special tokens
	cut      func(text string) ([]string, error)
	separate bool // words have spaces between them, as in WordPiece
}

// smilesTokens is the published expression for tokens of SMILES (Schwaller et al. 2018, "Found in
// translation", section 2.2; rxnmapper has it as SMI_REGEX_PATTERN).
var smilesTokens = regexp.MustCompile(`\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|` +
	`\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]`)

// specialWords are spellings of tokens with a meaning, besides those in angle brackets.
var specialWords = regexp.MustCompile(`^(\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)]|<.+>)$`)

// parseWords reads a vocab.txt. config is tokenizer_config.json.
func parseWords(data []byte, config object) (*wordList, error) {
	if err := jsonline.CheckUTF8(data); err != nil {
		return nil, err
	}
	w := &wordList{ids: map[string]int32{}, special: map[string]int32{}}
	var marks []added
	letters, smiles, capitals := true, true, false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimRight(line, "\r\n")
		id := int32(len(w.tokens))
		if text == "" {
			return nil, fmt.Errorf("line %d is empty, want one token on each line", id+1)
		}
		if first, ok := w.ids[text]; ok {
			return nil, fmt.Errorf("line %d is %.40q, as line %d is already", id+1, text, first+1)
		}
		if len(w.tokens) == MaxItems {
			return nil, fmt.Errorf("there are more than %d lines", MaxItems)
		}
		w.tokens, w.ids[text] = append(w.tokens, text), id
		if specialWords.MatchString(text) {
			w.special[text] = id
			marks = append(marks, added{text: text, id: id, special: true})
			continue
		}
		letters = letters && utf8.RuneCountInString(text) == 1
		smiles = smiles && smilesTokens.FindString(text) == text
		capitals = capitals || strings.ToLower(text) != text
	}
	if len(w.tokens) == len(w.special) {
		return nil, errors.New("there are no tokens besides special ones")
	}
	w.find = newFinder(marks, func(a added) string { return a.text })
	switch {
	case letters:
		w.cut = w.letters
	case smiles:
		w.cut = cutSMILES
	default:
		w.separate = true
		lower := !capitals
		if err := config.get("do_lower_case", &lower); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
		w.cut = w.wordPieces(lower)
	}
	return w, nil
}

// parseWordsFS reads vocab.txt; the error is fs.ErrNotExist if there is none.
func parseWordsFS(files fs.FS) (*wordList, error) {
	data, err := readFile(files, "vocab.txt")
	if err != nil {
		return nil, fmt.Errorf("vocab.txt: %w", err)
	}
	config, err := optional(files, "tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	w, err := parseWords(data, config)
	if err != nil {
		return nil, fmt.Errorf("vocab.txt: %w", err)
	}
	return w, nil
}

// letters cuts text into characters.
func (w *wordList) letters(text string) ([]string, error) {
	var out []string
	for i, r := range text {
		if _, ok := w.ids[string(r)]; !ok {
			return nil, fmt.Errorf("character %d is %q, want one of %s",
				utf8.RuneCountInString(text[:i])+1, r, w.alphabet())
		}
		out = append(out, string(r))
	}
	return out, nil
}

// wordPieces returns the function that cuts text as BERT's tokenizer does. With lower, letters lose
// their case and accents first.
func (w *wordList) wordPieces(lower bool) func(text string) ([]string, error) {
	normalize := bertNormalizer(true, true, lower, lower)
	var words preTokenizer
	words.splitBERT()
	model := &wordPieces{w.ids, "##", maxWord}
	return func(text string) (out []string, err error) {
		err = words.words(piece{text: normalize(text)}, func(word piece) error {
			pieces := model.divide(word.text)
			if pieces == nil {
				return model.unknown(word.text)
			}
			out = append(out, pieces...)
			return nil
		})
		return out, err
	}
}

// alphabet returns the letters of a vocabulary in one word.
func (w *wordList) alphabet() string {
	letters := slices.Sorted(maps.Keys(w.ids))
	letters = slices.DeleteFunc(letters, func(s string) bool { _, ok := w.special[s]; return ok })
	return strings.Join(letters, "")
}

// cutSMILES cuts text into atoms, bonds, brackets and ring numbers.
func cutSMILES(text string) ([]string, error) {
	var out []string
	end := 0
	for _, at := range smilesTokens.FindAllStringIndex(text, -1) {
		if at[0] != end {
			break
		}
		out, end = append(out, text[at[0]:at[1]]), at[1]
	}
	if end < len(text) {
		return nil, fmt.Errorf("%.20q after %d characters is not SMILES", text[end:], end)
	}
	return out, nil
}

func (w *wordList) Encode(text string) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	parts, err := w.cut(text)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	ids := make([]int32, len(parts))
	for i, p := range parts {
		id, ok := w.ids[p]
		if !ok {
			return nil, fmt.Errorf("text: %.40q is not in the vocabulary of %d tokens", p, len(w.tokens))
		}
		ids[i] = id
	}
	return ids, nil
}

func (w *wordList) EncodeSpecial(text string) (ids []int32, err error) {
	err = w.find.cut(text, func(int, int) bool { return true }, func(start, end int) error {
		part, err := w.Encode(text[start:end])
		ids = append(ids, part...)
		return err
	}, func(id int32) { ids = append(ids, id) })
	return ids, err
}

func (w *wordList) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(w.tokens) {
		return "", false
	}
	text := w.tokens[id]
	if _, special := w.special[text]; special || !w.separate {
		return text, true
	}
	if rest, ok := strings.CutPrefix(text, "##"); ok {
		return rest, true
	}
	return " " + text, true
}

func (w *wordList) Special(spelling string) (int32, bool) {
	id, ok := w.special[spelling]
	return id, ok
}

func (w *wordList) Decode(ids []int32) string   { return strings.Join(w.Pieces(ids), "") }
func (w *wordList) Pieces(ids []int32) []string { return w.pieces(ids, nil) }
func (w *wordList) VocabSize() int              { return len(w.tokens) }

// pieces decodes ids; those in shown are replaced by its text. The first word has no space before
// it.
func (w *wordList) pieces(ids []int32, shown map[int32]string) []string {
	out := make([]string, len(ids))
	begun := false
	for i, id := range ids {
		text, ok := shown[id]
		if ok && text != "" && w.separate {
			text = " " + text
		} else if !ok {
			if text, ok = w.Token(id); !ok {
				text = replacement
			}
		}
		if w.separate && !begun {
			text = strings.TrimPrefix(text, " ")
		}
		begun = begun || text != ""
		out[i] = text
	}
	return out
}
