package tokenizers

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes text before words are cut from it.
type normalizer func(text string) string

// maxContent is the longest text, in bytes, that a Prepend or Replace inserts.
const maxContent = 256

// readNormalizer reads stage s, nested at most [MaxDepth] deep; it returns nil for nil.
func readNormalizer(s object) (normalizer, error) {
	kind, err := s.kind()
	if err != nil || kind == "" {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return readSequence(s, "normalizers", readNormalizer, chainStages)
	case "NFC", "NFD", "NFKC", "NFKD":
		f := normalForm{decomposed: norm.NFD, compose: strings.HasSuffix(kind, "C")}
		if strings.HasPrefix(kind, "NFK") {
			f.decomposed = norm.NFKD
		}
		return f.normalize, s.allowOnly()
	case "Lowercase":
		return Lowercase, s.allowOnly()
	case "StripAccents":
		return dropRunes(unicodeTables()["marks"]), s.allowOnly()
	case "BertNormalizer":
		return readBertNormalizer(s)
	case "Precompiled":
		return readPrecompiled(s)
	case "Strip":
		return readStripNormalizer(s)
	case "Prepend":
		return readPrepend(s)
	case "Replace":
		return readReplace(s)
	}
	return nil, fmt.Errorf("type is %.40q, want NFC, NFD, NFKC, NFKD, Lowercase, Strip, "+
		"StripAccents, Prepend, Replace, BertNormalizer, Precompiled or Sequence", kind)
}

// readStripNormalizer reads a normalizer that takes white space from the ends of a text.
func readStripNormalizer(s object) (normalizer, error) {
	left := true
	right := true
	err := s.readFields(map[string]any{"strip_left": &left, "strip_right": &right})
	return func(text string) string {
		if left {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
		}
		if right {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		return text
	}, err
}

// readPrepend reads a normalizer that puts a text before another that is not empty.
func readPrepend(s object) (normalizer, error) {
	var prefix string
	err := s.readFields(map[string]any{"prepend": &prefix})
	if err == nil && len(prefix) > maxContent {
		err = fmt.Errorf("prepend is %d bytes, want at most %d", len(prefix), maxContent)
	}
	return func(text string) string {
		if text == "" {
			return ""
		}
		return prefix + text
	}, err
}

// readReplace reads a normalizer or decoder that replaces a pattern by a text.
func readReplace(s object) (normalizer, error) {
	var content string
	if err := s.readFields(map[string]any{"content": &content}, "pattern"); err != nil {
		return nil, err
	}
	if len(content) > maxContent {
		return nil, fmt.Errorf("content is %d bytes, want at most %d", len(content), maxContent)
	}
	p, err := readPattern(s["pattern"])
	if err != nil {
		return nil, err
	}
	return func(text string) string {
		if text == "" || len(text) > 2*MaxText { // a longer one is refused
			return text
		}
		start, end := p(text)
		if start < 0 {
			return text
		}
		var out strings.Builder
		for start >= 0 && out.Len() <= MaxText {
			out.WriteString(text[:start])
			out.WriteString(content)
			text = text[end:]
			if text == "" {
				break
			}
			start, end = p(text)
		}
		out.WriteString(text)
		return out.String()
	}, nil
}

// Lowercase converts each rune to lower case separately, by Unicode 16; İ becomes two runes.
func Lowercase(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			out.WriteByte(byte(r))
		case r == 'İ':
			out.WriteString("i̇")
		default:
			if l, ok := newLowerCases()[r]; ok {
				r = l
			} else {
				r = unicode.ToLower(r)
			}
			out.WriteRune(r)
		}
	}
	return out.String()
}
