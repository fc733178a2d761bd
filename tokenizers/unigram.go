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
// "Subword regularization"; tokenizers, models/unigram). A character that has no token is an error
// unless it has tokens for its bytes, never the unknown token.
type unigram struct {
	pieces   spellings
	falls    bool       // characters without a token become the tokens of their bytes
	fallback [256]int32 // -1 if the vocabulary has none
	unknown  float64    // score of a character without a token
}

// spelling is the text of a token with its id, and its log-probability where there are any.
type spelling struct {
	text  string
	id    int32
	score float64
}

// spellings are sorted by their texts, which differ.
type spellings []spelling

// sort sorts spellings; among those of one text the first stays.
func (s spellings) sort() spellings {
	slices.SortStableFunc(s, func(a, b spelling) int { return strings.Compare(a.text, b.text) })
	return slices.CompactFunc(s, func(a, b spelling) bool { return a.text == b.text })
}

// unknownPenalty is how much less probable than all tokens an unknown character is (tokenizers,
// K_UNK_PENALTY).
const unknownPenalty = 10

// maxPiece is the longest token of a Unigram model in bytes; it bounds the time of a character.
const maxPiece = 1024

// readUnigram reads a model whose vocabulary is a list of tokens with scores, by id.
func readUnigram(model object) (*unigram, map[string]int64, error) {
	u := &unigram{}
	var unknown *int
	var entries []json.RawMessage
	if err := model.read(map[string]any{"unk_id": &unknown, "byte_fallback": &u.falls,
		"vocab": &entries}); err != nil {
		return nil, nil, err
	}
	vocab := make(map[string]int64, len(entries))
	lowest := math.Inf(1)
	for i, raw := range entries {
		var entry []json.RawMessage
		p := spelling{id: int32(i)}
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
	u.unknown = lowest - unknownPenalty
	return u, vocab, nil
}

func (u *unigram) learn(_ object, vocab map[string]int64, bytes bool) error {
	if bytes {
		return fmt.Errorf("pre_tokenizer.type is \"ByteLevel\" with a Unigram model, want another")
	}
	u.pieces, u.fallback = u.pieces.sort(), byteTokens(vocab, u.falls)
	return nil
}

// reached is the best way to a place in a word: where its last token begins, and the sum of scores.
type reached struct {
	from  int
	id    int32 // of the last token, -1 for an unknown character
	score float64
}

// append adds the ids of a word (Viterbi's algorithm).
func (u *unigram) append(ids []int32, word string, _ *scratch) ([]int32, error) {
	best := make([]reached, len(word)+1)
	for i := range best {
		best[i].from = -1
	}
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		whole := false // the character is a token
		offer := func(end int, id int32, score float64) {
			if b := &best[end]; b.from < 0 || best[at].score+score > b.score {
				*b = reached{at, id, best[at].score + score}
			}
		}
		u.pieces.prefixes(word[at:], func(p spelling) {
			offer(at+len(p.text), p.id, p.score)
			whole = whole || len(p.text) == size
		})
		if !whole {
			offer(at+size, -1, u.unknown)
		}
		at += size
	}
	start := len(ids)
	for end := len(word); end > 0; end = best[end].from {
		if b := best[end]; b.id >= 0 {
			ids = append(ids, b.id)
			continue
		}
		for i := end - 1; i >= best[end].from; i-- {
			id := u.fallback[word[i]]
			if id < 0 {
				r, _ := utf8.DecodeRuneInString(word[best[end].from:])
				return ids[:start], fmt.Errorf("%q is not in the vocabulary", r)
			}
			ids = append(ids, id)
		}
	}
	slices.Reverse(ids[start:])
	return ids, nil
}

// prefixes calls f for every spelling that text begins with, the shortest first.
func (s spellings) prefixes(text string, f func(spelling)) {
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

func (u *unigram) bar(ids map[int32]bool) {
	u.pieces = slices.DeleteFunc(u.pieces, func(p spelling) bool { return ids[p.id] })
	for i, id := range u.fallback {
		if ids[id] {
			u.fallback[i] = -1
		}
	}
}

func (u *unigram) clone() subwords {
	out := *u
	out.pieces = slices.Clone(u.pieces)
	return &out
}
