package tokenizers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram divides words into the tokens whose log-probabilities have the largest sum (Kudo 2018,
// "Subword regularization"; tokenizers, models/unigram). A character that has no token becomes the
// tokens of its bytes or, without them, an error or the unknown token.
type unigram struct {
	// entries are those of the file, in its order. texts has their texts, and tokens their ids and
	// scores in the order of texts.
	entries []tokenText
	texts   *trie
	tokens  []unigramToken

	// fallsBack: characters without a token become the tokens of their bytes, fallbackIDs; -1 for
	// bytes without one.
	fallsBack   bool
	fallbackIDs [256]int32

	// unknownScore is the score of a character without a token.
	unknownScore float64

	// unknownID is the file's unknown token, -1 for none. readsUnknown: it stands for each run of
	// characters without a token, unless all of the run's bytes have one.
	unknownID    int32
	readsUnknown bool
}

// tokenText is the text of a token with its log-probability.
type tokenText struct {
	text  string
	score float64
}

// unigramToken is a token without its text. If id is -1, it is never taken.
type unigramToken struct {
	id    int32
	size  int32 // of its text in bytes
	score float64
}

// unknownPenalty is how much less probable than all tokens an unknown character is (tokenizers,
// K_UNK_PENALTY).
const unknownPenalty = 10

// Bounds of a Unigram model: on a token and all tokens in bytes, for memory, and on the tokens in
// which a token ends, for the time of a character.
const (
	maxPiece    = 1024
	maxAllTexts = 1 << 24
	maxSuffixes = 256
)

// readUnigram reads a model whose vocabulary is a list of tokens with scores, by id.
func readUnigram(model object) (*unigram, map[string]int64, error) {
	u := &unigram{unknownID: -1}
	var unknown *int
	var entries []json.RawMessage
	if err := model.readFields(map[string]any{
		"unk_id":        &unknown,
		"byte_fallback": &u.fallsBack,
		"vocab":         &entries,
	}); err != nil {
		return nil, nil, err
	}
	vocab := make(map[string]int64, len(entries))
	lowest := math.Inf(1)
	for i, raw := range entries {
		var entry []json.RawMessage
		p := tokenText{}
		if json.Unmarshal(raw, &entry) != nil || len(entry) != 2 ||
			json.Unmarshal(entry[0], &p.text) != nil || json.Unmarshal(entry[1], &p.score) != nil {
			return nil, nil, fmt.Errorf("vocab[%d]: %.40s, want a token and its score", i, raw)
		}
		first, twice := vocab[p.text]
		switch {
		case twice:
			return nil, nil, fmt.Errorf("vocab[%d]: %.40q, as vocab[%d] is already", i, p.text, first)
		case p.text == "" || len(p.text) > maxPiece:
			return nil, nil, fmt.Errorf("vocab[%d]: token of %d bytes, want 1 to %d", i, len(p.text),
				maxPiece)
		}
		vocab[p.text] = int64(i)
		u.entries = append(u.entries, p)
		lowest = min(lowest, p.score)
	}
	u.unknownScore = lowest - unknownPenalty
	if unknown != nil && *unknown >= 0 && *unknown < len(u.entries) {
		u.unknownID = int32(*unknown)
	}
	return u, vocab, nil
}

// setVocabulary makes the trie of the tokens' texts, within the bounds above.
func (u *unigram) setVocabulary(_ object, vocab map[string]int64, bytes bool) error {
	if bytes {
		return fmt.Errorf("pre_tokenizer.type is \"ByteLevel\" with a Unigram model, want another")
	}
	size := 0
	texts := make([]string, len(u.entries))
	for i, entry := range u.entries {
		texts[i] = entry.text
		size += len(entry.text)
	}
	if size > maxAllTexts {
		return fmt.Errorf("model.vocab: tokens of %d bytes in all, want at most %d", size, maxAllTexts)
	}
	u.texts = newTrie(texts)
	if most, longest := u.texts.mostSuffixes(); most > maxSuffixes {
		return fmt.Errorf("model.vocab: %.40q ends in %d tokens, want at most %d", longest, most,
			maxSuffixes)
	}
	u.tokens = make([]unigramToken, len(u.entries))
	for i, entry := range u.entries {
		u.tokens[u.texts.index(entry.text)] = unigramToken{int32(i),
			int32(len(entry.text)), entry.score}
	}
	u.entries = nil
	u.fallbackIDs = byteTokenIDs(vocab, u.fallsBack)
	return nil
}

// bestPath is the best way to a place in a word: where its last token begins, and the sum of
// scores.
type bestPath struct {
	start int
	id    int32 // of the last token, -1 for an unknown character
	score float64
}

// appendIDs adds the ids of a word (Viterbi's algorithm).
func (u *unigram) appendIDs(ids []int32, word string, s *scratch) ([]int32, error) {
	best := make([]bestPath, len(word)+1)
	for i := range best {
		best[i].start = -1
	}
	node := int32(0)
	for pos := 0; pos < len(word); {
		if err := s.spend(1); err != nil {
			return ids, err
		}
		_, size := utf8.DecodeRuneInString(word[pos:])
		end := pos + size
		for i := pos; i < end; i++ {
			node = u.texts.step(node, word[i])
		}
		b := &best[end]
		characterIsToken := false
		for n := u.texts.longestSuffix(node); n != 0; n = u.texts.nodes[n].withText {
			token := &u.tokens[u.texts.nodes[n].text]
			if token.id < 0 {
				continue
			}
			start := end - int(token.size)
			characterIsToken = characterIsToken || start == pos
			if sum := best[start].score + token.score; b.start < 0 || sum > b.score {
				*b = bestPath{start, token.id, sum}
			}
		}
		sum := best[pos].score + u.unknownScore
		if !characterIsToken && (b.start < 0 || sum > b.score) {
			*b = bestPath{pos, -1, sum}
		}
		pos = end
	}

	// From the end back, so that the ids are reversed.
	start := len(ids)
	for end := len(word); end > 0; end = best[end].start {
		if id := best[end].id; id >= 0 {
			ids = append(ids, id)
			continue
		}

		// A run of unknown characters is one unknown token, as in the library (fuse_unk).
		runStart := best[end].start
		for u.readsUnknown && runStart > 0 && best[runStart].id < 0 {
			runStart = best[runStart].start
		}
		withBytes, ok := u.appendReversedBytes(ids, word[runStart:end])
		switch {
		case ok:
			ids = withBytes
			best[end].start = runStart
		case u.readsUnknown:
			ids = append(ids, u.unknownID)
			best[end].start = runStart
		default:
			r, _ := utf8.DecodeRuneInString(word[runStart:])
			return ids[:start], fmt.Errorf("%q is not in the vocabulary", r)
		}
	}
	slices.Reverse(ids[start:])
	return ids, nil
}

// appendReversedBytes adds the tokens of a text's bytes, from its end back. It reports false if one
// of them has no token.
func (u *unigram) appendReversedBytes(ids []int32, text string) ([]int32, bool) {
	for i := len(text) - 1; i >= 0; i-- {
		id := u.fallbackIDs[text[i]]
		if id < 0 {
			return ids, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

func (u *unigram) readUnknown() int32 {
	u.readsUnknown = u.unknownID >= 0
	return u.unknownID
}

// forbid makes tokens ones that no text becomes.
func (u *unigram) forbid(ids map[int32]bool) {
	for i := range u.tokens {
		if ids[u.tokens[i].id] {
			u.tokens[i].id = -1
		}
	}
	for i, id := range u.fallbackIDs {
		if ids[id] {
			u.fallbackIDs[i] = -1
		}
	}
}

// clone returns a model whose tokens can be forbidden without a change of u. Both have one trie.
func (u *unigram) clone() subwordModel {
	out := *u
	out.tokens = slices.Clone(u.tokens)
	return &out
}
