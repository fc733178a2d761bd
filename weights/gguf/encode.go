package gguf

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"unmask/internal/float16"
	"unmask/internal/quant"
	"unmask/weights"
)

// encode writes values in a type: F32, F16 or a block format.
func encode(as weights.DType, dst []byte, x []float32) {
	switch as {
	case weights.F32:
		for i, v := range x {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case weights.F16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(dst[2*i:], float16.Round(v))
		}
	default:
		q, _ := quant.Parse(string(as))
		quant.Encode(q, dst, x)
	}
}

const maxTokenizer = 256 << 20 // largest tokenizer.json in bytes

// vocabulary returns the keys of the tokenizer.json in a folder, none if there is none.
func vocabulary(dir, kind string) ([]Key, error) {
	name := filepath.Join(dir, "tokenizer.json")
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
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file struct {
		Model struct {
			Type   string
			Vocab  map[string]int
			Merges []json.RawMessage
		}
		Added []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if file.Model.Type != "BPE" {
		return nil, fmt.Errorf("tokenizer.json: model.type is %.40q, want BPE", file.Model.Type)
	}
	count := 0
	for text, id := range file.Model.Vocab {
		if id < 0 || id >= len(file.Model.Vocab)+len(file.Added) {
			return nil, fmt.Errorf("tokenizer.json: token %.40q is %d, want 0 to %d", text, id,
				len(file.Model.Vocab)+len(file.Added)-1)
		}
		count = max(count, id+1)
	}
	for _, a := range file.Added {
		if a.ID < 0 || a.ID >= len(file.Model.Vocab)+len(file.Added) {
			return nil, fmt.Errorf("tokenizer.json: added token %.40q is %d, want 0 to %d", a.Content, a.ID,
				len(file.Model.Vocab)+len(file.Added)-1)
		}
		count = max(count, a.ID+1)
	}
	tokens, kinds := make([]string, count), make([]int32, count)
	for i := range tokens {
		tokens[i], kinds[i] = fmt.Sprintf("[PAD%d]", i), unusedToken
	}
	for text, id := range file.Model.Vocab {
		tokens[id], kinds[id] = text, normalToken
	}
	for _, a := range file.Added {
		tokens[a.ID], kinds[a.ID] = a.Content, userToken
		if a.Special {
			kinds[a.ID] = controlToken
		}
	}
	merges := make([]string, len(file.Model.Merges))
	for i, raw := range file.Model.Merges {
		var pair [2]string
		if json.Unmarshal(raw, &pair) == nil {
			merges[i] = pair[0] + " " + pair[1]
		} else if err := json.Unmarshal(raw, &merges[i]); err != nil {
			return nil, fmt.Errorf("tokenizer.json: merge %d is %.40s, want two tokens", i, raw)
		}
	}
	pre := "bailingmoe"
	if kind == "Dream" {
		pre = "qwen2"
	}
	keys := []Key{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}, {tokensKey, tokens},
		{"tokenizer.ggml.token_type", kinds}, {"tokenizer.ggml.merges", merges}}
	template, err := chatTemplate(dir)
	if template != "" {
		keys = append(keys, Key{"tokenizer.chat_template", template})
	}
	return keys, err
}

// chatTemplate reads the template of tokenizer_config.json, "" if there is none.
func chatTemplate(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	var text string
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err == nil && len(config.Template) > 0 {
		err = json.Unmarshal(config.Template, &text)
	}
	if err != nil {
		return "", fmt.Errorf("tokenizer_config.json: %w", err)
	}
	return text, nil
}
