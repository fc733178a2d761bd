package grammar_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/grammar"
)

var expressions = []string{
	"", "a", "abc|abd", "[a-c]*b", "(ab|ba){2,3}", "^a+$", "[^a]b?", ".", "a$|^b", "x*",
	"^^a$$", "^(^a$|^b$)$", "(a|^)(b|$)", "a(^b|$)|^$|^$^", "(^|c)(a?){0,3}($|c)", "(a?|b*|(c|)){3,5}",
	`\d{3}-\d{4}`, "[à-ÿ]+", "[^ -~]", "(a|b|ab)*c", "^$", "(^a|b)c", "[a-zA-Z_][a-z0-9_]{0,3}",
}

// word draws texts that the expressions' letters make likely to match.
var word = rapid.StringOfN(rapid.RuneFrom([]rune("abcxyes012-é€𝄞\n \"")), 0, 9, -1)

func TestRegexpIsGos(t *testing.T) {
	for _, e := range expressions {
		whole, err := grammar.Regexp(e, nil)
		require.NoError(t, err, e)
		part, err := grammar.Search(e, nil)
		require.NoError(t, err, e)
		full, some := regexp.MustCompile(`\A(?:`+e+`)\z`), regexp.MustCompile(e)
		rapid.Check(t, func(t *rapid.T) {
			text := word.Draw(t, "text")
			require.Equal(t, full.MatchString(text), whole.Match(text), "%s in %q", e, text)
			require.Equal(t, some.MatchString(text), part.Match(text), "%s in %q", e, text)
		})
	}
}

func TestProducts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := rapid.SampledFrom(expressions)
		a, err := grammar.Search(pick.Draw(t, "a"), nil)
		require.NoError(t, err)
		b, err := grammar.Search(pick.Draw(t, "b"), nil)
		require.NoError(t, err)
		both, err := grammar.Intersect(a, b, nil)
		require.NoError(t, err)
		minus, err := grammar.Subtract(a, b, nil)
		require.NoError(t, err)
		text := word.Draw(t, "text")
		require.Equal(t, a.Match(text) && b.Match(text), both.Match(text))
		require.Equal(t, a.Match(text) && !b.Match(text), minus.Match(text))
	})
}

func TestMinimalIsSmallest(t *testing.T) {
	for e, states := range map[string]int{"a": 2, "a*": 1, "abc|abd|ebc|ebd": 4, "(a|b)*abb": 4,
		"a{3}": 4, "[a-c]x|dx": 3} {
		d, err := grammar.Regexp(e, nil)
		require.NoError(t, err)
		require.Equal(t, states, d.States(), e)
	}
}

func TestRefused(t *testing.T) {
	for _, e := range []string{"(", `a\b`, "(?=a)", `(a)\1`, "(?m)^a"} {
		_, err := grammar.Regexp(e, nil)
		require.ErrorContains(t, err, "regex is", e)
	}
	for _, e := range []string{"(", ")", "[", "a**", "*", `\b`, `\B`, "(?=a)", "(?!a)", "(?<=a)",
		"(?<!a)",
		`(a)\1`, `(?<n>a)\k<n>`, "(?i)a", "(?P<n>a)", `\a`, `\z`, `\Q`, `\`, `\x4`, `\u12`, `\u{110000}`,
		`\u{}`, `\c1`, `\01`, `\pL`, `\p{Nothing}`, "[b-a]", `[a-\s]`, `[\0-\S]`, `[\s-a`} {
		_, err := grammar.Search(e, nil)
		require.ErrorContains(t, err, "regex is", e)
	}
	_, err := grammar.Regexp("(a|b)*a(a|b){12}", grammar.NewBudget(t.Context(), 100))
	require.EqualError(t, err, "states is more than 100, want at most 100 for one language")
}
