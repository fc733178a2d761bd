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
// A word outside the vocabulary is an error, unless the unknown token is asked for by readUnknown:
// a wrong residue or atom must not pass unseen.
type wordList struct {
	tokens  []string
	ids     map[string]int32
	special map[string]int32
	split   func(w *wordList, text string) ([]string, error)

	// unknownID is the unknown token, -1 for none. readsUnknown: it stands for what has no token.
	unknownID    int32
	readsUnknown bool
}

// smilesTokens is the published expression for tokens of SMILES (Schwaller et al. 2018, "Found in
// translation", section 2.2; rxnmapper has it as SMI_REGEX_PATTERN), with the bars and the ring
// numbers of three digits of later vocabularies (Schwaller et al. 2021, rxnfp).
var smilesTokens = regexp.MustCompile(`^(?:%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|` +
	`\||\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9])`)

// specialWords are texts of tokens with a meaning, besides those in angle brackets.
var specialWords = regexp.MustCompile(`^(\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)]|<.+>)$`)

// readLines adds the tokens, one a line. It reports whether all but the special ones are letters,
// and whether they are tokens of SMILES.
func (w *wordList) readLines(data string) (letters, smiles bool, err error) {
	letters = true
	smiles = true
	for line := range strings.Lines(data) {
		text := strings.TrimRight(line, "\r\n")
		id := int32(len(w.tokens))
		if text == "" {
			return false, false, fmt.Errorf("line %d is empty, want one token on each line", id+1)
		}
		if first, ok := w.ids[text]; ok {
			return false, false, fmt.Errorf("line %d is %.40q, as line %d is already", id+1, text,
				first+1)
		}
		if len(w.tokens) == MaxItems {
			return false, false, fmt.Errorf("more than %d lines", MaxItems)
		}
		w.tokens = append(w.tokens, text)
		w.ids[text] = id
		if specialWords.MatchString(text) {
			w.special[text] = id
			continue
		}
		letters = letters && utf8.RuneCountInString(text) == 1
		smiles = smiles && smilesTokens.FindString(text) == text
	}
	return letters, smiles, nil
}

// parseVocabTxt reads a vocab.txt. config is tokenizer_config.json; without a class in it, the
// class is that which has the vocabulary's texts of special tokens.
func parseVocabTxt(data []byte, class string, config object, files fs.FS) (*vocabulary, string,
	error) {
	if err := jsonline.CheckUTF8(data); err != nil {
		return nil, "", err
	}
	w := &wordList{ids: map[string]int32{}, special: map[string]int32{}, unknownID: -1}
	letters, smiles, err := w.readLines(string(data))
	if err != nil {
		return nil, "", err
	}
	if len(w.tokens) == len(w.special) {
		return nil, "", errors.New("there are no tokens besides special ones")
	}

	// The classes spell their special tokens in different ways. The first that fits becomes the
	// class, unless a class is given that has such spellings itself.
	for _, name := range []string{"RobertaTokenizer", "EsmTokenizer", "BertTokenizer"} {
		if _, ok := w.ids[classRoles[name]["cls_token"]]; ok && classRoles[class] == nil {
			class = name
		}
	}
	list, err := w.addedTokens(class, config, files)
	if err != nil {
		return nil, "", err
	}
	roles, err := readRoles(files, config, class)
	if err != nil {
		return nil, "", err
	}
	if id, ok := w.ids[roles["unk_token"]]; ok {
		w.unknownID = id
	}
	switch {
	case letters:
		w.split = (*wordList).splitLetters
	case smiles:
		w.split = (*wordList).splitSMILES
	default:
		v, err := w.buildWordPiece(list, config)
		return v, class, err
	}
	v := &vocabulary{model: w, decode: fuseTokens}
	var added []addedToken
	for _, a := range list {
		id, ok := w.ids[a.Content]
		if !ok {
			return nil, "", fmt.Errorf("added token %.40q is missing, want all tokens in vocab.txt where "+
				"they are residues or SMILES", a.Content)
		}
		added = append(added, addedToken{text: a.Content, id: id, special: a.Special})
	}
	v.setTokens(w.tokens, added)
	return v, class, v.setAdded(added)
}

// addedTokens returns the added tokens that other files name, and those whose texts are special.
func (w *wordList) addedTokens(class string, config object, files fs.FS) ([]addedEntry, error) {
	roles, err := readRoles(files, config, class)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]int64, len(w.ids))
	for text, id := range w.ids {
		ids[text] = int64(id)
	}
	list, err := configAddedTokens(config, roles, ids, files)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, a := range list {
		seen[a.Content] = true
	}
	for _, text := range w.tokens {
		if _, ok := w.special[text]; ok && !seen[text] {
			id := ids[text]
			list = append(list, addedEntry{ID: &id, Content: text, Special: true})
		}
	}
	return list, nil
}

// splitLetters divides text into characters. Where the unknown token is read, other characters stay
// together up to the next letter or white space, as EsmTokenizer has them.
func (w *wordList) splitLetters(text string) ([]string, error) {
	var out []string
	other := 0 // where the characters without a token begin
	for i, r := range text {
		_, known := w.ids[string(r)]
		if w.readsUnknown {
			if known {
				out = append(out, strings.Fields(text[other:i])...)
				out = append(out, string(r))
				other = i + utf8.RuneLen(r)
			}
			continue
		}
		if !known {
			return nil, fmt.Errorf("character %d is %q, want one of %s",
				utf8.RuneCountInString(text[:i])+1, r, w.letters())
		}
		out = append(out, string(r))
	}
	if w.readsUnknown {
		out = append(out, strings.Fields(text[other:])...)
	}
	return out, nil
}

// buildWordPiece returns the tokenizer of WordPiece with this vocabulary, as BertTokenizer makes
// it.
func (w *wordList) buildWordPiece(list []addedEntry, config object) (*vocabulary, error) {
	file := object{
		"normalizer": mustMarshal(map[string]any{
			"type":                 "BertNormalizer",
			"lowercase":            true,
			"strip_accents":        nil,
			"handle_chinese_chars": true,
			"clean_text":           true,
		}),
		"pre_tokenizer": mustMarshal(map[string]any{"type": "BertPreTokenizer"}),
		"decoder": mustMarshal(map[string]any{
			"type":    "WordPiece",
			"prefix":  "##",
			"cleanup": true,
		}),
		"model": mustMarshal(map[string]any{
			"type":                      "WordPiece",
			"unk_token":                 "[UNK]",
			"continuing_subword_prefix": "##",
			"max_input_chars_per_word":  maxWord,
			"vocab":                     w.ids,
		}),
	}
	file["added_tokens"] = mustMarshal(list)
	if err := applyBertConfig(file, config); err != nil {
		return nil, err
	}
	return buildVocabulary(file)
}

// letters returns the letters of a vocabulary in one word.
func (w *wordList) letters() string {
	letters := slices.Sorted(maps.Keys(w.ids))
	letters = slices.DeleteFunc(letters, func(s string) bool {
		_, ok := w.special[s]
		return ok
	})
	return strings.Join(letters, "")
}

// splitSMILES divides text into atoms, bonds, brackets and ring numbers.
func (w *wordList) splitSMILES(text string) ([]string, error) {
	var out []string
	end := 0 // of the last token
	lastBracket := strings.LastIndexByte(text, ']')
	for end < len(text) {
		if text[end] == '[' && end > lastBracket {
			break // else the expression would look for its end in the rest of the text, each time
		}
		place := smilesTokens.FindStringIndex(text[end:])
		if place == nil || place[0] > 0 {
			break
		}
		out = append(out, text[end:end+place[1]])
		end += place[1]
	}
	if end < len(text) {
		return nil, fmt.Errorf("%.20q after %d characters is not SMILES", text[end:], end)
	}
	return out, nil
}

// appendIDs adds the ids of a word's parts, residues or symbols.
func (w *wordList) appendIDs(ids []int32, word string, _ *scratch) ([]int32, error) {
	parts, err := w.split(w, word)
	for _, p := range parts {
		id, ok := w.ids[p]
		if !ok && w.readsUnknown {
			id = w.unknownID
			ok = true
		}
		if !ok {
			return ids, fmt.Errorf("%.40q is not in the vocabulary of %d tokens", p, len(w.tokens))
		}
		ids = append(ids, id)
	}
	return ids, err
}

// setVocabulary does nothing: the file was read line by line.
func (w *wordList) setVocabulary(object, map[string]int64, bool) error { return nil }

func (w *wordList) forbid(ids map[int32]bool) {
	maps.DeleteFunc(w.ids, func(_ string, id int32) bool { return ids[id] })
}

func (w *wordList) readUnknown() int32 {
	w.readsUnknown = w.unknownID >= 0
	return w.unknownID
}

// clone returns a model whose tokens can be forbidden without a change of w.
func (w *wordList) clone() subwordModel {
	out := *w
	out.ids = maps.Clone(w.ids)
	return &out
}
