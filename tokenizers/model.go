package tokenizers

import "fmt"

// subwords divides words into tokens.
type subwords interface {
	// learn reads what the file says about the vocabulary, whose ids have been checked. bytes says
	// that words are spelled in the byte alphabet.
	learn(model object, vocab map[string]int64, bytes bool) error
	// append adds the ids of a word.
	append(ids []int32, word string, s *scratch) ([]int32, error)
	// bar removes all that leads from plain text to the ids.
	bar(ids map[int32]bool)
	clone() subwords
}

// readModel reads a model's settings and its vocabulary, the ids by spelling.
func readModel(model object) (subwords, map[string]int64, error) {
	kind := "BPE" // old files have no type
	if err := model.get("type", &kind); err != nil {
		return nil, nil, err
	}
	var m subwords
	var err error
	switch kind {
	case "BPE":
		m, err = readBPE(model)
	case "WordPiece":
		m, err = readWordPiece(model)
	case "Unigram":
		return readUnigram(model)
	default:
		err = fmt.Errorf("type: %.40q, want BPE, WordPiece or Unigram", kind)
	}
	if err != nil {
		return nil, nil, err
	}
	vocab, err := readVocab(model)
	return m, vocab, err
}

// readBPE reads the settings of a BPE model, but not its vocabulary and merges.
func readBPE(model object) (*bpe, error) {
	b := newBPE()
	var prefix, unknown string
	var dropout float64
	if err := model.read(map[string]any{
		"continuing_subword_prefix": &prefix, "end_of_word_suffix": &b.suffix,
		"dropout":   &dropout,
		"unk_token": &unknown, "fuse_unk": &b.fuse, "byte_fallback": &b.falls, "ignore_merges": &b.ignore,
	}, "vocab", "merges"); err != nil {
		return nil, err
	}
	b.unknownText = unknown
	switch {
	case prefix != "":
		return nil, fmt.Errorf("continuing_subword_prefix: %.40q, want null", prefix)
	case dropout != 0:
		return nil, fmt.Errorf("dropout: %g, want null", dropout)
	}
	return b, nil
}

func (b *bpe) learn(model object, vocab map[string]int64, bytes bool) error {
	if err := b.setVocab(vocab, bytes); err != nil {
		return fmt.Errorf("model.%w", err)
	}
	return b.readMerges(model["merges"], vocab)
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
	b.fallback = byteTokens(vocab, b.falls)
	if b.ignore {
		b.whole = make(map[string]int32, len(vocab))
	}
	if !bytes {
		b.runes = make(map[rune]int32)
	}
	if err := b.setLast(vocab, bytes); err != nil {
		return err
	}
	for text, id := range vocab {
		word, spelled := text, true
		if bytes {
			word, spelled = unspell(text)
		}
		runes := []rune(text)
		if len(runes) == 1 {
			if !bytes {
				b.runes[runes[0]] = int32(id)
			} else if c, ok := alphabet[runes[0]]; ok {
				b.bytes[c] = int32(id)
			}
		}
		if b.ignore && spelled {
			b.whole[word] = int32(id)
		}
	}
	return nil
}

// byteTokens returns the id of <0x00> ... <0xFF>, to which characters without a token fall back if
// falls is set; -1 for none.
func byteTokens(vocab map[string]int64, falls bool) (ids [256]int32) {
	for c := range ids {
		ids[c] = -1
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", c)]; ok && falls {
			ids[c] = int32(id)
		}
	}
	return ids
}

// setLast records the tokens from which the last byte of a word starts.
func (b *bpe) setLast(vocab map[string]int64, bytes bool) error {
	if b.suffix == "" {
		return nil
	}
	b.last = new([256]int32)
	found := false
	for c, letter := range standIn {
		id, ok := vocab[string(letter)+b.suffix]
		if b.last[c] = -1; ok {
			b.last[c], found = int32(id), true
		}
	}
	if !bytes || !found {
		return fmt.Errorf("end_of_word_suffix: %.40q, want null where no token is a byte with it", b.suffix)
	}
	return nil
}
