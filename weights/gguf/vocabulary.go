package gguf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"unmask/internal/atomicfile"
)

const maxTokenizer = 256 << 20 // largest tokenizer.json in bytes

// tokenizerFile is the part of a tokenizer.json that GGUF files have too.
type tokenizerFile struct {
	Model struct {
		Type   string
		Vocab  map[string]int
		Merges []json.RawMessage // a text of two tokens, or a list of them
	}
	Pre struct {
		Parts []struct{ Pattern struct{ Regex string } } `json:"pretokenizers"`
	} `json:"pre_tokenizer"`
	Added []struct {
		ID      int
		Content string
		Special bool
	} `json:"added_tokens"`
}

// vocabulary returns the keys of the tokenizer.json in a folder, none if there is none.
func vocabulary(dir string) ([]Key, error) {
	file, err := readTokenizer(filepath.Join(dir, "tokenizer.json"))
	if file == nil || err != nil {
		return nil, err
	}
	tokens, kinds, err := file.tokens()
	if err != nil {
		return nil, err
	}
	merges, err := file.merges()
	if err != nil {
		return nil, err
	}
	pre, err := file.pre()
	if err != nil {
		return nil, err
	}
	keys := []Key{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}, {tokensKey, tokens},
		{"tokenizer.ggml.token_type", kinds}, {"tokenizer.ggml.merges", merges}}
	template, err := chatTemplate(dir)
	if template != "" {
		keys = append(keys, Key{"tokenizer.chat_template", template})
	}
	return keys, err
}

// readTokenizer reads a tokenizer.json; without the file it returns nil.
func readTokenizer(name string) (*tokenizerFile, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxTokenizer {
		err = fmt.Errorf("tokenizer.json has %d bytes, want %d at most", info.Size(), maxTokenizer)
	}
	if err != nil {
		return nil, err
	}
	data, err := atomicfile.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file := new(tokenizerFile)
	if err := json.Unmarshal(data, file); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if file.Model.Type != "BPE" {
		return nil, fmt.Errorf("tokenizer.json: model.type is %.40q, want BPE", file.Model.Type)
	}
	return file, nil
}

// pre returns llama.cpp's name of the pattern that splits text into words.
func (f *tokenizerFile) pre() (string, error) {
	found := ""
	for _, part := range f.Pre.Parts {
		found = cmp.Or(found, part.Pattern.Regex)
	}
	for _, name := range []string{"bailingmoe", "qwen2", "tekken"} {
		if patterns[name] == found {
			return name, nil
		}
	}
	return "", fmt.Errorf("tokenizer.json: the pattern of words is %.40q, want that of LLaDA, Qwen2 or "+
		"Tekken", found)
}

// tokens returns the spelling and the kind of each id; ids without a token are padding.
func (f *tokenizerFile) tokens() (tokens []string, kinds []int32, err error) {
	count, most := 0, len(f.Model.Vocab)+len(f.Added)
	for text, id := range f.Model.Vocab {
		if id < 0 || id >= most {
			return nil, nil, fmt.Errorf("tokenizer.json: token %.40q is %d, want 0 to %d", text, id, most-1)
		}
		count = max(count, id+1)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID >= most {
			return nil, nil, fmt.Errorf("tokenizer.json: added token %.40q is %d, want 0 to %d", a.Content,
				a.ID, most-1)
		}
		count = max(count, a.ID+1)
	}
	tokens, kinds = make([]string, count), make([]int32, count)
	for i := range tokens {
		tokens[i], kinds[i] = fmt.Sprintf("[PAD%d]", i), unusedToken
	}
	for text, id := range f.Model.Vocab {
		tokens[id], kinds[id] = text, normalToken
	}
	for _, a := range f.Added {
		tokens[a.ID], kinds[a.ID] = a.Content, userToken
		if a.Special {
			kinds[a.ID] = controlToken
		}
	}
	return tokens, kinds, nil
}

// merges returns the merges, each as its two tokens with a space between.
func (f *tokenizerFile) merges() ([]string, error) {
	merges := make([]string, len(f.Model.Merges))
	for i, raw := range f.Model.Merges {
		var pair [2]string
		if json.Unmarshal(raw, &pair) == nil {
			merges[i] = pair[0] + " " + pair[1]
		} else if err := json.Unmarshal(raw, &merges[i]); err != nil {
			return nil, fmt.Errorf("tokenizer.json: merge %d is %.40s, want two tokens", i, raw)
		}
	}
	return merges, nil
}

// chatTemplate reads the template of chat_template.jinja or, as older versions of transformers have
// it, of tokenizer_config.json; "" if there is none.
func chatTemplate(dir string) (string, error) {
	data, err := atomicfile.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if !errors.Is(err, fs.ErrNotExist) {
		return string(data), err
	}
	data, err = atomicfile.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	var text string
	var several []struct{ Name, Template string }
	if err == nil && len(config.Template) > 0 && json.Unmarshal(config.Template, &several) != nil {
		err = json.Unmarshal(config.Template, &text)
	}
	if err != nil {
		return "", fmt.Errorf("tokenizer_config.json: %w", err)
	}
	for _, one := range several {
		if one.Name == "default" {
			text = one.Template
		}
	}
	return text, nil
}
