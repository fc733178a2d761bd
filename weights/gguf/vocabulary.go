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
	Post postProcessor `json:"post_processor"`
}

// postProcessor says what is put around a text.
type postProcessor struct {
	Type   string
	Single []struct {
		SpecialToken *struct{ ID string } // nil: the text
	}

	// Processors are those of a Sequence.
	Processors []postProcessor
}

// template returns the one of a sequence that adds tokens, if the others only set offsets, or p
// itself.
func (p postProcessor) template() postProcessor {
	if p.Type != "Sequence" {
		return p
	}
	var adding []postProcessor
	for _, part := range p.Processors {
		if part.Type != "ByteLevel" {
			adding = append(adding, part)
		}
	}
	if len(adding) != 1 {
		return p
	}
	return adding[0]
}

// tokenRoles are the tokens that tokenizer_config.json names, by their names in a GGUF file.
var tokenRoles = map[string]string{
	"bos":     "bos_token",
	"eos":     "eos_token",
	"padding": "pad_token",
	"unknown": "unk_token",
	"mask":    "mask_token",
}

// vocabularyKeys returns the keys of the tokenizer.json in a folder, none if there is none.
func vocabularyKeys(dir string) ([]Key, error) {
	file, err := readTokenizer(filepath.Join(dir, "tokenizer.json"))
	if file == nil || err != nil {
		return nil, err
	}
	tokens, types, err := file.listTokens()
	if err != nil {
		return nil, err
	}
	merges, err := file.listMerges()
	if err != nil {
		return nil, err
	}
	patternName, err := file.wordPatternName()
	if err != nil {
		return nil, err
	}
	config, err := readTokenizerConfig(dir)
	if err != nil {
		return nil, err
	}
	keys := []Key{
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", patternName},
		{tokensKey, tokens},
		{"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", merges},
	}

	textByRole := map[string]string{}
	for role, authorKey := range tokenRoles {
		text, err := readToken(config[authorKey])
		if err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %s is %.40s, want a token", authorKey,
				config[authorKey])
		}
		textByRole[role] = text
		if id := slices.Index(tokens, text); text != "" && id >= 0 {
			keys = append(keys, Key{"tokenizer.ggml." + role + "_token_id", uint32(id)})
		}
	}
	aroundKeys, err := file.aroundKeys(textByRole["bos"], textByRole["eos"])
	if err != nil {
		return nil, err
	}
	template, err := readChatTemplate(dir, config)
	if err != nil {
		return nil, err
	}
	if template != "" {
		keys = append(keys, Key{"tokenizer.chat_template", template})
	}
	return append(keys, aroundKeys...), nil
}

// readToken reads a token: a text, an object with its content, or null.
func readToken(raw json.RawMessage) (text string, err error) {
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var token struct{ Content string }
	err = json.Unmarshal(raw, &token)
	return token.Content, err
}

// aroundKeys returns the keys of what the post_processor puts around a text: the first or the last
// token, which is all that a GGUF file can say. Anything else is an error: the converted model
// would read other tokens than the original.
func (f *tokenizerFile) aroundKeys(bos, eos string) (keys []Key, err error) {
	const text = "$" // stands for the text
	parts := []string{text}
	post := f.Post.template()
	if post.Type == "TemplateProcessing" {
		parts = nil
		for _, part := range post.Single {
			if part.SpecialToken == nil {
				parts = append(parts, text)
			} else {
				parts = append(parts, part.SpecialToken.ID)
			}
		}
	}
	hasBOS := len(parts) > 1 && parts[0] == bos
	hasEOS := len(parts) > 1 && parts[len(parts)-1] == eos

	want := []string{text}
	if hasBOS {
		want = append([]string{bos}, want...)
	}
	if hasEOS {
		want = append(want, eos)
	}
	kind := post.Type
	isKnown := kind == "" || kind == "ByteLevel" || kind == "TemplateProcessing"
	if !isKnown || !slices.Equal(parts, want) {
		return nil, fmt.Errorf("tokenizer.json: post_processor of type %.40q puts %.60q around a text, "+
			"want bos_token and eos_token at most in a GGUF file", kind, parts)
	}
	return []Key{{"tokenizer.ggml.add_bos_token", hasBOS}, {"tokenizer.ggml.add_eos_token", hasEOS}},
		nil
}

// readTokenizerConfig reads tokenizer_config.json, nothing if there is none.
func readTokenizerConfig(dir string) (config map[string]json.RawMessage, err error) {
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

// wordPatternName returns llama.cpp's name of the pattern that splits text into words.
func (f *tokenizerFile) wordPatternName() (string, error) {
	pattern := ""
	for _, part := range f.Pre.Parts {
		pattern = cmp.Or(pattern, part.Pattern.Regex)
	}
	for _, name := range []string{"bailingmoe", "lfm2", "qwen2", "tekken"} {
		if wordPatterns[name] == pattern {
			return name, nil
		}
	}
	return "",
		fmt.Errorf("tokenizer.json: the pattern of words is %.40q, want that of LLaDA, LFM2, Qwen2 "+
			"or Tekken", pattern)
}

// listTokens returns the spelling and the type of each id; ids without a token are padding.
func (f *tokenizerFile) listTokens() (tokens []string, types []int32, err error) {
	// An id beyond the number of tokens would make a list of that many.
	limit := len(f.Model.Vocab) + len(f.Added)
	count := 0
	for text, id := range f.Model.Vocab {
		if id < 0 || id >= limit {
			return nil, nil, fmt.Errorf("tokenizer.json: token %.40q is %d, want 0 to %d", text, id,
				limit-1)
		}
		count = max(count, id+1)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID >= limit {
			return nil, nil, fmt.Errorf("tokenizer.json: added token %.40q is %d, want 0 to %d", a.Content,
				a.ID, limit-1)
		}
		count = max(count, a.ID+1)
	}

	tokens = make([]string, count)
	types = make([]int32, count)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("[PAD%d]", i)
		types[i] = unusedToken
	}
	for text, id := range f.Model.Vocab {
		tokens[id] = text
		types[id] = normalToken
	}
	for _, a := range f.Added {
		tokens[a.ID] = a.Content
		types[a.ID] = userToken
		if a.Special {
			types[a.ID] = controlToken
		}
	}
	return tokens, types, nil
}

// listMerges returns the merges, each as its two tokens with a space between.
func (f *tokenizerFile) listMerges() ([]string, error) {
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

// readChatTemplate reads the template of chat_template.jinja or, as older versions of transformers
// have it, of tokenizer_config.json; "" if there is none. Of several templates it takes the
// default.
func readChatTemplate(dir string, config map[string]json.RawMessage) (text string, err error) {
	data, err := atomicfile.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if !errors.Is(err, fs.ErrNotExist) {
		return string(data), err
	}
	raw := config["chat_template"]
	if len(raw) == 0 {
		return "", nil
	}
	var templates []struct{ Name, Template string }
	if json.Unmarshal(raw, &templates) != nil {
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", fmt.Errorf("tokenizer_config.json: %w", err)
		}
		return text, nil
	}
	for _, t := range templates {
		if t.Name == "default" {
			text = t.Template
		}
	}
	return text, nil
}
