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
// with merges.txt and added_tokens.json; and what is said of any of them.
var Files = []string{"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json",
	"added_tokens.json", "vocab.txt", "special_tokens_map.json"}

// ParseFS reads the tokenizer in a model's folder and returns the name of its file: tokenizer.json
// or, without it, vocab.txt of an encoder or vocab.json of Dream and other models with older files
// only. EsmTokenizer reads vocab.txt always. The error is fs.ErrNotExist if none exists.
func ParseFS(files fs.FS) (Tokenizer, string, error) { return ParseClass(files, "") }

// ParseClass is ParseFS for a network whose tokenizer has this class where tokenizer_config.json
// names none, as AutoTokenizer has one for each model_type.
func ParseClass(files fs.FS, class string) (Tokenizer, string, error) {
	config, err := ReadConfig(files, "tokenizer_config.json")
	if err != nil {
		return nil, "", err
	}
	class = cmp.Or(object(config).class(), class)
	names := []string{"tokenizer.json", "vocab.txt", "vocab.json"}
	if class == "EsmTokenizer" {
		names = names[1:]
	}
	for _, name := range names {
		data, err := readFile(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var v *vocabulary
		if err == nil {
			v, class, err = parseNamed(name, data, class, config, files)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		roles, err := readRoles(files, config, class)
		if err == nil {
			err = v.setRoles(roles)
		}
		silent := len(v.about.before)+len(v.about.after) == 0
		if err == nil && (name != "tokenizer.json" || silent && classRoles[class]["cls_token"] != "") {
			err = v.setAround(class, config)
		}
		if err != nil {
			return nil, "", err
		}
		return v, name, nil
	}
	return nil, "", fmt.Errorf("%s: %w", strings.Join(names, ", "), fs.ErrNotExist)
}

// parseNamed reads the tokenizer in one of [Files] and returns its class too.
func parseNamed(name string, data []byte, class string, config object, files fs.FS) (v *vocabulary,
	_ string, err error) {
	switch name {
	case "tokenizer.json":
		v, err = parse(data, config)
	case "vocab.txt":
		v, class, err = parseWords(data, class, config, files)
	default:
		class = cmp.Or(class, "GPT2Tokenizer")
		v, err = parseOlder(data, class, config, files)
	}
	return v, class, err
}

func readFile(files fs.FS, name string) ([]byte, error) { return ReadFile(files, name, MaxFile) }

// ReadFile reads a file of at most `most` bytes.
func ReadFile(files fs.FS, name string, most int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("is over %d bytes", most)
	}
	return data, cmp.Or(err, sniff.CheckPlaceholder(data))
}

// parseOlder reads vocab.json, merges.txt and tokenizer_config.json like those of Hugging Face's
// classes that split words by Qwen's or by GPT-2's pattern.
func parseOlder(vocab []byte, class string, config object, files fs.FS) (*vocabulary, error) {
	if err := checkJSON(vocab); err != nil {
		return nil, err
	}
	merges, err := readMergesFile(files)
	if errors.Is(err, fs.ErrNotExist) { // a vocabulary needs merges
		return nil, errors.New("there is no merges.txt beside it")
	} else if err != nil {
		return nil, fmt.Errorf("merges.txt: %w", err)
	}
	roles, err := readRoles(files, config, class)
	if err != nil {
		return nil, err
	}
	var ids map[string]int64
	if err := json.Unmarshal(vocab, &ids); err != nil {
		return nil, describe("file", err)
	}
	list, err := olderAdded(config, roles, ids, files)
	if err != nil {
		return nil, err
	}
	file, err := olderStages(class, config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	file["added_tokens"] = encode(list)
	model := map[string]any{"type": "BPE", "vocab": json.RawMessage(vocab), "merges": merges}
	if class == "CLIPTokenizer" {
		model["end_of_word_suffix"] = "</w>"
	}
	file["model"] = encode(model)
	return build(file)
}

// ReadConfig reads a file of JSON, an empty object if there is none.
func ReadConfig(files fs.FS, name string) (map[string]json.RawMessage, error) {
	data, err := readFile(files, name)
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

// encode returns v as JSON; v holds only values that JSON can represent.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("tokenizers: " + err.Error())
	}
	return data
}

// readMergesFile reads one merge per line, after an optional first line #version.
func readMergesFile(files fs.FS) ([][]string, error) {
	data, err := readFile(files, "merges.txt")
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

// olderStages returns the stages around the model for the class in tokenizer_config.json.
func olderStages(class string, config object) (object, error) {
	prefix := false
	if err := config.get("add_prefix_space", &prefix); err != nil {
		return nil, err
	}
	level := func(regex bool) map[string]any {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": prefix,
			"trim_offsets": false, "use_regex": regex}
	}
	file := object{"decoder": encode(level(true))}
	switch class {
	case "GPT2Tokenizer", "RobertaTokenizer":
		file["pre_tokenizer"] = encode(level(true))
	case "Qwen2Tokenizer", "DreamTokenizer":
		file["normalizer"] = encode(map[string]any{"type": "NFC"})
		file["pre_tokenizer"] = encode(map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwenPattern},
				"behavior": "Isolated"},
			level(false),
		}})
	case "CLIPTokenizer":
		file["normalizer"] = encode(map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "NFC"}, map[string]any{"type": "Lowercase"}}})
		file["pre_tokenizer"] = encode(map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": clipPattern},
				"behavior": "Removed", "invert": true},
			level(false),
		}})
	default:
		return nil, fmt.Errorf("tokenizer_class is %.60q, want CLIPTokenizer, GPT2Tokenizer, "+
			"Qwen2Tokenizer or DreamTokenizer where there is no tokenizer.json", class)
	}
	return file, nil
}

const qwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` +
	`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// olderSpecial returns the texts of special tokens, by their roles and as additional ones.
func olderSpecial(config object, roles map[string]string) (map[string]bool, error) {
	special := map[string]bool{}
	for _, text := range roles {
		special[text] = true
	}
	var more []json.RawMessage
	if err := config.get("additional_special_tokens", &more); err != nil {
		return nil, err
	}
	for _, raw := range more {
		text, err := tokenText("additional_special_tokens", raw)
		if err != nil {
			return nil, err
		}
		special[text] = true
	}
	return special, nil
}

// olderAdded returns the added tokens of tokenizer_config.json (added_tokens_decoder, by id) or, if
// it has none, of added_tokens.json (ids by text), and the tokens of the vocabulary with a role or
// called special. Transformers ignores added_tokens.json where there is an
// added_tokens_decoder: the two of SDAR give one id to two texts.
func olderAdded(config object, roles map[string]string, ids map[string]int64, files fs.FS) (
	[]addedToken, error) {
	var byID map[string]addedToken
	if err := config.get("added_tokens_decoder", &byID); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	special, err := olderSpecial(config, roles)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	var list []addedToken
	known := map[string]bool{}
	for key, a := range byID {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: id is %.40q, "+
				"want a number", key)
		}
		a.ID, a.Special = &id, a.Special || special[a.Content]
		list = append(list, a)
		known[a.Content] = true
	}
	others, err := ReadConfig(files, "added_tokens.json")
	if err != nil {
		return nil, err
	}
	place := func(text string, id int64) {
		if !known[text] {
			list = append(list, addedToken{ID: &id, Content: text, Special: special[text]})
			known[text] = true
		}
	}
	for text := range others {
		id := int64(-1)
		if err := object(others).get(text, &id); err != nil {
			return nil, fmt.Errorf("added_tokens.json: %w", err)
		}
		if len(byID) == 0 {
			place(text, id)
		}
	}
	for text := range special {
		if id, ok := ids[text]; ok {
			place(text, id)
		}
	}
	slices.SortFunc(list, func(a, b addedToken) int {
		return cmp.Or(cmp.Compare(*a.ID, *b.ID), strings.Compare(a.Content, b.Content))
	})
	return list, nil
}
