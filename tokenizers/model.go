package tokenizers

import "fmt"

// readModel reads the settings of a BPE model, but not its vocabulary and merges.
func readModel(model object) (*bpe, error) {
	b := newBPE()
	kind := "BPE" // old files have no type
	var prefix, suffix, unknown string
	var dropout float64
	if err := model.read(map[string]any{
		"type": &kind, "continuing_subword_prefix": &prefix, "end_of_word_suffix": &suffix,
		"dropout":   &dropout,
		"unk_token": &unknown, "fuse_unk": &b.fuse, "byte_fallback": &b.falls, "ignore_merges": &b.ignore,
	}, "vocab", "merges"); err != nil {
		return nil, err
	}
	b.unknownText = unknown
	switch {
	case kind != "BPE":
		return nil, fmt.Errorf("type: %.40q, want \"BPE\"", kind)
	case prefix != "":
		return nil, fmt.Errorf("continuing_subword_prefix: %.40q, want null", prefix)
	case suffix != "":
		return nil, fmt.Errorf("end_of_word_suffix: %.40q, want null", suffix)
	case dropout != 0:
		return nil, fmt.Errorf("dropout: %g, want null", dropout)
	}
	return b, nil
}

// setVocab records the tokens that a word starts from: one for each byte of the alphabet if words
// are spelled in it, otherwise one for each rune.
func (b *bpe) setVocab(vocab map[string]int64, bytes bool) error {
	if b.unknownText != "" {
		id, ok := vocab[b.unknownText]
		if !ok {
			return fmt.Errorf("unk_token: %.40q is not in model.vocab", b.unknownText)
		}
		b.unknown = int32(id)
	}
	find := func(text string) int32 {
		if id, ok := vocab[text]; ok {
			return int32(id)
		}
		return -1
	}
	var fallback [256]int32
	for c := range fallback {
		fallback[c] = -1
		if b.falls {
			fallback[c] = find(fmt.Sprintf("<0x%02X>", c))
		}
	}
	b.fallback = fallback
	if b.ignore {
		b.whole = make(map[string]int32, len(vocab))
	}
	if !bytes {
		b.runes = make(map[rune]int32)
	}
	for text, id := range vocab {
		word := text
		if bytes {
			word = unspell(text)
		}
		runes := []rune(text)
		if len(runes) == 1 {
			if !bytes {
				b.runes[runes[0]] = int32(id)
			} else if c, ok := alphabet[runes[0]]; ok {
				b.bytes[c] = int32(id)
			}
		}
		if b.ignore && (!bytes || spelledInBytes(text)) {
			b.whole[word] = int32(id)
		}
	}
	return nil
}

func spelledInBytes(text string) bool {
	for _, r := range text {
		if _, ok := alphabet[r]; !ok {
			return false
		}
	}
	return true
}
