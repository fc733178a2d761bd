package tokenizers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// unigram divides words into the tokens whose log-probabilities have the largest sum (Kudo 2018,
// "Subword regularization"; tokenizers, models/unigram). A character that has no token becomes the
// tokens of its bytes or, without them, an error or the unknown token.
type unigram struct {
	pieces sortedTexts

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

// tokenText is the text of a token with its id, and its log-probability where there are any.
type tokenText struct {
	text  string
	id    int32
	score float64
}

// sortedTexts are tokens sorted by their texts, which differ.
type sortedTexts []tokenText

// sortByText sorts tokens; among those of one text the first stays.
func (s sortedTexts) sortByText() sortedTexts {
	slices.SortStableFunc(s, func(a, b tokenText) int { return strings.Compare(a.text, b.text) })
	return slices.CompactFunc(s, func(a, b tokenText) bool { return a.text == b.text })
}

// unknownPenalty is how much less probable than all tokens an unknown character is (tokenizers,
// K_UNK_PENALTY).
const unknownPenalty = 10

// maxPiece is the longest token of a Unigram model in bytes; it bounds the time of a character.
const maxPiece = 1024

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
		p := tokenText{id: int32(i)}
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
		u.pieces = append(u.pieces, p)
		lowest = min(lowest, p.score)
	}
	u.unknownScore = lowest - unknownPenalty
	if unknown != nil && *unknown >= 0 && *unknown < len(u.pieces) {
		u.unknownID = int32(*unknown)
	}
	return u, vocab, nil
}

func (u *unigram) setVocabulary(_ object, vocab map[string]int64, bytes bool) error {
	if bytes {
		return fmt.Errorf("pre_tokenizer.type is \"ByteLevel\" with a Unigram model, want another")
	}
	u.pieces = u.pieces.sortByText()
	u.fallbackIDs = byteTokenIDs(vocab, u.fallsBack)
	return nil
}

// bestPath is the best way to a place in a word: where its last token begins, and the sum of
// scores.
type bestPath struct {
	from  int
	id    int32 // of the last token, -1 for an unknown character
	score float64
}

// appendIDs adds the ids of a word (Viterbi's algorithm).
func (u *unigram) appendIDs(ids []int32, word string, _ *scratch) ([]int32, error) {
	best := make([]bestPath, len(word)+1)
	for i := range best {
		best[i].from = -1
	}
	for pos := 0; pos < len(word); {
		_, size := utf8.DecodeRuneInString(word[pos:])
		offer := func(end int, id int32, score float64) {
			sum := best[pos].score + score
			if b := &best[end]; b.from < 0 || sum > b.score {
				*b = bestPath{pos, id, sum}
			}
		}
		characterIsToken := false
		u.pieces.eachPrefix(word[pos:], func(p tokenText) {
			offer(pos+len(p.text), p.id, p.score)
			characterIsToken = characterIsToken || len(p.text) == size
		})
		if !characterIsToken {
			offer(pos+size, -1, u.unknownScore)
		}
		pos += size
	}

	// From the end back, so that the ids are reversed.
	start := len(ids)
	for end := len(word); end > 0; end = best[end].from {
		if id := best[end].id; id >= 0 {
			ids = append(ids, id)
			continue
		}

		// A run of unknown characters is one unknown token, as in the library (fuse_unk).
		from := best[end].from
		for u.readsUnknown && from > 0 && best[from].id < 0 {
			from = best[from].from
		}
		withBytes, ok := u.appendReversedBytes(ids, word[from:end])
		switch {
		case ok:
			ids = withBytes
			best[end].from = from
		case u.readsUnknown:
			ids = append(ids, u.unknownID)
			best[end].from = from
		default:
			r, _ := utf8.DecodeRuneInString(word[from:])
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

// eachPrefix calls f for every token that text begins with, the shortest first. Each byte halves
// the range of tokens that are left, so that a vocabulary needs no trie.
func (s sortedTexts) eachPrefix(text string, f func(tokenText)) {
	pieces := s
	for i := range len(text) {
		c := text[i]
		low := sort.Search(len(pieces), func(k int) bool { return pieces[k].text[i] >= c })
		pieces = pieces[low:]
		pieces = pieces[:sort.Search(len(pieces), func(k int) bool { return pieces[k].text[i] > c })]
		if len(pieces) > 0 && len(pieces[0].text) == i+1 {
			f(pieces[0])
			pieces = pieces[1:]
		}
		if len(pieces) == 0 {
			return
		}
	}
}

func (u *unigram) forbid(ids map[int32]bool) {
	u.pieces = slices.DeleteFunc(u.pieces, func(p tokenText) bool { return ids[p.id] })
	for i, id := range u.fallbackIDs {
		if ids[id] {
			u.fallbackIDs[i] = -1
		}
	}
}

func (u *unigram) clone() subwordModel {
	out := *u
	out.pieces = slices.Clone(u.pieces)
	return &out
}
