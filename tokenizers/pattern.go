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

// literalPattern finds a text as it is.
func literalPattern(find string) pattern {
	return func(text string) (int, int) {
		start := strings.Index(text, find)
		return start, start + len(find)
	}
}

// runsOf finds up to limit runes in a class, as the regular expression [class]{1,limit}; 0 means no
// limit.
func runsOf(isInClass func(rune) bool, limit int) pattern {
	return func(text string) (int, int) {
		start := strings.IndexFunc(text, isInClass)
		if start < 0 {
			return -1, -1
		}
		end := start
		for count := 0; end < len(text) && (limit == 0 || count < limit); count++ {
			r, size := decodeRune(text[end:])
			if !isInClass(r) {
				break
			}
			end += size
		}
		return start, end
	}
}

// readPattern reads {"String": text} or {"Regex": expression}.
func readPattern(raw json.RawMessage) (pattern, error) {
	var p object
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, describeError("pattern", err)
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
		return literalPattern(text), nil
	case len(p) != 1 || expression == "":
		return nil, fmt.Errorf(`pattern is %.60s, want {"String": text} or {"Regex": text}`, raw)
	}
	if matcher := compilePattern(expression); matcher != nil {
		return matcher, nil
	}
	return nil, fmt.Errorf(`pattern.Regex is %.100q, want one of small letters, spaces, \p{L}, \p{N}, \s, `+
		`\w and classes of them, with \s+(?!\S)|\s+ at its end at most`, expression)
}

const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// clipPattern is that of CLIP (Radford et al. 2021; openai/CLIP, simple_tokenizer.py) without its
// special tokens, as transformers writes it.
const clipPattern = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`

// trailingBlanks ends the patterns of most models: white space, of which the last character is left
// to the word after it.
const trailingBlanks = `|\s+(?!\S)|\s+`

// upperOrBoth and lowerOrBoth are letters by case in the patterns of Tekken and o200k; what has no
// case is in both.
const (
	upperOrBoth = `\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`
	lowerOrBoth = `\p{Ll}\p{Lm}\p{Lo}\p{M}`
)

// possessiveToGreedy replaces parts of patterns where possessive repetition, which Go's regexp does
// not have, matches as the usual one does, because what follows is not what they repeat.
var possessiveToGreedy = strings.NewReplacer(`[^\r\n\p{L}\p{N}]?+\p{L}`, `[^\r\n\p{L}\p{N}]?\p{L}`,
	` ?[^\s\p{L}\p{N}]++[\r\n]*`, ` ?[^\s\p{L}\p{N}]+[\r\n]*`)

// supportedPattern matches the expressions that mean the same to Go's regexp, once unicode16Classes
// has rewritten them, as to Oniguruma, which the library uses: of some characters and classes, and
// with case ignored only in English endings.
var supportedPattern = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`[ '/a-z0-9|()]`, `\\[rntsw/]`, `\\p\{[LN]\}`, `[*+?]`, `\{[0-9]+(?:,[0-9]*)?\}`, `\(\?:`,
	`\(\?i:['sdmtrevl|()?:\[\]]+\)`, `\[\^?(?:\\[rntsw/]|\\p\{[LN]\}|[ '/a-z0-9]|` +
		regexp.QuoteMeta(upperOrBoth) + `|` + regexp.QuoteMeta(lowerOrBoth) + `)+\]`}, `|`) + `)+$`)

// classNames finds classes, and the names of classes outside of them.
var classNames = regexp.MustCompile(`\[[^\]]*\]|\\p\{[LN]\}|\\[sw]`)

// unicode16Classes replaces the names of classes by those with the characters of Unicode 16.
var unicode16Classes = sync.OnceValue(func() *strings.Replacer {
	ranges := func(name string) string {
		var b strings.Builder
		for _, r := range unicodeTables()[name] {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, r[0], r[1])
		}
		return b.String()
	}
	letters := ranges("letters")
	caseless := ranges("caseless")
	others := strings.Replace(ranges("wordOthers"), `\x{200c}-\x{200d}`, "", 1)
	return strings.NewReplacer(
		`\p{L}`, letters,
		`\p{N}`, ranges("numbers"),
		`\s`, `\pZ\t-\r\x{85}`,
		`\w`, letters+others,
		upperOrBoth, upperOrBoth+ranges("upper")+caseless,
		lowerOrBoth, lowerOrBoth+ranges("lower")+caseless,
	)
})

// compilePattern returns the pattern of a regular expression, nil for one that Go's regexp does not
// read as Oniguruma does, or that matches an empty text.
func compilePattern(expression string) pattern {
	text, endsWithBlanks := strings.CutSuffix(possessiveToGreedy.Replace(expression), trailingBlanks)
	if !supportedPattern.MatchString(text) {
		return nil
	}
	expression = classNames.ReplaceAllStringFunc(text, func(class string) string {
		switch {
		case class == `\w`:
			class = `[\w\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}]` // Oniguruma's, outside of brackets alone
		case class[0] != '[':
			class = "[" + class + "]"
		}
		return unicode16Classes().Replace(class)
	})
	re, err := regexp.Compile(expression)
	if err != nil || re.MatchString("") {
		return nil
	}
	matchLength, err := newMatcher(expression)
	if err != nil {
		return nil
	}
	return func(text string) (start, end int) {
		if n := matchLength(text); n > 0 { // as nearly always: a word follows the last one
			return 0, n
		}
		blank := -1
		if endsWithBlanks {
			blank = strings.IndexFunc(text, unicode.IsSpace)
		}
		if blank != 0 {
			place := re.FindStringIndex(text)
			if place != nil && (blank < 0 || place[0] <= blank) {
				return place[0], place[1]
			}
		}
		if blank < 0 {
			return -1, -1
		}
		return blank, blank + blankLength(text[blank:])
	}
}

// blankLength returns the length of \s+(?!\S)|\s+ at the start of text, which is white space.
func blankLength(text string) int {
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
	for pos := 0; pos < len(text); {
		start, end := p(text[pos:])
		if start < 0 {
			return append(out, span{pos, len(text), false})
		}
		if start > 0 {
			out = append(out, span{pos, pos + start, false})
		}
		out = append(out, span{pos + start, pos + end, true})
		pos += end
	}
	return out
}

// behaviours say what a split does with its matches (tokenizers, SplitDelimiterBehavior): each
// returns the spans that become words.
var behaviours = map[string]func([]span) []span{
	"Isolated": func(s []span) []span { return s },
	"Removed": func(s []span) []span {
		return slices.DeleteFunc(s, func(s span) bool { return s.match })
	},
	"Contiguous": func(s []span) []span {
		return joinSpans(s, func(last, next span) bool { return last.match == next.match })
	},
	"MergedWithPrevious": func(s []span) []span {
		return joinSpans(s, func(last, next span) bool { return next.match && !last.match })
	},
	"MergedWithNext": func(s []span) []span {
		return joinSpans(s, func(last, next span) bool { return last.match && !next.match })
	},
}

// joinSpans joins neighbouring spans where join, called with the last span joined so far and the
// next one, returns true.
func joinSpans(s []span, join func(last, next span) bool) []span {
	out := s[:0]
	for _, next := range s {
		if n := len(out); n > 0 && join(out[n-1], next) {
			out[n-1].end = next.end
			out[n-1].match = next.match
			continue
		}
		out = append(out, next)
	}
	return out
}
