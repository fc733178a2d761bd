package tokenizers

import "fmt"

// subwordModel divides words into tokens.
type subwordModel interface {
	// setVocabulary reads what the file says about the vocabulary, whose ids have been checked. bytes
	// says that words are in the byte alphabet.
	setVocabulary(model object, vocab map[string]int64, bytes bool) error

	// appendIDs adds the ids of a word.
	appendIDs(ids []int32, word string, s *scratch) ([]int32, error)

	// forbid removes all that leads from plain text to the ids.
	forbid(ids map[int32]bool)

	// clone returns a copy that can be changed.
	clone() subwordModel

	// readUnknown makes the model take the unknown token for what has no token, and returns its id,
	// or -1 if the file has none.
	readUnknown() int32
}

// readModel reads a model's settings and its vocabulary, the ids by text.
func readModel(model object) (subwordModel, map[string]int64, error) {
	kind := "BPE" // old files have no type
	if err := model.get("type", &kind); err != nil {
		return nil, nil, err
	}
	var m subwordModel
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
	var prefix string
	var dropout float64
	err := model.readFields(map[string]any{
		"continuing_subword_prefix": &prefix,
		"end_of_word_suffix":        &b.endSuffix,
		"dropout":                   &dropout,
		"unk_token":                 &b.unknownText,
		"fuse_unk":                  &b.fusesUnknown,
		"byte_fallback":             &b.fallsBack,
		"ignore_merges":             &b.ignoresMerges,
	}, "vocab", "merges")
	if err != nil {
		return nil, err
	}
	switch {
	case prefix != "":
		return nil, fmt.Errorf("continuing_subword_prefix: %.40q, want null", prefix)
	case dropout != 0:
		return nil, fmt.Errorf("dropout: %g, want null", dropout)
	}
	return b, nil
}

// setVocabulary sets the ids of symbols, which are bytes or characters, and reads the merges.
func (b *bpe) setVocabulary(model object, vocab map[string]int64, bytes bool) error {
	if err := b.setSymbols(vocab, bytes); err != nil {
		return fmt.Errorf("model.%w", err)
	}
	return b.readMerges(model["merges"], vocab)
}

// setSymbols records the tokens that a word starts from: one for each byte of the alphabet if words
// are in it, otherwise one for each rune.
func (b *bpe) setSymbols(vocab map[string]int64, bytes bool) error {
	if b.unknownText != "" {
		id, ok := vocab[b.unknownText]
		if !ok {
			return fmt.Errorf("unk_token: %.40q is not in model.vocab", b.unknownText)
		}
		b.unknownID = int32(id)
	}
	b.fallbackIDs = byteTokenIDs(vocab, b.fallsBack)
	if b.ignoresMerges {
		b.wholeWords = make(map[string]int32, len(vocab))
	}
	if !bytes {
		b.runeIDs = make(map[rune]int32)
	}
	if err := b.setLastBytes(vocab, bytes); err != nil {
		return err
	}
	for text, id := range vocab {
		word := text
		isWord := true
		if bytes {
			word, isWord = decodeAlphabet(text)
		}
		runes := []rune(text)
		if len(runes) == 1 {
			if !bytes {
				b.runeIDs[runes[0]] = int32(id)
			} else if c, ok := byteAlphabet[runes[0]]; ok {
				b.byteIDs[c] = int32(id)
			}
		}
		if b.ignoresMerges && isWord {
			b.wholeWords[word] = int32(id)
		}
	}
	return nil
}

// byteTokenIDs returns the ids of <0x00> ... <0xFF>, to which characters without a token fall back
// if fallsBack is set; -1 for none.
func byteTokenIDs(vocab map[string]int64, fallsBack bool) (ids [256]int32) {
	for c := range ids {
		ids[c] = -1
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", c)]; ok && fallsBack {
			ids[c] = int32(id)
		}
	}
	return ids
}

// setLastBytes records the tokens from which the last byte of a word starts.
func (b *bpe) setLastBytes(vocab map[string]int64, bytes bool) error {
	if b.endSuffix == "" {
		return nil
	}
	b.lastByteIDs = new([256]int32)
	found := false
	for c, letter := range alphabetRunes {
		id, ok := vocab[string(letter)+b.endSuffix]
		b.lastByteIDs[c] = -1
		if ok {
			b.lastByteIDs[c] = int32(id)
			found = true
		}
	}
	if !bytes || !found {
		return fmt.Errorf("end_of_word_suffix: %.40q, want null where no token is a byte with it",
			b.endSuffix)
	}
	return nil
}
