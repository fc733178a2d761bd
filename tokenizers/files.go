package tokenizers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/jsonline"
	"unmask/internal/sniff"
)

// Files are the names that [ParseFS] reads: tokenizer.json or, without it, vocab.txt or vocab.json
// with merges.txt and added_tokens.json; and the files that say more of any of them.
var Files = []string{"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json",
	"added_tokens.json", "vocab.txt", "special_tokens_map.json"}

// ParseFS reads the tokenizer in a model's folder and returns the name of its file: tokenizer.json
// or, without it, vocab.txt of an encoder or vocab.json of Dream and other models with older files
// only. EsmTokenizer reads vocab.txt always. The error is fs.ErrNotExist if none exists.
func ParseFS(files fs.FS) (Tokenizer, string, error) { return ParseClass(files, "") }

// ParseClass is ParseFS with a default for the tokenizer's class, which counts if
// tokenizer_config.json names none. transformers' AutoTokenizer has such a default for each
// model_type. An error names the file; where none is there it wraps fs.ErrNotExist.
func ParseClass(files fs.FS, class string) (Tokenizer, string, error) {
	config, err := ReadConfig(files, "tokenizer_config.json")
	if err != nil {
		return nil, "", err
	}
	class = cmp.Or(object(config).tokenizerClass(), class)
	names := []string{"tokenizer.json", "vocab.txt", "vocab.json"}
	if class == "EsmTokenizer" {
		names = names[1:]
	}
	for _, name := range names {
		data, err := readLimited(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var v *vocabulary
		if err == nil {
			v, class, err = parseNamedFile(name, data, class, config, files)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		roles, err := readRoles(files, config, class)
		if err == nil {
			err = v.setRoles(roles)
		}
		// The class says what is around a text where no file does.
		fileIsSilent := len(v.facts.before)+len(v.facts.after) == 0
		classHasSome := classRoles[class]["cls_token"] != ""
		if err == nil && (name != "tokenizer.json" || fileIsSilent && classHasSome) {
			err = v.setSurrounding(class, config)
		}
		if err != nil {
			return nil, "", err
		}
		return v, name, nil
	}
	return nil, "", fmt.Errorf("%s: %w", strings.Join(names, ", "), fs.ErrNotExist)
}

// parseNamedFile reads the tokenizer in one of [Files] and returns its class too.
func parseNamedFile(name string, data []byte, class string, config object, files fs.FS) (
	v *vocabulary, _ string, err error) {
	switch name {
	case "tokenizer.json":
		v, err = parseTokenizerJSON(data, config)
	case "vocab.txt":
		v, class, err = parseVocabTxt(data, class, config, files)
	default:
		class = cmp.Or(class, "GPT2Tokenizer")
		v, err = parseVocabJSON(data, class, config, files)
	}
	return v, class, err
}

// readLimited reads a file of at most MaxFile bytes.
func readLimited(files fs.FS, name string) ([]byte, error) { return ReadFile(files, name, MaxFile) }

// ReadFile reads a file of at most limit bytes. A file that only names the real one, as of Git LFS,
// is an error.
func ReadFile(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("is over %d bytes", limit)
	}
	if err == nil {
		err = sniff.CheckPlaceholder(data)
	}
	return data, err
}

// parseVocabJSON reads vocab.json, merges.txt and tokenizer_config.json like those of Hugging
// Face's classes that split words by Qwen's or by GPT-2's pattern.
func parseVocabJSON(vocab []byte, class string, config object, files fs.FS) (*vocabulary, error) {
	if err := checkJSON(vocab); err != nil {
		return nil, err
	}
	merges, err := readMergesFile(files)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no merges.txt beside it")
	}
	if err != nil {
		return nil, fmt.Errorf("merges.txt: %w", err)
	}
	roles, err := readRoles(files, config, class)
	if err != nil {
		return nil, err
	}
	var ids map[string]int64
	if err := json.Unmarshal(vocab, &ids); err != nil {
		return nil, describeError("file", err)
	}
	list, err := configAddedTokens(config, roles, ids, files)
	if err != nil {
		return nil, err
	}
	file, err := classStages(class, config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	file["added_tokens"] = mustMarshal(list)
	model := map[string]any{"type": "BPE", "vocab": json.RawMessage(vocab), "merges": merges}
	if class == "CLIPTokenizer" {
		model["end_of_word_suffix"] = "</w>"
	}
	file["model"] = mustMarshal(model)
	return buildVocabulary(file)
}

// ReadConfig reads a file of JSON, an empty object if there is none.
func ReadConfig(files fs.FS, name string) (map[string]json.RawMessage, error) {
	data, err := readLimited(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, nil
	}
	var o object
	if err == nil {
		o, err = readObject(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

// mustMarshal returns v as JSON; v holds only values that JSON can represent.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("tokenizers: " + err.Error())
	}
	return data
}

// readMergesFile reads one merge per line, after an optional first line #version.
func readMergesFile(files fs.FS) ([][]string, error) {
	data, err := readLimited(files, "merges.txt")
	if err != nil {
		return nil, err
	}
	if err := jsonline.CheckUTF8(data); err != nil {
		return nil, err
	}
	merges := [][]string{} // none: tokens are single letters
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		parts := strings.Fields(line)
		if len(parts) == 0 || number == 1 && strings.HasPrefix(line, "#version") {
			continue
		}
		if len(parts) != 2 {
			return nil, fmt.Errorf("line %d is %.40q, want two tokens", number, line)
		}
		if len(merges) == MaxItems {
			return nil, fmt.Errorf("line %d: more than %d merges", number, MaxItems)
		}
		merges = append(merges, parts)
	}
	return merges, nil
}

// classStages returns the stages around the model for the class in tokenizer_config.json.
func classStages(class string, config object) (object, error) {
	addPrefixSpace := false
	if err := config.get("add_prefix_space", &addPrefixSpace); err != nil {
		return nil, err
	}
	byteLevel := func(useRegex bool) map[string]any {
		return map[string]any{
			"type":             "ByteLevel",
			"add_prefix_space": addPrefixSpace,
			"trim_offsets":     false,
			"use_regex":        useRegex,
		}
	}
	split := func(pattern, behavior string, invert bool) map[string]any {
		return map[string]any{
			"type":     "Split",
			"pattern":  map[string]any{"Regex": pattern},
			"behavior": behavior,
			"invert":   invert,
		}
	}
	sequence := func(field string, stages ...any) json.RawMessage {
		return mustMarshal(map[string]any{"type": "Sequence", field: stages})
	}
	nfc := map[string]any{"type": "NFC"}
	lowercase := map[string]any{"type": "Lowercase"}

	file := object{"decoder": mustMarshal(byteLevel(true))}
	switch class {
	case "GPT2Tokenizer", "RobertaTokenizer":
		file["pre_tokenizer"] = mustMarshal(byteLevel(true))
	case "Qwen2Tokenizer", "DreamTokenizer":
		file["normalizer"] = mustMarshal(nfc)
		file["pre_tokenizer"] = sequence("pretokenizers",
			split(qwenPattern, "Isolated", false), byteLevel(false))
	case "CLIPTokenizer":
		file["normalizer"] = sequence("normalizers", nfc, lowercase)
		file["pre_tokenizer"] = sequence("pretokenizers",
			split(clipPattern, "Removed", true), byteLevel(false))
	default:
		return nil, fmt.Errorf("tokenizer_class is %.60q, want CLIPTokenizer, GPT2Tokenizer, "+
			"Qwen2Tokenizer or DreamTokenizer where there is no tokenizer.json", class)
	}
	return file, nil
}

// qwenPattern is that of Qwen 2 (transformers, tokenization_qwen2.py, PRETOKENIZE_REGEX).
const qwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` +
	`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// specialTexts returns the texts of special tokens, by their roles and as additional ones.
func specialTexts(config object, roles map[string]string) (map[string]bool, error) {
	special := map[string]bool{}
	for _, text := range roles {
		special[text] = true
	}
	var listed []json.RawMessage
	if err := config.get("additional_special_tokens", &listed); err != nil {
		return nil, err
	}
	for _, raw := range listed {
		text, err := readTokenText("additional_special_tokens", raw)
		if err != nil {
			return nil, err
		}
		special[text] = true
	}
	return special, nil
}

// configAddedTokens returns the added tokens of tokenizer_config.json (added_tokens_decoder, by id)
// or, if it has none, of added_tokens.json (ids by text), and the tokens of the vocabulary with a
// role or called special. Transformers ignores added_tokens.json where there is an
// added_tokens_decoder: the two of SDAR give one id to two texts.
func configAddedTokens(config object, roles map[string]string, ids map[string]int64, files fs.FS) (
	[]addedEntry, error) {
	var byID map[string]addedEntry
	if err := config.get("added_tokens_decoder", &byID); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	special, err := specialTexts(config, roles)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	var list []addedEntry
	known := map[string]bool{}
	for key, a := range byID {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: id is %.40q, "+
				"want a number", key)
		}
		a.ID = &id
		a.Special = a.Special || special[a.Content]
		list = append(list, a)
		known[a.Content] = true
	}
	others, err := ReadConfig(files, "added_tokens.json")
	if err != nil {
		return nil, err
	}
	addUnlessKnown := func(text string, id int64) {
		if !known[text] {
			list = append(list, addedEntry{ID: &id, Content: text, Special: special[text]})
			known[text] = true
		}
	}
	for text := range others {
		id := int64(-1)
		if err := object(others).get(text, &id); err != nil {
			return nil, fmt.Errorf("added_tokens.json: %w", err)
		}
		if len(byID) == 0 {
			addUnlessKnown(text, id)
		}
	}
	for text := range special {
		if id, ok := ids[text]; ok {
			addUnlessKnown(text, id)
		}
	}
	slices.SortFunc(list, func(a, b addedEntry) int {
		return cmp.Or(cmp.Compare(*a.ID, *b.ID), strings.Compare(a.Content, b.Content))
	})
	return list, nil
}
