package tokenizers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"unmask/internal/jsonline"
	"unmask/internal/textfile"
)

// Limits of [Parse].
const (
	MaxFile  = 100_000_000 // largest file in bytes
	MaxDepth = 64          // nesting of JSON
	MaxItems = 600_000     // entries of an array or object, and so tokens and merges
	MaxAdded = 4096        // added tokens, of at most 256 bytes each
)

// Parse reads a Hugging Face tokenizer.json with a BPE, WordPiece or Unigram model, and with the
// normalizers, pre-tokenizers, post-processors and decoders of such files. Ids and texts equal
// those of Hugging Face's tokenizers 0.23, but a word without tokens is an error, where WordPiece
// and Unigram have the unknown token ([WithUnknown] takes that). A setting that would give other
// ids is an error that names it. Ids must be 0 ... n-1, each used once, and every merge must join
// two tokens into a third. Encode also finds added tokens that the file does not call special.
// Truncation and padding are left to the caller; [Around] returns what the post-processor adds.
func Parse(data []byte) (Tokenizer, error) {
	v, err := parseTokenizerJSON(data, nil)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return v, nil
}

// parseTokenizerJSON reads a tokenizer.json; config is tokenizer_config.json beside it, or nil.
func parseTokenizerJSON(data []byte, config object) (*vocabulary, error) {
	file, err := readObject(data)
	if err == nil {
		err = applyBertConfig(file, config)
	}
	if err != nil {
		return nil, err
	}
	return buildVocabulary(file)
}

// readObject reads one JSON object within this package's limits.
func readObject(data []byte) (object, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(data), MaxFile)
	}
	if textfile.HasMark(data) {
		return nil, fmt.Errorf("starts with a byte order mark, want plain UTF-8")
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	var file object
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, describeError("file", err)
	}
	return file, nil
}

// checkJSON refuses JSON that is deeper or has more items than any tokenizer's, before it is
// decoded.
func checkJSON(data []byte) error {
	return jsonline.Limits{Depth: MaxDepth, Items: MaxItems}.Check(data)
}

// buildVocabulary makes the tokenizer of a file.
func buildVocabulary(file object) (*vocabulary, error) {
	v := &vocabulary{}
	isSafe, err := applySafe(file)
	if err != nil {
		return nil, err
	}
	if err := v.readStages(file); err != nil {
		return nil, err
	}
	if isSafe {
		v.preTokenizer.addSafeSplit()
	}
	model, err := file.subobject("model")
	if err != nil {
		return nil, err
	}
	var vocab map[string]int64
	v.model, vocab, err = readModel(model)
	if err != nil {
		return nil, fmt.Errorf("model.%w", err)
	}
	if err := model.get("byte_fallback", &v.hasByteTokens); err != nil {
		return nil, fmt.Errorf("model.%w", err)
	}
	var list []addedEntry
	if err := file.get("added_tokens", &list); err != nil {
		return nil, err
	}
	texts, added, err := assignIDs(vocab, list)
	if err != nil {
		return nil, err
	}
	v.setTokens(texts, added)
	if err := v.model.setVocabulary(model, vocab, v.preTokenizer.bytes); err != nil {
		return nil, err
	}
	if err := v.setAdded(added); err != nil {
		return nil, err
	}
	v.model.forbid(v.specialIDs) // the library finds special tokens in any text, also by merges
	return v, nil
}

// readStages reads the stages around the model.
func (v *vocabulary) readStages(file object) error {
	stages := []struct {
		name string
		read func(object) error
	}{
		{"normalizer", v.readNormalizer},
		{"pre_tokenizer", v.preTokenizer.readStage},
		{"post_processor", func(s object) error {
			surrounding, err := readPostProcessor(s)
			v.facts.surrounding = surrounding
			return err
		}},
		{"decoder", v.readDecoder},
	}
	for _, stage := range stages {
		s, err := file.subobject(stage.name)
		if err != nil {
			return err
		}
		if err := stage.read(s); err != nil {
			return fmt.Errorf("%s.%w", stage.name, err)
		}
	}
	return nil
}

// readNormalizer reads the normalizer, and what other parts have to know of it.
func (v *vocabulary) readNormalizer(s object) error {
	normalize, err := readNormalizer(s)
	v.normalize = normalize
	v.mayDropStart = strings.Contains(string(mustMarshal(s)), `"Precompiled"`)
	v.lowercases = hasLowercase(s)
	return err
}

// readDecoder reads the decoder, and whether its tokens are bytes.
func (v *vocabulary) readDecoder(s object) error {
	decode, err := readDecoder(s)
	v.decode = decode
	kind, _ := s.kind() // readDecoder returns its error
	v.byteLevel = kind == "ByteLevel"
	return err
}

// addedEntry is an entry of added_tokens.
type addedEntry struct {
	ID         *int64 `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// readVocab reads the ids of a vocabulary's texts.
func readVocab(model object) (map[string]int64, error) {
	var found map[string]*int64 // nil means null, which is not an id
	if err := model.get("vocab", &found); err != nil {
		return nil, err
	}
	vocab := make(map[string]int64, len(found))
	for text, id := range found {
		vocab[text] = -1 // assignIDs reports it with its text
		if id != nil {
			vocab[text] = *id
		}
	}
	return vocab, nil
}

// countTokens returns the number of tokens: those of the model and the added ones that it lacks. It
// returns an error for an added token without an id, without text, given twice or with another id
// in the model.
func countTokens(vocab map[string]int64, list []addedEntry) (int, error) {
	if len(vocab) == 0 {
		return 0, fmt.Errorf("model.vocab: no tokens")
	}
	if len(list) > MaxAdded {
		return 0, fmt.Errorf("added_tokens: %d entries, want at most %d", len(list), MaxAdded)
	}
	size := len(vocab)
	seen := map[string]bool{}
	for i, a := range list {
		id, inVocab := vocab[a.Content]
		switch {
		case a.ID == nil:
			return 0, fmt.Errorf("added_tokens[%d] %.40q: no id", i, a.Content)
		case a.Content == "" || len(a.Content) > 256:
			return 0, fmt.Errorf("added_tokens[%d]: content of %d bytes, want 1 to 256", i,
				len(a.Content))
		case seen[a.Content]:
			return 0, fmt.Errorf("added_tokens[%d]: %.40q appears twice", i, a.Content)
		case inVocab && id != *a.ID:
			return 0, fmt.Errorf("added_tokens[%d] %.40q: id %d, but %d in model.vocab", i,
				a.Content, *a.ID, id)
		}
		seen[a.Content] = true
		if !inVocab {
			size++
		}
	}
	return size, nil
}

// assignIDs puts every text at its id and checks that the ids are 0 ... n-1. Added tokens that the
// model lacks take the free ids in the order of the list, whatever their own ids, because the
// library does so and models were trained with its ids.
func assignIDs(vocab map[string]int64, list []addedEntry) ([]string, []addedToken, error) {
	size, err := countTokens(vocab, list)
	if err != nil {
		return nil, nil, err
	}
	texts := make([]string, size)
	place := func(where, text string, id int64) error {
		switch {
		case id < 0 || id >= int64(size):
			return fmt.Errorf("%s: id %d of %.40q is outside the vocabulary, %d tokens want ids "+
				"0 to %d", where, id, text, size, size-1)
		case text == "":
			return fmt.Errorf("%s: id %d is an empty token", where, id)
		case texts[id] != "" && texts[id] != text:
			return fmt.Errorf("%s: id %d is given to both %.40q and %.40q", where, id,
				min(text, texts[id]), max(text, texts[id]))
		}
		texts[id] = text
		return nil
	}

	// In the order of ids, so that a file always gives the same error.
	type token struct {
		text string
		id   int64
	}
	tokens := make([]token, 0, len(vocab))
	for text, id := range vocab {
		tokens = append(tokens, token{text, id})
	}
	slices.SortFunc(tokens, func(a, b token) int {
		return cmp.Or(cmp.Compare(a.id, b.id), strings.Compare(a.text, b.text))
	})
	for _, t := range tokens {
		if err := place("model.vocab", t.text, t.id); err != nil {
			return nil, nil, err
		}
	}

	// The ids of added tokens that the model lacks, which these share out anew.
	free := make([]int64, 0, size-len(vocab))
	for _, a := range list {
		if _, inVocab := vocab[a.Content]; !inVocab {
			free = append(free, *a.ID)
		}
	}
	slices.Sort(free)
	var added []addedToken
	for i, a := range list {
		if _, inVocab := vocab[a.Content]; !inVocab {
			*a.ID = free[0]
			free = free[1:]
		}
		if err := place(fmt.Sprintf("added_tokens[%d]", i), a.Content, *a.ID); err != nil {
			return nil, nil, err
		}
		added = append(added, addedToken{
			text:             a.Content,
			id:               int32(*a.ID),
			special:          a.Special,
			singleWord:       a.SingleWord,
			takesSpaceBefore: a.LStrip,
			takesSpaceAfter:  a.RStrip,
			normalized:       a.Normalized,
		})
	}

	return texts, added, nil // each id has a text, all different: there is no gap
}
