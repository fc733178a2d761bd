package tokenizers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// pattern matches the text that a stage splits or replaces.
type pattern struct {
	find  func(text string) (start, end int) // the first match, never empty; start -1: none
	whole words                              // the same, if matches are adjacent to each other
}

// covers returns a pattern whose matches leave nothing between them.
func covers(w words) *pattern {
	return &pattern{func(text string) (int, int) { return 0, w(text) }, w}
}

// literal finds a text as it is.
func literal(find string) pattern {
	return pattern{find: func(text string) (int, int) {
		at := strings.Index(text, find)
		return at, at + len(find)
	}}
}

// runs finds up to `most` runes in a class, as the regular expression [in]{1,most}; 0 means no
// limit.
func runs(in func(rune) bool, most int) pattern {
	return pattern{find: func(text string) (int, int) {
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
	}}
}

// readPattern reads {"String": text} or {"Regex": expression}.
func readPattern(raw json.RawMessage) (none pattern, err error) {
	var p object
	if err := json.Unmarshal(raw, &p); err != nil {
		return none, describe("pattern", err)
	}
	var text, expression string
	if err := p.get("String", &text); err != nil {
		return none, fmt.Errorf("pattern.%w", err)
	}
	if err := p.get("Regex", &expression); err != nil {
		return none, fmt.Errorf("pattern.%w", err)
	}
	switch {
	case len(p) == 1 && text != "":
		return literal(text), nil
	case len(p) != 1 || expression == "":
		return none, fmt.Errorf(`pattern is %.60s, want {"String": text} or {"Regex": text}`, raw)
	}
	if found := compile(expression); found != nil {
		return *found, nil
	}
	return none, fmt.Errorf("pattern.Regex is %.100q, want the pattern of GPT-2, Llama 3, Qwen, "+
		"Ling, Tekken or CLIP, or one class alone", expression)
}

const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// clipPattern is that of CLIP (Radford et al. 2021; openai/CLIP, simple_tokenizer.py) without its
// special tokens, as transformers writes it.
const clipPattern = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`

// compile returns a known pattern by its text, nil for any other. Possessive repetition does not
// change their matches, nor does \s*[\r\n] in place of \s*[\r\n]+, because no white space after the
// last line end contains another.
func compile(expression string) *pattern {
	switch expression {
	case gpt2Pattern, `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:
		return covers(gpt2Words)
	case clipPattern:
		return &pattern{find: clipWords}
	case `\p{L}+`:
		return new(runs(ofClass(letter), 0))
	case `\p{L}`:
		return new(runs(ofClass(letter), 1))
	case ` {2,}`:
		return &pattern{find: func(text string) (int, int) {
			start := strings.Index(text, "  ")
			if start < 0 {
				return -1, -1
			}
			return start, len(text) - len(strings.TrimLeft(text[start:], " "))
		}}
	case `\s+`:
		return new(runs(ofClass(space), 0))
	case `\s`:
		return new(runs(ofClass(space), 1))
	}
	if n, ok := digitRun(expression); ok {
		return new(runs(ofClass(number), n))
	}
	if rest, ok := strings.CutPrefix(expression, tekkenWords); ok {
		run, ok := strings.CutSuffix(rest, tekkenRest)
		if n, known := digitRun(run); ok && known && n > 0 {
			return covers(tekken(n))
		}
		return nil
	}
	text := strings.NewReplacer("?+", "?", "++", "+").Replace(expression)
	after, ok := "", false
	for _, start := range [...]string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|`, `'(?i:[sdmt]|ll|ve|re)|`, `(?i:'(?:[sdmt]|ll|ve|re))|`,
	} {
		if after, ok = strings.CutPrefix(text, start); ok {
			break
		}
	}
	if !ok {
		return nil
	}
	if after, ok = strings.CutPrefix(after, `[^\r\n\p{L}\p{N}]?\p{L}+|`); !ok {
		return nil
	}
	run, after, ok := strings.Cut(after, "|")
	digits, known := digitRun(run)
	if !ok || !known || digits == 0 {
		return nil
	}
	switch after {
	case ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, ` ` +
		`?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:
		return covers(chatWords(digits))
	}
	return nil
}

// digitRun reads \p{N}, \p{N}+, \p{N}{n} with n 1, and \p{N}{1,n} with n up to 9, and returns the
// most digits of a match, 0 for no limit.
func digitRun(expression string) (most int, ok bool) {
	rest, ok := strings.CutPrefix(expression, `\p{N}`)
	switch {
	case !ok:
		return 0, false
	case rest == "", rest == "{1}":
		return 1, true
	case rest == "+":
		return 0, true
	case len(rest) == 5 && strings.HasPrefix(rest, "{1,") && rest[4] == '}' && rest[3] >= '1' &&
		rest[3] <= '9':
		return int(rest[3] - '0'), true
	}
	return 0, false
}

func ofClass(c class) func(rune) bool { return func(r rune) bool { return classOf(r) == c } }

// span is a range of text: a match, or the text between matches.
type span struct {
	start, end int
	match      bool
}

// spans divides text into matches of p and the text between them.
func spans(text string, p pattern) []span {
	var out []span
	for at := 0; at < len(text); {
		start, end := p.find(text[at:])
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
		kept := s[:0]
		for _, one := range s {
			if !one.match {
				kept = append(kept, one)
			}
		}
		return kept
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
