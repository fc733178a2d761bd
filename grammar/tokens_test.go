package grammar_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/grammar"
	"unmask/testkit/refusal"
)

// spelled is a vocabulary of the letters and of some longer texts.
var spelled = []string{"a", "b", "c", "x", "ab", "abc", "bc", "aa", "-", "0", "1", "2", "12",
	"-01", "", "é", "\xc3", "\xa9", "€", "\n", " ", "\"", "e", "y", "s", "es", "012", "Y", "E", "S"}

func vocabulary() *grammar.Vocabulary {
	return grammar.NewVocabulary(len(spelled)+1, func(id int32) (string, bool) {
		if int(id) == len(spelled) {
			return "", false // the end
		}
		return spelled[id], true
	})
}

func TestTokensSpellTheTexts(t *testing.T) {
	v, end := vocabulary(), int32(len(spelled))
	for _, e := range expressions {
		d, err := grammar.Regexp(e, nil)
		require.NoError(t, err)
		plain, err := d.Tokens(v, grammar.TokenOptions{})
		require.NoError(t, err)
		ended, err := d.Tokens(v, grammar.TokenOptions{EndTokens: []int32{end}, FillTokens: []int32{end}})
		require.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			ids := rapid.SliceOfN(rapid.Int32Range(0, end-1), 0, 6).Draw(t, "tokens")
			text, s, r := "", plain.Start, ended.Start
			for _, id := range ids {
				if text += spelled[id]; spelled[id] == "" {
					text += "\xff" // a token without bytes is never read
				}
				if s >= 0 {
					s = plain.Next(s, id)
				}
				if r >= 0 {
					r = ended.Next(r, id)
				}
			}
			require.Equal(t, d.Match(text), s >= 0 && plain.Accepts(s), "%s: %q", e, text)
			if s >= 0 { // then the shortest way to the end has its length
				for n := plain.MinTokens[s]; n > 0; n-- {
					before := s
					for _, edge := range plain.Out(before) {
						if plain.MinTokens[edge.To] == n-1 {
							s = edge.To
						}
					}
					require.NotEqual(t, before, -1)
				}
				require.True(t, plain.Accepts(s))
			}
			for range 2 {
				if r >= 0 {
					r = ended.Next(r, end)
				}
			}
			require.Equal(t, d.Match(text), r >= 0 && ended.Accepts(r))
		})
	}
}

func TestTokensOfOneClass(t *testing.T) {
	d, err := grammar.Regexp("[abc]*-[0-9]+", nil)
	require.NoError(t, err)
	m, err := d.Tokens(vocabulary(), grammar.TokenOptions{})
	require.NoError(t, err)
	require.Equal(t, m.Class[0], m.Class[5], "a and abc do the same")
	require.NotEqual(t, m.Class[0], m.Class[8])
	require.Equal(t, int32(-1), m.Class[3], "nothing reads x")
	require.Equal(t, int32(1), m.MinTokens[m.Start], "-01")
	_, err = d.Tokens(vocabulary(), grammar.TokenOptions{Bytes: 16})
	refusal.RequireText(t, err, "token automaton is more than 0 MiB (3 states)")
}
