package gguf

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing/fstest"
	"unicode/utf8"
)

// The values of tokenizer.ggml.token_type (llama.h, llama_token_type).
const (
	normalToken  = 1
	controlToken = 3
	userToken    = 4
	unusedToken  = 5
)

// wordPatterns are the regular expressions that split text into words, by tokenizer.ggml.pre, as in
// the models' tokenizer.json (llama.cpp, llama-vocab.cpp).
var wordPatterns = map[string]string{
	"bailingmoe":  lingPattern,
	"bailingmoe2": lingPattern,
	"llada-moe":   lingPattern,
	"lfm2":        llama3Pattern,
	"qwen2":       qwenPattern,
	"tekken":      tekkenPattern,
}

const (
	lingPattern   = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	tekkenPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// of Llama 3
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenPattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// CompanionFS returns the files that the model would have beside config.json in its authors'
// layout: tokenizer.json from the file's vocabulary, tokenizer_config.json with special tokens and
// chat template, and generation_config.json with the tokens that end a text. They are made when
// opened, which fails if the keys are wrong. Without a vocabulary there are none.
//
// With these files the packages of tokenizers and chat templates need to know nothing of GGUF.
func (f *File) CompanionFS() fs.FS { return companionFS{f} }

type object = map[string]any

// tokenizerJSON returns a tokenizer.json for BPE over bytes, the only kind that these models have.
func (f *File) tokenizerJSON(tokens []string) ([]byte, error) {
	kind, err := f.Text("tokenizer.ggml.model")
	if err != nil {
		return nil, err
	}
	if kind != "gpt2" {
		return nil, fmt.Errorf("key tokenizer.ggml.model is %.40q, want gpt2", kind)
	}
	patternName, err := f.Text("tokenizer.ggml.pre")
	if err != nil {
		return nil, err
	}
	pattern, ok := wordPatterns[patternName]
	if !ok {
		return nil, fmt.Errorf("key tokenizer.ggml.pre is %.40q, want bailingmoe, llada-moe, lfm2, "+
			"qwen2 or tekken", patternName)
	}
	vocabulary, added, err := f.listTokens(tokens)
	if err != nil {
		return nil, err
	}
	merges, err := f.Texts("tokenizer.ggml.merges")
	if err != nil {
		return nil, err
	}

	// Added tokens are found in the text before words are merged, so merges that make them never
	// apply, and a tokenizer.json with such merges is refused.
	isAdded := map[string]bool{}
	for _, a := range added {
		isAdded[a["content"].(string)] = true
	}
	merges = slices.DeleteFunc(slices.Clone(merges), func(merge string) bool {
		left, right, _ := strings.Cut(merge, " ")
		return isAdded[left] || isAdded[right] || isAdded[left+right]
	})

	var normalizer any
	if pattern == qwenPattern {
		normalizer = object{"type": "NFC"}
	}
	postProcessor, err := f.postProcessor(tokens)
	if err != nil {
		return nil, err
	}
	split := object{
		"type":     "Split",
		"pattern":  object{"Regex": pattern},
		"behavior": "Isolated",
		"invert":   false,
	}
	byteLevel := object{
		"type":             "ByteLevel",
		"add_prefix_space": false,
		"trim_offsets":     true,
		"use_regex":        false,
	}
	return json.Marshal(object{
		"version":        "1.0",
		"added_tokens":   added,
		"normalizer":     normalizer,
		"decoder":        byteLevel,
		"post_processor": postProcessor,
		"pre_tokenizer":  object{"type": "Sequence", "pretokenizers": []object{split, byteLevel}},
		"model": object{"type": "BPE", "vocab": vocabulary, "merges": merges,
			"ignore_merges": pattern == llama3Pattern},
	})
}

// postProcessor returns the post_processor that puts the first and the last token around a text
// where the file says so; nil if it does not.
func (f *File) postProcessor(tokens []string) (any, error) {
	parts := []object{{"Sequence": object{"id": "A", "type_id": 0}}}
	special := object{}
	for _, name := range []string{"bos", "eos"} {
		key := "tokenizer.ggml.add_" + name + "_token"
		if !f.Has(key) {
			continue
		}
		isAdded, err := f.Bool(key)
		if err != nil {
			return nil, err
		}
		if !isAdded {
			continue
		}
		id, err := f.roleToken(name, tokens)
		if err != nil {
			return nil, err
		}
		special[tokens[id]] = object{"id": tokens[id], "ids": []int{id}, "tokens": tokens[id : id+1]}
		part := object{"SpecialToken": object{"id": tokens[id], "type_id": 0}}
		if name == "bos" {
			parts = slices.Insert(parts, 0, part)
		} else {
			parts = append(parts, part)
		}
	}
	if len(parts) == 1 {
		return nil, nil
	}
	return object{"type": "TemplateProcessing", "single": parts, "special_tokens": special}, nil
}

// roleToken returns the id of the token that has a role, such as bos.
func (f *File) roleToken(role string, tokens []string) (int, error) {
	return f.intInRange("tokenizer.ggml."+role+"_token_id", 0, len(tokens)-1)
}

// listTokens returns the ids of the model's tokens by spelling, and the entries of added tokens.
func (f *File) listTokens(tokens []string) (vocabulary map[string]int, added []object, err error) {
	types := make([]int, len(tokens))
	if f.Has("tokenizer.ggml.token_type") {
		if types, err = f.Ints("tokenizer.ggml.token_type"); err != nil {
			return nil, nil, err
		}
		if len(types) != len(tokens) {
			return nil, nil, fmt.Errorf("key tokenizer.ggml.token_type has %d entries, want %d as tokens",
				len(types), len(tokens))
		}
	}

	vocabulary = make(map[string]int, len(tokens))
	added = []object{} // not null in JSON
	for id, text := range tokens {
		if !utf8.ValidString(text) {
			return nil, nil, fmt.Errorf("key %s: token %d is %.40q, want UTF-8", tokensKey, id, text)
		}
		if types[id] == controlToken || types[id] == userToken {
			if len(added) == MaxAddedTokens {
				return nil, nil, fmt.Errorf("key tokenizer.ggml.token_type has over %d special and added "+
					"tokens, want at most that", MaxAddedTokens)
			}
			added = append(added, object{
				"id":          id,
				"content":     text,
				"special":     types[id] == controlToken,
				"single_word": false,
				"lstrip":      false,
				"rstrip":      false,
				"normalized":  false,
			})
			continue
		}
		if first, ok := vocabulary[text]; ok {
			return nil, nil, fmt.Errorf("key %s: tokens %d and %d are both %.40q", tokensKey, first, id,
				text)
		}
		vocabulary[text] = id
	}
	return vocabulary, added, nil
}

// tokenizerConfigJSON returns a tokenizer_config.json.
func (f *File) tokenizerConfigJSON(tokens []string) ([]byte, error) {
	config := object{}
	for role, authorKey := range tokenRoles {
		if !f.Has("tokenizer.ggml." + role + "_token_id") {
			continue
		}
		id, err := f.roleToken(role, tokens)
		if err != nil {
			return nil, err
		}
		config[authorKey] = tokens[id]
	}
	if f.Has("tokenizer.chat_template") {
		template, err := f.Text("tokenizer.chat_template")
		if err != nil {
			return nil, err
		}
		if len(template) > MaxTemplate {
			return nil, fmt.Errorf("key tokenizer.chat_template has %d bytes, want at most %d",
				len(template), MaxTemplate)
		}
		config["chat_template"] = template
	}
	return json.Marshal(config)
}

// generationConfigJSON returns a generation_config.json.
func (f *File) generationConfigJSON([]string) ([]byte, error) {
	tokens, err := f.endTokens()
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{"eos_token_id": tokens})
}

// endTokens returns the different values of endKeys.
func (f *File) endTokens() ([]int, error) {
	tokens := []int{} // not null in JSON
	for _, key := range endKeys {
		if !f.Has(key) {
			continue
		}
		id, err := f.intInRange(key, 0, 1<<30)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(tokens, id) {
			tokens = append(tokens, id)
		}
	}
	return tokens, nil
}

// companionFS is the folder of CompanionFS.
type companionFS struct{ *File }

// Open makes a file.
func (f companionFS) Open(name string) (fs.File, error) {
	var makeFile func(tokens []string) ([]byte, error)
	switch name {
	case "tokenizer.json":
		makeFile = f.tokenizerJSON
	case "tokenizer_config.json":
		makeFile = f.tokenizerConfigJSON
	case "generation_config.json":
		makeFile = f.generationConfigJSON
	}
	if makeFile == nil || !f.Has(tokensKey) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	tokens, err := f.Texts(tokensKey)
	if err != nil {
		return nil, f.addName(err)
	}
	data, err := makeFile(tokens)
	if err != nil {
		return nil, f.addName(err)
	}
	return fstest.MapFS{name: {Data: data, Mode: 0o444}}.Open(name)
}
