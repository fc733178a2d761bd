package omnivoice

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tags are sounds that a text may have in brackets, such as [laughter].
var Tags = strings.Fields("laughter sigh confirmation-en question-en question-ah question-oh " +
	"question-ei question-yi surprise-ah surprise-oh surprise-wa surprise-yo dissatisfaction-hnn")

// tagPattern matches a tag with its brackets.
var tagPattern = regexp.MustCompile(`\[(?:` + strings.Join(Tags, "|") + `)\]`)

// isHan reports whether a character is one that the model's rules take for Chinese.
func isHan(c rune) bool { return c >= 0x4e00 && c <= 0x9fff }

// hasHan reports whether a text has Chinese characters.
func hasHan(text string) bool { return strings.ContainsFunc(text, isHan) }

// isSpace reports whether Python's str.strip and \s take a character for white space.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

// trimSpace is Python's str.strip.
func trimSpace(text string) string { return strings.TrimFunc(text, isSpace) }

// CleanText returns the spoken text, after voiceText, the words of a voice, if there are any:
// without line ends, with half-width parentheses, single blanks, and none beside Chinese
// characters.
func CleanText(text, voiceText string) string {
	text = trimSpace(text)
	if voiceText != "" {
		text = trimSpace(voiceText) + " " + text
	}
	var b strings.Builder
	blank := false // the last character is a blank or a tab
	for _, c := range text {
		switch c {
		case '\r', '\n':
			continue
		case '（':
			c = '('
		case '）':
			c = ')'
		}
		if c == ' ' || c == '\t' {
			if !blank {
				b.WriteByte(' ')
			}
			blank = true
			continue
		}
		blank = false
		b.WriteRune(c)
	}
	return removeHanBlanks(b.String())
}

// removeHanBlanks removes runs of white space beside Chinese characters.
func removeHanBlanks(text string) string {
	var b strings.Builder
	for text != "" {
		end := strings.IndexFunc(text, isSpace) // of the text before the next white space
		if end < 0 {
			end = len(text)
		}
		b.WriteString(text[:end])
		last, _ := utf8.DecodeLastRuneInString(text[:end])
		unread := strings.TrimLeftFunc(text[end:], isSpace)
		next, _ := utf8.DecodeRuneInString(unread)
		if !isHan(last) && !isHan(next) {
			b.WriteString(text[end : len(text)-len(unread)])
		}
		text = unread
	}
	return b.String()
}

// splitTags cuts a text at its tags, which become pieces of their own.
func splitTags(text string) (pieces []string) {
	start := 0 // of the text after the last tag
	for _, span := range append(tagPattern.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		for _, piece := range []string{text[start:span[0]], text[span[0]:span[1]]} {
			if piece != "" {
				pieces = append(pieces, piece)
			}
		}
		start = span[1]
	}
	return pieces
}

// AddFullStop returns the words of a voice with a full stop, unless they end in punctuation.
func AddFullStop(text string) string {
	text = trimSpace(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case text == "" || strings.ContainsRune(";:,.!?…)]}\"'“”‘’；：，。！？、）】", last):
		return text
	case hasHan(text):
		return text + "。"
	}
	return text + "."
}
