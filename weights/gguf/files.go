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

// patterns are the regular expressions that split text into words, by tokenizer.ggml.pre, as in the
// models' tokenizer.json (llama.cpp, llama-vocab.cpp).
var patterns = map[string]string{
	"bailingmoe": ling, "bailingmoe2": ling, "llada-moe": ling, "qwen2": qwen,
	"tekken": tekken,
}

const (
	ling   = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	tekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// CompanionFS returns the files that the model would have beside config.json in its authors'
// layout: tokenizer.json from the file's vocabulary, tokenizer_config.json with special tokens and
// chat template, and generation_config.json with the tokens that end a text. They are made when
// opened, which fails if the keys are wrong. Without a vocabulary there are none.
func (f *File) CompanionFS() fs.FS { return files{f} }

type object = map[string]any

// tokenizer returns a tokenizer.json for BPE over bytes, the only kind that these models have.
func (f *File) tokenizer(tokens []string) ([]byte, error) {
	kind, err := f.Text("tokenizer.ggml.model")
	if err == nil && kind != "gpt2" {
		err = fmt.Errorf("key tokenizer.ggml.model is %.40q, want gpt2", kind)
	}
	if err != nil {
		return nil, err
	}
	pre, err := f.Text("tokenizer.ggml.pre")
	if err != nil {
		return nil, err
	}
	pattern, ok := patterns[pre]
	if !ok {
		return nil, fmt.Errorf("key tokenizer.ggml.pre is %.40q, want bailingmoe, llada-moe, qwen2 "+
			"or tekken", pre)
	}
	vocabulary, added, err := f.entries(tokens)
	if err != nil {
		return nil, err
	}
	merges, err := f.Texts("tokenizer.ggml.merges")
	if err != nil {
		return nil, err
	}
	apart := map[string]bool{} // tokens that are found before words are merged
	for _, a := range added {
		apart[a["content"].(string)] = true
	}
	merges = slices.DeleteFunc(slices.Clone(merges), func(merge string) bool {
		left, right, _ := strings.Cut(merge, " ")
		return apart[left] || apart[right] || apart[left+right]
	})
	var normalizer any
	if pattern == qwen {
		normalizer = object{"type": "NFC"}
	}
	around, err := f.around(tokens)
	if err != nil {
		return nil, err
	}
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
		"use_regex": false}
	return json.Marshal(object{
		"version": "1.0", "added_tokens": added, "normalizer": normalizer, "decoder": bytes,
		"post_processor": around,
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			bytes}},
		"model": object{"type": "BPE", "vocab": vocabulary, "merges": merges},
	})
}

// around returns the post_processor that puts the first and the last token around a text where the
// file says so.
func (f *File) around(tokens []string) (any, error) {
	single, special := []object{{"Sequence": object{"id": "A", "type_id": 0}}}, object{}
	for _, name := range []string{"bos", "eos"} {
		key := "tokenizer.ggml.add_" + name + "_token"
		add, err := f.Bool(key)
		if !f.Has(key) || err == nil && !add {
			continue
		}
		if err != nil {
			return nil, err
		}
		id, err := f.role(name, tokens)
		if err != nil {
			return nil, err
		}
		special[tokens[id]] = object{"id": tokens[id], "ids": []int{id}, "tokens": tokens[id : id+1]}
		part := object{"SpecialToken": object{"id": tokens[id], "type_id": 0}}
		if name == "bos" {
			single = slices.Insert(single, 0, part)
		} else {
			single = append(single, part)
		}
	}
	if len(single) == 1 {
		return nil, nil
	}
	return object{"type": "TemplateProcessing", "single": single, "special_tokens": special}, nil
}

// role returns the id of the token that has a role.
func (f *File) role(name string, tokens []string) (int, error) {
	return f.within("tokenizer.ggml."+name+"_token_id", 0, len(tokens)-1)
}

// entries returns the ids of the model's tokens by spelling, and the entries of added tokens.
func (f *File) entries(tokens []string) (vocabulary map[string]int, added []object, err error) {
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
	vocabulary, added = make(map[string]int, len(tokens)), []object{}
	for id, text := range tokens {
		if !utf8.ValidString(text) {
			return nil, nil, fmt.Errorf("key %s: token %d is %.40q, want UTF-8", tokensKey, id, text)
		}
		if types[id] == controlToken || types[id] == userToken {
			if len(added) == MaxAddedTokens {
				return nil, nil, fmt.Errorf("key tokenizer.ggml.token_type has over %d special and added "+
					"tokens, want at most that", MaxAddedTokens)
			}
			added = append(added, object{"id": id, "content": text, "special": types[id] == controlToken,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
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

// tokenizerConfig returns a tokenizer_config.json.
func (f *File) tokenizerConfig(tokens []string) ([]byte, error) {
	config := object{}
	for name, role := range roles {
		if !f.Has("tokenizer.ggml." + name + "_token_id") {
			continue
		}
		id, err := f.role(name, tokens)
		if err != nil {
			return nil, err
		}
		config[role] = tokens[id]
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

// generationConfig returns a generation_config.json.
func (f *File) generationConfig([]string) ([]byte, error) {
	ends, err := f.ends()
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{"eos_token_id": ends})
}

// ends returns the different values of endKeys.
func (f *File) ends() ([]int, error) {
	ends := []int{}
	for _, key := range endKeys {
		if !f.Has(key) {
			continue
		}
		id, err := f.within(key, 0, 1<<30)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	return ends, nil
}

// files is a virtual folder.
type files struct{ *File }

// Open makes a file.
func (f files) Open(name string) (fs.File, error) {
	make := map[string]func([]string) ([]byte, error){"tokenizer.json": f.tokenizer,
		"tokenizer_config.json": f.tokenizerConfig, "generation_config.json": f.generationConfig}[name]
	if make == nil || !f.Has(tokensKey) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	tokens, err := f.Texts(tokensKey)
	if err != nil {
		return nil, f.failed(err)
	}
	data, err := make(tokens)
	if err != nil {
		return nil, f.failed(err)
	}
	return fstest.MapFS{name: {Data: data, Mode: 0o444}}.Open(name)
}
