package gguf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

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
	Post struct {
		Type   string
		Single []struct {
			SpecialToken *struct{ ID string }
		}
	} `json:"post_processor"`
}

// roles are the tokens that tokenizer_config.json names, by their names in a GGUF file.
var roles = map[string]string{"bos": "bos_token", "eos": "eos_token", "padding": "pad_token",
	"unknown": "unk_token", "mask": "mask_token"}

// vocabulary returns the keys of the tokenizer.json in a folder, none if there is none.
func vocabulary(dir string) ([]Key, error) {
	file, err := readTokenizer(filepath.Join(dir, "tokenizer.json"))
	if file == nil || err != nil {
		return nil, err
	}
	tokens, kinds, inTokens := file.tokens()
	merges, inMerges := file.merges()
	pre, inPre := file.pre()
	config, inConfig := tokenizerSettings(dir)
	if err := cmp.Or(inTokens, inMerges, inPre, inConfig); err != nil {
		return nil, err
	}
	keys := []Key{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}, {tokensKey, tokens},
		{"tokenizer.ggml.token_type", kinds}, {"tokenizer.ggml.merges", merges}}
	named := map[string]string{}
	for name, role := range roles {
		if named[name], err = tokenText(config[role]); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %s is %.40s, want a token", role, config[role])
		}
		if id := slices.Index(tokens, named[name]); named[name] != "" && id >= 0 {
			keys = append(keys, Key{"tokenizer.ggml." + name + "_token_id", uint32(id)})
		}
	}
	around, err := file.around(named["bos"], named["eos"])
	template, inTemplate := chatTemplate(dir, config)
	if template != "" {
		keys = append(keys, Key{"tokenizer.chat_template", template})
	}
	return append(keys, around...), cmp.Or(err, inTemplate)
}

// tokenText reads a token: a text, an object with its content, or null.
func tokenText(raw json.RawMessage) (text string, err error) {
	var token struct{ Content string }
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	err = json.Unmarshal(raw, &token)
	return token.Content, err
}

// around returns the keys of what the post_processor puts around a text: the first or the last
// token, which is all that a GGUF file can say.
func (f *tokenizerFile) around(bos, eos string) (keys []Key, err error) {
	put := []string{"$"} // stands for the text
	if f.Post.Type == "TemplateProcessing" {
		put = nil
		for _, part := range f.Post.Single {
			if part.SpecialToken == nil {
				put = append(put, "$")
			} else {
				put = append(put, part.SpecialToken.ID)
			}
		}
	}
	first, last := len(put) > 1 && put[0] == bos, len(put) > 1 && put[len(put)-1] == eos
	want := []string{"$"}
	if first {
		want = append([]string{bos}, want...)
	}
	if last {
		want = append(want, eos)
	}
	if kind := f.Post.Type; !slices.Equal(put, want) ||
		kind != "" && kind != "ByteLevel" && kind != "TemplateProcessing" {
		return nil, fmt.Errorf("tokenizer.json: post_processor of type %.40q puts %.60q around a text, "+
			"want bos_token and eos_token at most in a GGUF file", kind, put)
	}
	return []Key{{"tokenizer.ggml.add_bos_token", first}, {"tokenizer.ggml.add_eos_token", last}}, nil
}

// tokenizerSettings reads tokenizer_config.json, nothing if there is none.
func tokenizerSettings(dir string) (config map[string]json.RawMessage, err error) {
	data, err := atomicfile.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	return config, nil
}

// readTokenizer reads a tokenizer.json; without the file it returns nil.
func readTokenizer(name string) (*tokenizerFile, error) {
	data, err := atomicfile.ReadBounded(name, maxTokenizer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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
func chatTemplate(dir string, config map[string]json.RawMessage) (text string, err error) {
	data, err := atomicfile.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if !errors.Is(err, fs.ErrNotExist) {
		return string(data), err
	}
	raw := config["chat_template"]
	var several []struct{ Name, Template string }
	if len(raw) > 0 && json.Unmarshal(raw, &several) != nil {
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	for _, one := range several {
		if one.Name == "default" {
			text = one.Template
		}
	}
	return text, nil
}
