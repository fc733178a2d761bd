package tokenizers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawTexts draws short texts of few letters, so that many begin or end in others.
func drawTexts(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 6, -1), 1, 40,
		rapid.ID[string]).Draw(t, "texts")
}

// A trie finds what a look at each of its texts finds.
func TestTrieFindsEachText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := drawTexts(t)
		trie := newTrie(append(texts, texts[0]))
		require.Len(t, trie.texts, len(texts))
		require.Len(t, trie.nodes, trie.countNodes())
		for i, text := range trie.texts {
			require.EqualValues(t, i, trie.index(text))
		}
		in := rapid.StringOfN(rapid.SampledFrom([]rune("abéc")), 0, 30, -1).Draw(t, "in")
		node := int32(0)
		for i := range len(in) {
			longest := ""
			for _, text := range texts {
				if strings.HasPrefix(in[i:], text) && len(text) > len(longest) {
					longest = text
				}
			}
			found := ""
			if at := trie.longestPrefix(in[i:]); at >= 0 {
				found = trie.texts[at]
			}
			require.Equal(t, longest, found)

			node = trie.step(node, in[i])
			var want, have []string
			for _, text := range texts {
				if strings.HasSuffix(in[:i+1], text) {
					want = append(want, text)
				}
			}
			slices.SortFunc(want, func(a, b string) int { return len(b) - len(a) })
			for n := trie.longestSuffix(node); n != 0; n = trie.nodes[n].withText {
				have = append(have, trie.texts[trie.nodes[n].text])
			}
			require.Equal(t, want, have)
		}

		most := 0
		for _, text := range texts {
			ends := 0
			for _, other := range texts {
				if strings.HasSuffix(text, other) {
					ends++
				}
			}
			most = max(most, ends)
		}
		counted, _ := trie.mostSuffixes()
		require.Equal(t, most, counted)
	})
}

// Unigram's ids have the largest sum of scores of all ways to cut a word, whatever is special.
func TestUnigramTakesTheBestWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := drawTexts(t)
		u := &unigram{unknownID: -1, unknownScore: -1e9} // below all that is drawn
		vocab := map[string]int64{}
		scores := map[string]float64{}
		for i, text := range texts {
			score := -float64(rapid.IntRange(1, 1<<20).Draw(t, "score"))
			u.entries = append(u.entries, tokenText{text, score})
			vocab[text] = int64(i)
			scores[text] = score
		}
		require.NoError(t, u.setVocabulary(nil, vocab, false))
		forbidden := texts[rapid.IntRange(0, len(texts)-1).Draw(t, "forbidden")]
		u = u.clone().(*unigram)
		u.forbid(map[int32]bool{int32(vocab[forbidden]): true})
		delete(scores, forbidden)

		var best func(word string) (score float64, ok bool)
		best = func(word string) (score float64, ok bool) {
			if word == "" {
				return 0, true
			}
			for text, s := range scores {
				rest, begins := strings.CutPrefix(word, text)
				if !begins {
					continue
				}
				sum, can := best(rest)
				if can && (!ok || s+sum > score) {
					score = s + sum
					ok = true
				}
			}
			return score, ok
		}
		word := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 8, -1).Draw(t, "word")
		want, ok := best(word)
		ids, err := u.appendIDs(nil, word, new(scratch))
		if !ok {
			require.ErrorContains(t, err, "is not in the vocabulary")
			return
		}
		require.NoError(t, err)
		sum := 0.0
		joined := ""
		for _, id := range ids {
			sum += scores[texts[id]]
			joined += texts[id]
		}
		require.Equal(t, word, joined)
		require.Equal(t, want, sum, fmt.Sprint(ids))
	})
}
