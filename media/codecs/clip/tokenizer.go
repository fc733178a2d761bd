package clip

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"unmask/model"
	"unmask/tokenizers"
)

// Tokenizer is CLIP's byte pair encoding with the tokens around a text: NFC, lower case, and `</w>`
// after the last piece of a word. It is safe for concurrent use.
type Tokenizer struct {
	bpe tokenizers.Tokenizer

	// start and end stand around a text, pad after it.
	start, end, pad int32
}

const (
	maxFile = 16 << 20 // bytes of a file that names the padding

	// MaxText is the longest text in bytes. 77 tokens are about 400 bytes of English.
	MaxText = 1 << 13
)

// OpenTokenizer reads vocab.json and merges.txt of a folder or, without them, tokenizer.json. The
// padding token is that of special_tokens_map.json or tokenizer_config.json, and otherwise the end
// token.
func OpenTokenizer(files fs.FS) (*Tokenizer, error) {
	names := []string{"vocab.json", "merges.txt"}
	if _, err := fs.Stat(files, names[0]); errors.Is(err, fs.ErrNotExist) {
		names = []string{"tokenizer.json"}
	}
	bpe, _, err := tokenizers.ParseClass(someFiles{files, names}, "CLIPTokenizer")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("neither vocab.json nor tokenizer.json: %w", err)
	}
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{bpe: bpe}
	const startOfText = "<|startoftext|>"
	var ok bool
	if t.start, ok = bpe.Special(startOfText); !ok {
		return nil, fmt.Errorf("the vocabulary lacks %s: not CLIP's", startOfText)
	}
	if t.end, ok = bpe.Special(tokenizers.EndOfText); !ok {
		return nil, fmt.Errorf("the vocabulary lacks %s: not CLIP's", tokenizers.EndOfText)
	}
	return t, t.readPad(files)
}

// someFiles shows some files of a folder. The others call tokens special that are text in a prompt,
// such as a padding of "!".
type someFiles struct {
	fs.FS
	names []string
}

// Open implements fs.FS.
func (f someFiles) Open(name string) (fs.File, error) {
	if !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

// readPad finds the padding token.
func (t *Tokenizer) readPad(files fs.FS) error {
	t.pad = t.end
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		data, err := model.ReadFile(files, name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var f struct {
			Pad json.RawMessage `json:"pad_token"`
		}
		if err == nil {
			err = json.Unmarshal(data, &f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if f.Pad == nil || string(f.Pad) == "null" {
			continue
		}
		var token struct {
			Content string `json:"content"`
		}
		if json.Unmarshal(f.Pad, &token.Content) != nil { // a text, or an object with more about it
			if err := json.Unmarshal(f.Pad, &token); err != nil {
				return fmt.Errorf("%s: pad_token: %w", name, err)
			}
		}
		for id := range int32(t.VocabSize()) {
			if text, _ := t.bpe.Token(id); text == token.Content {
				t.pad = id
				return nil
			}
		}
		return fmt.Errorf("%s: pad_token is %.40q, want a token of the vocabulary", name, token.Content)
	}
	return nil
}

// Pad returns the padding token in the model's own files.
func (t *Tokenizer) Pad() int32 { return t.pad }

// VocabSize returns one more than the largest id.
func (t *Tokenizer) VocabSize() int { return t.bpe.VocabSize() }

// Encode returns `length` ids of a text: start, pieces, end, then padding. Pieces that do not fit
// are dropped; cut reports whether there were any.
func (t *Tokenizer) Encode(text string, length int, pad int32) (ids []int32, cut bool, err error) {
	if len(text) > MaxText {
		return nil, false, fmt.Errorf("the prompt is %d bytes, want 0 to %d", len(text), MaxText)
	}
	pieces, err := t.bpe.Encode(strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		return nil, false, fmt.Errorf("the prompt: %w", err)
	}
	ids = append(make([]int32, 0, length), t.start)
	ids = append(ids, pieces...)
	cut = len(ids) > length-1 // the last place is the end's
	if cut {
		ids = ids[:length-1]
	}
	ids = append(ids, t.end)
	for len(ids) < length {
		ids = append(ids, pad)
	}
	return ids, cut, nil
}
