package grammar_test

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/grammar"
)

var patterns = flag.Int("patterns", 400, "how many random patterns to compare with other engines")

// What a pattern means where ECMA 262 and RE2 or Python differ. Node's RegExp with the flag u says
// the same, but for escapes of punctuation, which it has without the flag.
func TestPatternsAreECMA262(t *testing.T) {
	for _, row := range []struct{ name, pattern, in, out string }{
		{"white space", `^\s$`, " \t\n\v\f\r\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
			"a\u0085\u180e\u200b\u0000"},
		{"other than white space", `^\S$`, "a\u0085\u180e\u200b\u0000\U0001f600",
			" \t\n\v\f\r\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"},
		{"white space in a class", `^[\sx-z]$`, " \u00a0\ufeffxyz", "w-\u200b"},
		{"negated white space in a class", `^[^\s]$`, "a\u0085", " \u00a0\ufeff"},
		{"solid in a class", `^[\S ]$`, "a \u200b", "\u00a0\t"},
		{"neither", `^[^\S ]$`, "\u00a0\t", "a "},
		{"a dot", "^.$", "a\u0000\v\f\u0085\U0001f600", "\n\r\u2028\u2029"},
		{"digits", `^\d$`, "09", "٣a"},
		{"words", `^\w$`, "aZ0_", "é-ſ"},
		{"others than words", `^\W$`, "é-ſ", "aZ0_"},
		{"no POSIX class", `^[[:alpha:]]$`, "", "ab:[]"},
		{"a POSIX class's letters and a bracket", `^[[:alph]\]$`, "", "a[:"},
		{"a bracket in a class", `^[[a]$`, "[a", "]"},
		{"anything", `^[^]$`, "a\n\r\u2028", ""},
		{"nothing", `^[]$`, "", "a]"},
		{"a code point", `^\u{1F600}$`, "\U0001f600", "u{"},
		{"a code point with zeros", `^\u{00041}$`, "A", "4"},
		{"two surrogates", `^\uD83D\uDE00$`, "\U0001f600", "x"},
		{"surrogates in a range", `^[\uD83D\uDE00-\uD83D\uDE0F]$`, "\U0001f600\U0001f60f",
			"\U0001f610"},
		{"half a surrogate", `^[\uD83D\u0041]$`, "A", "\U0001f600"},
		{"hexadecimal", `^[\x41\u0042]$`, "AB", "x4"},
		{"control", `^[\cA\ca\cZ]$`, "\u0001\u001a", "AcZ"},
		{"NUL", `^\0$`, "\u0000", "0"},
		{"a backspace", `^[\b]$`, "\b", "b"},
		{"punctuation", `^[\-\_\/\@\:]$`, "-_/@:", `\`},
		{"a brace and a bracket", `^[{}]]?{?}?$`, "{}", "]"},
		{"a class is no bound", `^[\w-.]$`, "a-.", "/"},
		{"a property", `^\p{Lu}$`, "AÉ", "aé"},
		{"a property by name", `^\p{Script=Greek}\P{Letter}?$`, "α", "a"},
		{"a property in a class", `^[\p{L}\d]$`, "aé0", "-"},
		{"not case", `^(?:k)$`, "k", "K\u212a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, err := grammar.Search(row.pattern, nil)
			require.NoError(t, err)
			for _, r := range row.in {
				require.True(t, d.Match(string(r)), "%q", r)
			}
			for _, r := range row.out {
				require.False(t, d.Match(string(r)), "%q", r)
			}
		})
	}
}

func TestRepeatsOfWhatMayBeEmpty(t *testing.T) {
	for _, e := range []string{"(a?){1000}", "(a*){1000}", "(|a){1000}", "((a|)?){500,1000}"} {
		t.Run(e, func(t *testing.T) {
			d, err := grammar.Regexp(e, grammar.NewBudget(t.Context(), 30000))
			require.NoError(t, err)
			for _, n := range []int{0, 1, 999, 1000} {
				require.True(t, d.Match(strings.Repeat("a", n)), n)
			}
			require.Equal(t, e == "(a*){1000}", d.Match(strings.Repeat("a", 1001)))
		})
	}
}

// goroot returns the folder of the Go installation.
func goroot(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("there is no go command here")
	}
	return strings.TrimSpace(string(out))
}

// Go's own tests of RE2: what each expression matches as a whole, and whether it is found.
func TestGosTestData(t *testing.T) {
	folder := filepath.Join(goroot(t), "src", "regexp", "testdata")
	for _, name := range []string{"re2-search.txt", "re2-exhaustive.txt.bz2"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(folder, name))
			if os.IsNotExist(err) {
				t.Skip("this installation of Go is without its test data")
			}
			require.NoError(t, err)
			defer f.Close()
			var in io.Reader = f
			if strings.HasSuffix(name, ".bz2") { // 59 MB
				in = io.LimitReader(bzip2.NewReader(in), int64(*patterns)<<13)
			}
			tried := 0
			eachExpression(t, in, func(e string, texts, results []string) {
				whole, err := grammar.Regexp("(?:"+e+")", nil)
				if err != nil && strings.Contains(err.Error(), "matches nothing") {
					whole, err = grammar.Choices(nil, nil)
				}
				if err != nil {
					require.Contains(t, err.Error(), "words or lines", e)
					return
				}
				tried++
				some, err := grammar.Search(e, nil)
				if flagged(e) {
					some, err = nil, nil
				}
				require.NoError(t, err, e)
				for i, text := range texts {
					of := strings.Split(results[i], ";")
					require.Len(t, of, 4)
					require.Equal(t, of[0] != "-", whole.Match(text), "all of %q is %q", text, e)
					if some != nil && !(strings.Contains(text, "\r") && strings.Contains(e, ".")) {
						require.Equal(t, of[1] != "-", some.Match(text), "%q has %q", text, e)
					}
				}
			})
			t.Logf("%d expressions", tried)
			require.Greater(t, tried, 100)
		})
	}
}

// flagged reports whether an expression is in RE2's syntax alone, or means something else in it.
func flagged(e string) bool {
	for _, part := range []string{"(?i", "(?s", "(?P", "(?-", "(?U", `\A`, `\z`, `\Q`, `\C`, `\pN`,
		`\a`, `\x{`,
		"[[:", `\s`, `\S`, `^*`, `\p{^`, `\PN`, `\0`, `\1`, `\6`, "[]", "[^]"} {
		if strings.Contains(e, part) {
			return true
		}
	}
	return false
}

// eachExpression calls f for expressions of a file in the format of RE2's tests, with its texts in
// UTF-8 and their results.
func eachExpression(t *testing.T, in io.Reader, f func(e string, texts, results []string)) {
	var texts, kept, results []string
	list, expression := false, ""
	ended := func() {
		if expression != "" {
			if _, err := syntax.Parse(expression, syntax.Perl); err == nil {
				f(expression, kept, results)
			}
		}
		expression, kept, results = "", nil, nil
	}
	at := 0
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "strings":
			ended()
			texts, list = nil, true
		case line == "regexps":
			list = false
		case strings.HasPrefix(line, `"`):
			text, err := strconv.Unquote(line)
			require.NoError(t, err)
			if list {
				texts = append(texts, text)
				continue
			}
			ended()
			expression, at = text, 0
		case line != "" && (line[0] == '-' || line[0] >= '0' && line[0] <= '9'):
			if text := texts[at]; strings.ToValidUTF8(text, "") == text {
				kept, results = append(kept, text), append(results, line)
			}
			at++
		}
	}
	ended()
	require.NoError(t, lines.Err())
}

// What has one meaning has two spellings, in ECMA 262 and in RE2; atoms are for anywhere, members
// for classes.
var atoms, members = [][2]string{
	{".", `[^\n\r\x{2028}\x{2029}]`}, {"[^]", "(?s:.)"}, {"[]", `[^\x00-\x{10ffff}]`},
	{`\s`, "[" + white + "]"}, {`\S`, "[^" + white + "]"}, {`\d`, "[0-9]"}, {`\D`, "[^0-9]"},
	{`\w`, "[0-9A-Za-z_]"}, {`\W`, "[^0-9A-Za-z_]"}, {`\v`, `\x0b`}, {`\u00e9`, "é"}, {`\cJ`, `\n`},
	{`\u{1F600}`, "\U0001f600"}, {`\uD83D\uDE00`, "\U0001f600"}, {`\0(?:)`, `\x00`},
	{`\/`, "/"}, {`\$`, `\$`},
}, [][2]string{
	{`\s`, white}, {`\w`, "0-9A-Za-z_"}, {"[", `\[`}, {`\u2028`, `\x{2028}`}, {`\-`, `\-`},
	{"é-ÿ", "é-ÿ"}, {"0-9", "0-9"}, {`\^`, `\^`}, {`\b`, `\x08`}, {"\U0001f600", "\U0001f600"},
	{".", `\.`},
	{"a", "a"}, {`\uD83D\uDE00-\u{1f60f}`, `\x{1f600}-\x{1f60f}`},
	{`\D`, `\x00-/:-\x{10ffff}`},
}

const white = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`

// randomPattern returns a pattern in ECMA 262's syntax and in RE2's.
func randomPattern(r *rand.Rand, depth int) (ecma, re2 string) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	if depth == 0 || r.IntN(3) == 0 {
		switch r.IntN(6) {
		case 0:
			ecma = pick("^", "$", "", "|", "()")
			return ecma, ecma
		case 1:
			atom := atoms[r.IntN(len(atoms))]
			return atom[0], atom[1]
		case 2, 3:
			ecma = pick("[", "[^")
			re2 = ecma
			for range 1 + r.IntN(3) {
				m := members[r.IntN(len(members))]
				ecma, re2 = ecma+m[0], re2+m[1]
			}
			return ecma + "]", re2 + "]"
		}
		ecma = pick("a", "b", "c", "ab", "é", "0", " ", "-")
		return ecma, ecma
	}
	ecma, re2 = randomPattern(r, depth-1)
	switch r.IntN(5) {
	case 0:
		open := pick("(", "(?:")
		return open + ecma + ")", open + re2 + ")"
	case 1:
		count := pick("*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{2,}", "{0}")
		return "(?:" + ecma + ")" + count, "(?:" + re2 + ")" + count
	}
	e, f := randomPattern(r, depth-1)
	between := pick("", "", "|")
	return ecma + between + e, re2 + between + f
}

// judged is a pattern with texts, and whether each has a match.
type judged struct {
	Pattern string
	Texts   []string
	Match   []bool
}

// requireNode compares with node's engine where there is one.
func requireNode(t *testing.T, all []judged) {
	node, err := exec.LookPath("node")
	if err != nil {
		return
	}
	data, err := json.Marshal(all)
	require.NoError(t, err)
	cmd := exec.Command(node, "-e", `
		for (const p of JSON.parse(require("fs").readFileSync(0))) {
			const engine = new RegExp(p.Pattern, "u")
			p.Texts.forEach((text, i) => {
				const found = engine.test(text)
				if (found != p.Match[i]) console.log(JSON.stringify([p.Pattern, text, found]))
			})
		}`)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out), "patterns, texts and what node says")
}

// Random patterns match the texts that Go's engine finds them in when they are written for RE2 and,
// where there is one, those that node's engine for ECMA 262 finds them in as they are.
func TestRandomPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abcéü09 -/:[^.\b\n\r\t\v\u0000\u00a0\u2028\ufeff\U0001f600")
	matched, compared := 0, 0
	var all []judged
	for range *patterns {
		pattern, inRE2 := randomPattern(r, 4)
		engine := regexp.MustCompile(inRE2)
		d, err := grammar.Search(pattern, nil)
		require.NoError(t, err, pattern)
		one := judged{Pattern: pattern}
		texts := []string{""}
		for range 25 {
			text := ""
			for range r.IntN(5) {
				text += string(letters[r.IntN(len(letters))])
			}
			texts = append(texts, text)
		}
		for _, text := range texts {
			want := engine.MatchString(text)
			require.Equal(t, want, d.Match(text), "%q in %q", pattern, text)
			one.Texts, one.Match = append(one.Texts, text), append(one.Match, want)
			compared++
			if want {
				matched++
			}
		}
		all = append(all, one)
	}
	requireNode(t, all)
	t.Logf("%d texts, %d of which match", compared, matched)
	require.Greater(t, compared, 10**patterns)
}
