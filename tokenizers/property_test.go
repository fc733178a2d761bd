package tokenizers

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slowWord is appendWord without a heap: the earliest merge of all neighbours, leftmost first.
func slowWord(b *bpe, word string) []int32 {
	var ids []int32
	for _, c := range []byte(word) {
		ids = append(ids, b.byteIDs[c])
	}
	for {
		best, at := merge{}, -1
		for i := 1; i < len(ids); i++ {
			if m, ok := b.merges[pair{ids[i-1], ids[i]}]; ok && (at < 0 || m.rank < best.rank) {
				best, at = m, i-1
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(ids[:at:at], best.id), ids[at+2:]...)
	}
}

// Random merges over a few bytes, so that they overlap and chain, equal those of slowWord.
func TestMergesEqualSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBPE()
		size := int32(3)
		for id := range size {
			b.byteIDs['a'+id] = id
		}
		ranks := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "ranks")
		for _, rank := range ranks {
			id := rapid.Int32Range(0, size-1)
			p := pair{id.Draw(t, "left"), id.Draw(t, "right")}
			if _, ok := b.merges[p]; !ok {
				b.merges[p] = merge{rank: rank, id: size}
				size++
			}
		}
		word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 60, -1).Draw(t, "word")
		ids, err := b.appendWord(nil, word, &scratch{})
		require.NoError(t, err)
		require.Equal(t, slowWord(b, word), ids)
	})
}

func TestWordsCoverText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune(" \n\t'sdlvetr1.\u00a0\u0085é")),
			rapid.Rune())).Draw(t, "text")
		for _, expression := range []string{gpt2Pattern, qwenPattern, tekkenPattern} {
			find := compilePattern(expression)
			for rest := text; rest != ""; {
				start, end := find(rest)
				require.True(t, start == 0 && start < end && end <= len(rest))
				rest = rest[end:]
			}
		}
	})
}

// roundTrip checks that decoding returns the text, and that pieces and tokens agree with it.
func roundTrip(t require.TestingT, tok Tokenizer, text string) {
	ids, err := tok.Encode(text)
	if !utf8.ValidString(text) {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, text, tok.Decode(ids))
	require.Equal(t, text, strings.Join(tok.Pieces(ids), ""))
	var raw strings.Builder // id by id: no rune breaks when the whole is put together
	for _, id := range ids {
		token, ok := tok.Token(id)
		require.True(t, ok)
		raw.WriteString(token)
	}
	require.Equal(t, text, raw.String())
}

func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{"", "a", " 'tis\n\n x ", "\x7f\x00", "€😀é", "<|endoftext|>[MASK]",
		"a\xff", strings.Repeat("ab", 99)} {
		f.Add(seed)
	}
	small := parseFile(f, "bytes.json")
	f.Fuzz(func(t *testing.T, text string) {
		roundTrip(t, GPT2(), text)
		roundTrip(t, small, text)
		roundTrip(t, WithMask(small, 316, "▯"), text)
		ids, err := small.EncodeSpecial(text)
		require.Equal(t, utf8.ValidString(text), err == nil)
		if err == nil {
			require.Equal(t, text, small.Decode(ids))
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 1, 2, 255, 128})
	small := parseFile(f, "bytes.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ids []int32
		for _, b := range raw {
			ids = append(ids, int32(b)*2-100) // some below and some beyond the vocabulary
		}
		pieces := small.Pieces(ids)
		require.Len(t, pieces, len(ids))
		text := small.Decode(ids)
		require.True(t, utf8.ValidString(text))
		require.Equal(t, text, strings.Join(pieces, ""))
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		file("", "", ""), file("", `[["a","b"]]`, "[]"), file(`{"a":0,"b":1,"c":-2}`, "", ""),
		file("", `["ab c"]`,
			`[{"id":9,"content":"x"}]`), "{", "[]", "\ufeff{}", "null", `{"model":{"vocab":null}}`,
	} {
		f.Add([]byte(seed))
	}
	data, err := os.ReadFile("testdata/bytes.json")
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err != nil {
			require.Nil(t, tok)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for id := range int32(tok.VocabSize()) {
			token, ok := tok.Token(id)
			require.True(t, ok)
			require.NotEmpty(t, token)
		}
		const text = "abc cab [MASK]"
		if ids, err := tok.EncodeSpecial(text); err == nil {
			require.Equal(t, text, tok.Decode(ids))
		}
	})
}

// An automaton finds what Go's regexp finds at the start of a text, also where loops are empty.
func TestAutomata(t *testing.T) {
	for _, expression := range []string{`'s|'t| ?[a-c]+| ?[0-9]{1,3}|[^\sa-c0-9]+[\r\n]*|\s+`,
		`(?:a*)*b?|(?:a|b*)+c`,
		`a|ab|abc`, `(?:ab?)*c|a`, `(?i:'s|'ll)|\w+`, `[^a]?b|.a`, `é+|[é-ü]{2,3}a`} {
		find, err := newMatcher(expression)
		require.NoError(t, err)
		want := regexp.MustCompile(`^(?:` + expression + `)`)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.SampledFrom([]rune("aabbcc019'sSlL \r\néü\x80"))).Draw(t, "text")
			length := -1
			if at := want.FindStringIndex(text); at != nil {
				length = at[1]
			}
			require.Equal(t, length, find(text), "%s: %q", expression, text)
		})
	}
}

// An automaton with very many states keeps few of them, and finds the same.
func TestAutomataKeepLittle(t *testing.T) {
	prog := `(?:[ab]*a[ab]{14}|b)+c`
	find, err := newMatcher(prog)
	require.NoError(t, err)
	want := regexp.MustCompile(`^` + prog)
	var text strings.Builder
	for i := range 1 << 15 {
		text.WriteByte("ab"[i*i*7/11%2])
	}
	for _, end := range []string{"c", "d"} {
		require.Equal(t, want.MatchString(text.String()+end), find(text.String()+end) >= 0)
	}
}
