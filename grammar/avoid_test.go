package grammar_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/grammar"
)

// A text is avoided if a match of one of the expressions takes a byte of it, as all substrings of
// before + text + after say.
func TestAvoid(t *testing.T) {
	for _, list := range [][]string{{"N[^P][ST]"}, {"ab", "b+a"}, {"a.*b"}, {"(ab)*c"}, {"(?i)aB"},
		{"é"}} {
		var whole []*regexp.Regexp
		for _, e := range list {
			whole = append(whole, regexp.MustCompile(`\A(?:`+e+`)\z`))
		}
		texts := rapid.StringOfN(rapid.RuneFrom([]rune("abcNPSTé")), 0, 6, -1)
		rapid.Check(t, func(t *rapid.T) {
			before, text, after := texts.Draw(t, "before"), texts.Draw(t, "text"), texts.Draw(t, "after")
			all, want := before+text+after, true
			for from := range all {
				for to := from + 1; to <= len(all); to++ {
					given := to <= len(before) || from >= len(before)+len(text)
					for _, re := range whole {
						want = want && (given || !re.MatchString(all[from:to]))
					}
				}
			}
			d, err := grammar.Avoid(list, before, after, nil)
			require.NoError(t, err)
			require.Equal(t, want, d.Match(text), "%q in %q[%q]%q", list, before, text, after)
		})
	}
}

func TestAvoidRefuses(t *testing.T) {
	for e, want := range map[string]string{"^M": "is about words, lines or ends", "M$": "is about",
		`\bM`: "is about", "(a|(?m:^)M)": "is about", "a*": "matches the empty text",
		"(": "missing closing", "[^\\x00-\\x{10FFFF}]": "matches nothing"} {
		_, err := grammar.Avoid([]string{e}, "", "", nil)
		require.ErrorContains(t, err, want, e)
	}
}
