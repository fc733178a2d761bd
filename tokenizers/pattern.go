package tokenizers

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// pattern returns where the first match in a text starts and ends, which is never empty; start is
// -1 if there is none.
type pattern func(text string) (start, end int)

// literal finds a text as it is.
func literal(find string) pattern {
	return func(text string) (int, int) {
		at := strings.Index(text, find)
		return at, at + len(find)
	}
}

// runs finds up to `most` runes in a class, as the regular expression [in]{1,most}; 0 means no
// limit.
func runs(in func(rune) bool, most int) pattern {
	return func(text string) (int, int) {
		start := strings.IndexFunc(text, in)
		if start < 0 {
			return -1, -1
		}
		end, count := start, 0
		for end < len(text) && (most == 0 || count < most) {
			r, size := decode(text[end:])
			if !in(r) {
				break
			}
			end, count = end+size, count+1
		}
		return start, end
	}
}

// readPattern reads {"String": text} or {"Regex": expression}.
func readPattern(raw json.RawMessage) (pattern, error) {
	var p object
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, describe("pattern", err)
	}
	var text, expression string
	if err := p.get("String", &text); err != nil {
		return nil, fmt.Errorf("pattern.%w", err)
	}
	if err := p.get("Regex", &expression); err != nil {
		return nil, fmt.Errorf("pattern.%w", err)
	}
	switch {
	case len(p) == 1 && text != "":
		return literal(text), nil
	case len(p) != 1 || expression == "":
		return nil, fmt.Errorf(`pattern is %.60s, want {"String": text} or {"Regex": text}`, raw)
	}
	if found := compile(expression); found != nil {
		return found, nil
	}
	return nil, fmt.Errorf(`pattern.Regex is %.100q, want one of small letters, spaces, \p{L}, \p{N}, \s, `+
		`\w and classes of them, with \s+(?!\S)|\s+ at its end at most`, expression)
}

const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// clipPattern is that of CLIP (Radford et al. 2021; openai/CLIP, simple_tokenizer.py) without its
// special tokens, as transformers writes it.
const clipPattern = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`

// lastBlanks ends the patterns of most models: white space, of which the last character is left to
// the word after it.
const lastBlanks = `|\s+(?!\S)|\s+`

// upperOrBoth and lowerOrBoth are letters by case in the patterns of Tekken and o200k; what has no
// case is in both.
const (
	upperOrBoth = `\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`
	lowerOrBoth = `\p{Ll}\p{Lm}\p{Lo}\p{M}`
)

// greedy are parts of patterns where possessive repetition, which Go's regexp does not have,
// matches as the usual one does, because what follows is not what they repeat.
var greedy = strings.NewReplacer(`[^\r\n\p{L}\p{N}]?+\p{L}`, `[^\r\n\p{L}\p{N}]?\p{L}`,
	` ?[^\s\p{L}\p{N}]++[\r\n]*`, ` ?[^\s\p{L}\p{N}]+[\r\n]*`)

// readable matches the expressions that mean the same to Go's regexp, once newer has rewritten
// them, as to Oniguruma, which the library uses: of some characters and classes, and with case
// ignored only in English endings.
var readable = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`[ '/a-z0-9|()]`, `\\[rntsw/]`, `\\p\{[LN]\}`, `[*+?]`, `\{[0-9]+(?:,[0-9]*)?\}`, `\(\?:`,
	`\(\?i:['sdmtrevl|()?:\[\]]+\)`, `\[\^?(?:\\[rntsw/]|\\p\{[LN]\}|[ '/a-z0-9]|` +
		regexp.QuoteMeta(upperOrBoth) + `|` + regexp.QuoteMeta(lowerOrBoth) + `)+\]`}, `|`) + `)+$`)

// classNames finds classes, and the names of classes outside of them.
var classNames = regexp.MustCompile(`\[[^\]]*\]|\\p\{[LN]\}|\\[sw]`)

// newer replaces the names of classes by those with the characters of Unicode 16.
var newer = sync.OnceValue(func() *strings.Replacer {
	ranges := func(name string) string {
		var b strings.Builder
		for _, r := range tables()[name] {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, r[0], r[1])
		}
		return b.String()
	}
	letters, caseless := ranges("letters"), ranges("caseless")
	others := strings.Replace(ranges("wordOthers"), `\x{200c}-\x{200d}`, "", 1)
	return strings.NewReplacer(`\p{L}`, letters, `\p{N}`, ranges("numbers"), `\s`, `\pZ\t-\r\x{85}`,
		`\w`, letters+others, upperOrBoth, upperOrBoth+ranges("upper")+caseless,
		lowerOrBoth, lowerOrBoth+ranges("lower")+caseless)
})

// compile returns the pattern of a regular expression, nil for one that Go's regexp does not read
// as Oniguruma does, or that matches an empty text.
func compile(expression string) pattern {
	text, ends := strings.CutSuffix(greedy.Replace(expression), lastBlanks)
	if !readable.MatchString(text) {
		return nil
	}
	expression = classNames.ReplaceAllStringFunc(text, func(class string) string {
		switch {
		case class == `\w`:
			class = `[\w\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}]` // Oniguruma's, outside of brackets alone
		case class[0] != '[':
			class = "[" + class + "]"
		}
		return newer().Replace(class)
	})
	re, err := regexp.Compile(expression)
	if err != nil || re.MatchString("") {
		return nil
	}
	first, err := automata(expression)
	if err != nil {
		return nil
	}
	return func(text string) (start, end int) {
		if end = first(text); end > 0 {
			return 0, end
		}
		blank := -1
		if ends {
			blank = strings.IndexFunc(text, unicode.IsSpace)
		}
		if blank != 0 {
			if at := re.FindStringIndex(text); at != nil && (blank < 0 || at[0] <= blank) {
				return at[0], at[1]
			}
		}
		if blank < 0 {
			return -1, -1
		}
		return blank, blank + blanks(text[blank:])
	}
}

// blanks returns the length of \s+(?!\S)|\s+ at the start of text, which is white space.
func blanks(text string) int {
	n := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	if _, last := utf8.DecodeLastRuneInString(text[:n]); n < len(text) && last < n {
		return n - last
	}
	return n
}

// span is a range of text: a match, or the text between matches.
type span struct {
	start, end int
	match      bool
}

// spans divides text into matches of p and the text between them.
func spans(text string, p pattern) []span {
	out := make([]span, 0, len(text)/4+1)
	for at := 0; at < len(text); {
		start, end := p(text[at:])
		if start < 0 {
			return append(out, span{at, len(text), false})
		}
		if start > 0 {
			out = append(out, span{at, at + start, false})
		}
		out = append(out, span{at + start, at + end, true})
		at += end
	}
	return out
}

// behaviours say what a split does with its matches (tokenizers, SplitDelimiterBehavior): each
// returns the spans that become words.
var behaviours = map[string]func([]span) []span{
	"Isolated": func(s []span) []span { return s },
	"Removed": func(s []span) []span {
		return slices.DeleteFunc(s, func(one span) bool { return one.match })
	},
	"Contiguous": func(s []span) []span {
		return fuse(s, func(last, next span) bool { return last.match == next.match })
	},
	"MergedWithPrevious": func(s []span) []span {
		return fuse(s, func(last, next span) bool { return next.match && !last.match })
	},
	"MergedWithNext": func(s []span) []span {
		return fuse(s, func(last, next span) bool { return last.match && !next.match })
	},
}

// fuse joins neighbouring spans; match is called with the last span joined so far.
func fuse(s []span, join func(last, next span) bool) []span {
	out := s[:0]
	for _, one := range s {
		if n := len(out); n > 0 && join(out[n-1], one) {
			out[n-1].end, out[n-1].match = one.end, one.match
			continue
		}
		out = append(out, one)
	}
	return out
}
