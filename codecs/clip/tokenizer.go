package clip

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"unmask/model"
	"unmask/tokenizers"
)

// Tokenizer is CLIP's byte pair encoding: NFC, runs of white space as one blank, lower case, and
// `</w>` after the last piece of a word. It is safe for concurrent use.
type Tokenizer struct {
	ids        map[string]int32
	merges     [][2]string
	bpe        *tokenizers.WordBPE
	start, end int32
	pad        int32
}

const (
	startToken = "<|startoftext|>"
	endToken   = "<|endoftext|>"
	endOfWord  = "</w>"

	maxFile = 16 << 20 // bytes of vocab.json, merges.txt or tokenizer.json

	// MaxText is the longest text in bytes. 77 tokens are about 400 bytes of English.
	MaxText = 1 << 13
)

// OpenTokenizer reads vocab.json and merges.txt of a folder or, without them, tokenizer.json. The
// padding token is that of special_tokens_map.json or tokenizer_config.json, and otherwise the end
// token.
func OpenTokenizer(files fs.FS) (*Tokenizer, error) {
	t := &Tokenizer{ids: map[string]int32{}}
	vocab, err := model.ReadFile(files, "vocab.json", maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = t.readJSON(files)
	case err != nil:
		err = fmt.Errorf("vocab.json: %w", err)
	default:
		if err := json.Unmarshal(vocab, &t.ids); err != nil {
			return nil, fmt.Errorf("vocab.json: %w", err)
		}
		err = t.readMerges(files)
	}
	if err != nil {
		return nil, err
	}
	for _, special := range []struct {
		name string
		id   *int32
	}{{startToken, &t.start}, {endToken, &t.end}} {
		id, ok := t.ids[special.name]
		if !ok {
			return nil, fmt.Errorf("the vocabulary lacks %s: not CLIP's", special.name)
		}
		*special.id = id
	}
	if t.bpe, err = tokenizers.NewWordBPE(t.ids, t.merges, endOfWord); err != nil {
		return nil, fmt.Errorf("%w: not CLIP's", err)
	}
	t.merges = nil
	return t, t.readPad(files)
}

// readJSON reads the vocabulary and merges of tokenizer.json.
func (t *Tokenizer) readJSON(files fs.FS) error {
	data, err := model.ReadFile(files, "tokenizer.json", maxFile)
	if err != nil {
		return fmt.Errorf("neither vocab.json nor tokenizer.json: %w", err)
	}
	var f struct {
		Model struct {
			Vocab  map[string]int32  `json:"vocab"`
			Merges []json.RawMessage `json:"merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("tokenizer.json: %w", err)
	}
	t.ids = f.Model.Vocab
	for i, raw := range f.Model.Merges {
		var pair []string
		var line string
		if json.Unmarshal(raw, &line) == nil {
			pair = strings.Split(line, " ")
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			return fmt.Errorf("tokenizer.json: merge %d: %w", i, err)
		}
		if err := t.addMerge(pair); err != nil {
			return fmt.Errorf("tokenizer.json: %w", err)
		}
	}
	return nil
}

// readMerges reads merges.txt: a line with the version, then one pair per line.
func (t *Tokenizer) readMerges(files fs.FS) error {
	data, err := model.ReadFile(files, "merges.txt", maxFile)
	if err != nil {
		return fmt.Errorf("merges.txt: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for i := 0; lines.Scan(); i++ {
		line := lines.Text()
		if i == 0 && strings.HasPrefix(line, "#version") || strings.TrimSpace(line) == "" {
			continue
		}
		if err := t.addMerge(strings.Split(line, " ")); err != nil {
			return fmt.Errorf("merges.txt: line %d: %w", i+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("merges.txt: %w", err)
	}
	return nil
}

func (t *Tokenizer) addMerge(pair []string) error {
	if len(pair) != 2 {
		return fmt.Errorf("merge %d has %d parts, want 2", len(t.merges), len(pair))
	}
	if _, ok := t.ids[pair[0]+pair[1]]; !ok {
		return fmt.Errorf("merge %d gives %.40q, which is not in the vocabulary", len(t.merges),
			pair[0]+pair[1])
	}
	t.merges = append(t.merges, [2]string(pair))
	return nil
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
		if json.Unmarshal(f.Pad, &token.Content) != nil {
			if err := json.Unmarshal(f.Pad, &token); err != nil {
				return fmt.Errorf("%s: pad_token: %w", name, err)
			}
		}
		id, ok := t.ids[token.Content]
		if !ok {
			return fmt.Errorf("%s: pad_token is %.40q, want a token of the vocabulary", name, token.Content)
		}
		t.pad = id
		return nil
	}
	return nil
}

// Pad returns the padding token in the model's own files.
func (t *Tokenizer) Pad() int32 { return t.pad }

// Size returns one more than the largest id.
func (t *Tokenizer) Size() int {
	n := int32(0)
	for _, id := range t.ids {
		n = max(n, id+1)
	}
	return int(n)
}

// Encode returns `length` ids of a text: start, pieces, end, then padding. Pieces that do not fit
// are dropped; cut reports whether there were any.
func (t *Tokenizer) Encode(text string, length int, pad int32) (ids []int32, cut bool, err error) {
	if len(text) > MaxText {
		return nil, false, fmt.Errorf("the prompt is %d bytes, want 0 to %d", len(text), MaxText)
	}
	ids = append(make([]int32, 0, length), t.start)
	for word := range words(normal(text)) {
		if ids = t.bpe.Append(ids, word); len(ids) > length-1 {
			ids, cut = ids[:length-1], true
			break
		}
	}
	ids = append(ids, t.end)
	for len(ids) < length {
		ids = append(ids, pad)
	}
	return ids, cut, nil
}

// normal returns the text in NFC, with runs of white space as one blank, in lower case rune by rune
// as in Hugging Face's library, so that a final sigma is not special.
func normal(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(tokenizers.NFC(text)), " ") {
		if r == 'İ' {
			b.WriteString("i\u0307") // the only rune whose lower case is two runes
			continue
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

// words splits a text into contractions, runs of letters, single digits, and runs of everything
// else except white space.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n, space := firstWord(text)
			if !space && !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// firstWord returns the bytes of the word, or of the white space, that a text begins with.
func firstWord(text string) (n int, space bool) {
	for _, c := range contractions {
		if strings.HasPrefix(text, c) {
			return len(c), false
		}
	}
	first, n := utf8.DecodeRuneInString(text)
	kind := kindOf(first)
	for n < len(text) && kind != digit {
		r, size := utf8.DecodeRuneInString(text[n:])
		if kindOf(r) != kind {
			break
		}
		n += size
	}
	return n, kind == white
}

// Kinds of runes. A word has runes of one kind.
const (
	white = iota
	letter
	digit
	other
)

func kindOf(r rune) int {
	switch {
	case unicode.IsSpace(r):
		return white
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return digit
	}
	return other
}
