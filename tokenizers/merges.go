package tokenizers

import (
	"encoding/json"
	"fmt"
	"strings"
)

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
				why = fmt.Sprintf("has %d bytes, the longest token of model.vocab has %d",
					len(text), longest)
			}
			return fmt.Errorf("model.merges[%d] %.40q %.40q: %.40q %s", rank, p[0], p[1], text, why)
		}
		key := pair{int32(vocab[p[0]]), int32(vocab[p[1]])}
		if m, ok := b.merges[key]; ok {
			return fmt.Errorf("model.merges[%d] %.40q %.40q: same as model.merges[%d]", rank, p[0],
				p[1], m.rank)
		}
		b.merges[key] = merge{rank: int32(rank), id: int32(vocab[p[0]+p[1]])}
	}
	return nil
}

// splitMerges returns the two tokens of each merge, which files write as one text with a blank or,
// where tokens have blanks, as a list.
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

// byteAlphabet is the printable character for each byte in a byte-level vocabulary: visible Latin-1
// characters for themselves, all others in order from U+0100 (openai/gpt-2, src/encoder.py,
// bytes_to_unicode).
var byteAlphabet = func() map[rune]byte {
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

// decodeAlphabet returns the bytes of text, which is in the byte alphabet, or text itself and
// false if any of its runes is not in the alphabet.
func decodeAlphabet(text string) (string, bool) {
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		c, ok := byteAlphabet[r]
		if !ok {
			return text, false
		}
		raw = append(raw, c)
	}
	return string(raw), true
}

// alphabetRunes is the rune for each byte.
var alphabetRunes = func() (runes [256]rune) {
	for r, b := range byteAlphabet {
		runes[b] = r
	}
	return runes
}()
