package tokenizers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of [Parse].
const (
	MaxFile  = 100_000_000 // bytes
	MaxDepth = 64          // of nested JSON
	MaxItems = 1 << 20     // entries of one array or object, so also tokens and merges
	MaxAdded = 4096        // added tokens, of at most 256 bytes each
)

// Parse reads a Hugging Face tokenizer.json whose model is byte-level BPE: model BPE,
// pre-tokenizer and decoder ByteLevel, no normalizer. Any setting that would give other ids
// than Hugging Face's tokenizers is an error that names it. Ids must be 0 ... n-1, each used
// once, and every merge must join two tokens into a third. Added tokens that the file does
// not call special are found by Encode too. Truncation and padding belong to the caller
// and are not applied.
func Parse(data []byte) (Tokenizer, error) {
	v, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return v, nil
}

func parse(data []byte) (*vocabulary, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%d bytes, at most %d allowed", len(data), MaxFile)
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return nil, fmt.Errorf("starts with a byte order mark, want plain UTF-8")
	}
	if !utf8.Valid(data) {
		at := invalidUTF8(string(data))
		return nil, fmt.Errorf("byte %d is 0x%02x, want UTF-8", at, data[at])
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	var file, model object
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, describe("file", err)
	}
	if err := checkPipeline(file); err != nil {
		return nil, err
	}
	if err := file.get("model", &model); err != nil {
		return nil, err
	}
	if err := checkModel(model); err != nil {
		return nil, fmt.Errorf("model.%w", err)
	}
	var list []addedToken
	if err := file.get("added_tokens", &list); err != nil {
		return nil, err
	}
	vocab, err := readVocab(model)
	if err != nil {
		return nil, fmt.Errorf("model.%w", err)
	}
	spelled, extra, err := assign(vocab, list)
	if err != nil {
		return nil, err
	}
	tokens, b, err := byteTokens(spelled, extra)
	if err != nil {
		return nil, err
	}
	if err := b.readMerges(model["merges"], vocab); err != nil {
		return nil, err
	}
	return newVocabulary(tokens, extra, b.encode)
}

// addedToken is an entry of added_tokens.
type addedToken struct {
	ID         *int64 `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
}

func readVocab(model object) (map[string]int64, error) {
	var found map[string]*int64 // null is no id
	if err := model.get("vocab", &found); err != nil {
		return nil, err
	}
	vocab := make(map[string]int64, len(found))
	for text, id := range found {
		vocab[text] = -1 // refused with its spelling by assign
		if id != nil {
			vocab[text] = *id
		}
	}
	return vocab, nil
}

// assign places every spelling at its id and checks that the ids are 0 ... n-1.
func assign(vocab map[string]int64, list []addedToken) ([]string, []added, error) {
	if len(vocab) == 0 {
		return nil, nil, fmt.Errorf("model.vocab: no tokens")
	}
	if len(list) > MaxAdded {
		return nil, nil, fmt.Errorf("added_tokens: %d entries, at most %d allowed", len(list), MaxAdded)
	}
	size := len(vocab)
	seen := map[string]bool{}
	for i, a := range list {
		id, known := vocab[a.Content]
		switch {
		case a.ID == nil:
			return nil, nil, fmt.Errorf("added_tokens[%d] %.40q: no id", i, a.Content)
		case a.Content == "" || len(a.Content) > 256:
			return nil, nil, fmt.Errorf("added_tokens[%d]: content of %d bytes, want 1 to 256", i, len(a.Content))
		case seen[a.Content]:
			return nil, nil, fmt.Errorf("added_tokens[%d]: %.40q appears twice", i, a.Content)
		case known && id != *a.ID:
			return nil, nil, fmt.Errorf("added_tokens[%d] %.40q: id %d, but %d in model.vocab", i, a.Content, *a.ID, id)
		case a.SingleWord || a.LStrip || a.RStrip:
			return nil, nil, fmt.Errorf("added_tokens[%d] %.40q: single_word, lstrip or rstrip is true, only false is supported", i, a.Content)
		}
		seen[a.Content] = true
		if !known {
			size++
		}
	}
	spelled := make([]string, size)
	place := func(where, text string, id int64) error {
		switch {
		case id < 0 || id >= int64(size):
			return fmt.Errorf("%s: id %d of %.40q is outside the vocabulary, %d tokens want ids 0 to %d", where, id, text, size, size-1)
		case text == "":
			return fmt.Errorf("%s: id %d is an empty token", where, id)
		case spelled[id] != "" && spelled[id] != text:
			one, two := min(text, spelled[id]), max(text, spelled[id])
			return fmt.Errorf("%s: id %d is given to both %.40q and %.40q", where, id, one, two)
		}
		spelled[id] = text
		return nil
	}
	// In the order of ids, so that the same file always gives the same error.
	names := slices.SortedFunc(maps.Keys(vocab), func(a, b string) int {
		return cmp.Or(cmp.Compare(vocab[a], vocab[b]), strings.Compare(a, b))
	})
	for _, text := range names {
		if err := place("model.vocab", text, vocab[text]); err != nil {
			return nil, nil, err
		}
	}
	var extra []added
	for i, a := range list {
		if err := place(fmt.Sprintf("added_tokens[%d]", i), a.Content, *a.ID); err != nil {
			return nil, nil, err
		}
		extra = append(extra, added{a.Content, int32(*a.ID), a.Special})
	}
	return spelled, extra, nil // size spellings at size different ids: no gap is left
}

// byteTokens turns spellings into the bytes they stand for. Added tokens are spelled as text.
func byteTokens(spelled []string, extra []added) ([]string, *bpe, error) {
	tokens := make([]string, len(spelled))
	for _, a := range extra {
		tokens[a.id] = a.text
	}
	b := newBPE()
	for id, text := range spelled {
		if tokens[id] != "" {
			continue
		}
		var raw []byte
		for _, r := range text {
			c, ok := alphabet[r]
			if !ok {
				return nil, nil, fmt.Errorf("model.vocab: token %.40q (id %d): %q stands for no byte", text, id, r)
			}
			raw = append(raw, c)
		}
		if len(raw) == 1 {
			b.bytes[raw[0]] = int32(id)
		}
		tokens[id] = string(raw)
	}
	return tokens, b, nil
}

// readMerges reads "left right" or ["left", "right"] for each merge, earliest first.
func (b *bpe) readMerges(raw json.RawMessage, vocab map[string]int64) error {
	pairs, err := splitMerges(raw)
	if err != nil {
		return fmt.Errorf("model.merges%w", err)
	}
	longest := 0
	for text := range vocab {
		longest = max(longest, len(text))
	}
	for rank, p := range pairs {
		for _, text := range append(p[:], p[0]+p[1]) {
			if _, ok := vocab[text]; ok {
				continue
			}
			why := "is not in model.vocab"
			if len(text) > longest {
				why = fmt.Sprintf("has %d bytes, the longest token of model.vocab has %d", len(text), longest)
			}
			return fmt.Errorf("model.merges[%d] %.40q %.40q: %.40q %s", rank, p[0], p[1], text, why)
		}
		key := pair{int32(vocab[p[0]]), int32(vocab[p[1]])}
		if m, ok := b.merges[key]; ok {
			return fmt.Errorf("model.merges[%d] %.40q %.40q: same as model.merges[%d]", rank, p[0], p[1], m.rank)
		}
		b.merges[key] = merge{rank: int32(rank), id: int32(vocab[p[0]+p[1]])}
	}
	return nil
}

func splitMerges(raw json.RawMessage) ([][2]string, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil || entries == nil {
		return nil, fmt.Errorf(": want an array")
	}
	out := make([][2]string, len(entries))
	for i, e := range entries {
		var line string
		var parts []string
		if json.Unmarshal(e, &line) == nil {
			parts = strings.Split(line, " ")
		} else if json.Unmarshal(e, &parts) != nil {
			parts = nil
		}
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("[%d]: %.40q, want two tokens", i, e)
		}
		out[i] = [2]string(parts)
	}
	return out, nil
}

// alphabet is the printable stand-in of every byte in a byte-level vocabulary: a visible
// Latin-1 character for itself, all others in order from U+0100 (openai/gpt-2,
// src/encoder.py, bytes_to_unicode).
var alphabet = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			m[b] = byte(b)
			continue
		}
		m[next] = byte(b)
		next++
	}
	return m
}()
