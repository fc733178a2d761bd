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

// wordList divides text into the tokens of a vocab.txt: one token a line, whose number is its id.
// Its tokens show how text is cut:
//
//   - single characters: letters of residues, as in ESM-2's and other models of proteins;
//   - atoms, bonds and brackets of SMILES: reactions and molecules, cut by smilesTokens.
//
// Any other vocab.txt is one of WordPiece (Devlin et al. 2019), which becomes a vocabulary.
//
// What is not in the vocabulary is an error, never the unknown token.
type wordList struct {
	tokens  []string
	ids     map[string]int32
	special map[string]int32
	cut     func(text string) ([]string, error)
}

// smilesTokens is the published expression for tokens of SMILES (Schwaller et al. 2018, "Found in
// translation", section 2.2; rxnmapper has it as SMI_REGEX_PATTERN), with the bars and the ring
// numbers of three digits of later vocabularies (Schwaller et al. 2021, rxnfp).
var smilesTokens = regexp.MustCompile(`^(?:%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|` +
	`\||\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9])`)

// specialWords are spellings of tokens with a meaning, besides those in angle brackets.
var specialWords = regexp.MustCompile(`^(\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)]|<.+>)$`)

// read adds the tokens, one a line. It reports whether all but the special ones are letters, and
// whether they are tokens of SMILES.
func (w *wordList) read(data string) (letters, smiles bool, err error) {
	letters, smiles = true, true
	for line := range strings.Lines(data) {
		text := strings.TrimRight(line, "\r\n")
		id := int32(len(w.tokens))
		if text == "" {
			return false, false, fmt.Errorf("line %d is empty, want one token on each line", id+1)
		}
		if first, ok := w.ids[text]; ok {
			return false, false, fmt.Errorf("line %d is %.40q, as line %d is already", id+1, text, first+1)
		}
		if len(w.tokens) == MaxItems {
			return false, false, fmt.Errorf("there are more than %d lines, want at most that", MaxItems)
		}
		w.tokens, w.ids[text] = append(w.tokens, text), id
		if specialWords.MatchString(text) {
			w.special[text] = id
			continue
		}
		letters = letters && utf8.RuneCountInString(text) == 1
		smiles = smiles && smilesTokens.FindString(text) == text
	}
	return letters, smiles, nil
}

// parseWords reads a vocab.txt. config is tokenizer_config.json; without a class in it, the class
// is that which has the vocabulary's spellings of special tokens.
func parseWords(data []byte, class string, config object, files fs.FS) (*vocabulary, string,
	error) {
	if err := jsonline.CheckUTF8(data); err != nil {
		return nil, "", err
	}
	w := &wordList{ids: map[string]int32{}, special: map[string]int32{}}
	letters, smiles, err := w.read(string(data))
	if err != nil {
		return nil, "", err
	}
	if len(w.tokens) == len(w.special) {
		return nil, "", errors.New("there are no tokens besides special ones")
	}
	for _, name := range []string{"RobertaTokenizer", "EsmTokenizer", "BertTokenizer"} {
		if _, ok := w.ids[classRoles[name]["cls_token"]]; ok && classRoles[class] == nil {
			class = name
		}
	}
	list, err := w.added(class, config, files)
	if err != nil {
		return nil, "", err
	}
	switch {
	case letters:
		w.cut = w.letters
	case smiles:
		w.cut = cutSMILES
	default:
		v, err := w.wordPieces(list, config)
		return v, class, err
	}
	v := &vocabulary{model: w, decode: decodeFused}
	var extra []added
	for _, a := range list {
		id, ok := w.ids[a.Content]
		if !ok {
			return nil, "", fmt.Errorf("added token %.40q is missing, want all tokens in vocab.txt where "+
				"they are residues or SMILES", a.Content)
		}
		extra = append(extra, added{text: a.Content, id: id, special: a.Special})
	}
	v.setTokens(w.tokens, extra)
	return v, class, v.setAdded(extra)
}

// added returns the added tokens that other files name, and those with special spellings.
func (w *wordList) added(class string, config object, files fs.FS) ([]addedToken, error) {
	roles, err := readRoles(files, config, class)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]int64, len(w.ids))
	for text, id := range w.ids {
		ids[text] = int64(id)
	}
	list, err := olderAdded(config, roles, ids, files)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, a := range list {
		known[a.Content] = true
	}
	for _, text := range w.tokens {
		if _, ok := w.special[text]; ok && !known[text] {
			id := ids[text]
			list = append(list, addedToken{ID: &id, Content: text, Special: true})
		}
	}
	return list, nil
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

// wordPieces returns the tokenizer of WordPiece with this vocabulary, as BertTokenizer makes it.
func (w *wordList) wordPieces(list []addedToken, config object) (*vocabulary, error) {
	file := object{
		"normalizer": encode(map[string]any{"type": "BertNormalizer", "lowercase": true,
			"strip_accents": nil, "handle_chinese_chars": true, "clean_text": true}),
		"pre_tokenizer": encode(map[string]any{"type": "BertPreTokenizer"}),
		"decoder":       encode(map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true}),
		"model": encode(map[string]any{"type": "WordPiece", "unk_token": "[UNK]",
			"continuing_subword_prefix": "##", "max_input_chars_per_word": maxWord, "vocab": w.ids}),
	}
	file["added_tokens"] = encode(list)
	if err := setBERT(file, config); err != nil {
		return nil, err
	}
	return build(file)
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
	end, closed := 0, strings.LastIndexByte(text, ']')
	for end < len(text) && (text[end] != '[' || end < closed) { // else it looks for an end in vain
		at := smilesTokens.FindStringIndex(text[end:])
		if at == nil || at[0] > 0 {
			break
		}
		out, end = append(out, text[end:end+at[1]]), end+at[1]
	}
	if end < len(text) {
		return nil, fmt.Errorf("%.20q after %d characters is not SMILES", text[end:], end)
	}
	return out, nil
}

func (w *wordList) append(ids []int32, word string, _ *scratch) ([]int32, error) {
	parts, err := w.cut(word)
	for _, p := range parts {
		id, ok := w.ids[p]
		if !ok {
			return ids, fmt.Errorf("%.40q is not in the vocabulary of %d tokens", p, len(w.tokens))
		}
		ids = append(ids, id)
	}
	return ids, err
}

func (w *wordList) learn(object, map[string]int64, bool) error { return nil } // read line by line

func (w *wordList) bar(ids map[int32]bool) {
	maps.DeleteFunc(w.ids, func(_ string, id int32) bool { return ids[id] })
}

func (w *wordList) clone() subwords {
	out := *w
	out.ids = maps.Clone(w.ids)
	return &out
}
