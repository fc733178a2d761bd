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
		return readSequence(s, "normalizers", readNormalizer, inOrder)
	case "NFC", "NFD", "NFKC", "NFKD":
		f := form{decomposed: norm.NFD, compose: strings.HasSuffix(kind, "C")}
		if strings.HasPrefix(kind, "NFK") {
			f.decomposed = norm.NFKD
		}
		return f.normalize, s.only()
	case "Lowercase":
		return Lowercase, s.only()
	case "StripAccents":
		return without(tables()["marks"]), s.only()
	case "BertNormalizer":
		return readBERT(s)
	case "Precompiled":
		return readPrecompiled(s)
	case "Strip":
		return readTrim(s)
	case "Prepend":
		return readPrepend(s)
	case "Replace":
		return readReplace(s)
	}
	return nil, fmt.Errorf("type is %.40q, want NFC, NFD, NFKC, NFKD, Lowercase, Strip, "+
		"StripAccents, Prepend, Replace, BertNormalizer, Precompiled or Sequence", kind)
}

// readTrim reads a normalizer that takes white space from the ends of a text.
func readTrim(s object) (normalizer, error) {
	left, right := true, true
	err := s.read(map[string]any{"strip_left": &left, "strip_right": &right})
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
	var put string
	err := s.read(map[string]any{"prepend": &put})
	if err == nil && len(put) > maxContent {
		err = fmt.Errorf("prepend is %d bytes, want at most %d", len(put), maxContent)
	}
	return func(text string) string {
		if text == "" {
			return ""
		}
		return put + text
	}, err
}

// readReplace reads a normalizer or decoder that replaces a pattern by a text.
func readReplace(s object) (normalizer, error) {
	var content string
	if err := s.read(map[string]any{"content": &content}, "pattern"); err != nil {
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
		start, end := -1, 0
		if text != "" && len(text) <= 2*MaxText { // a longer one is refused
			start, end = p(text)
		}
		if start < 0 {
			return text
		}
		var out strings.Builder
		for start >= 0 && out.Len() <= MaxText {
			out.WriteString(text[:start])
			out.WriteString(content)
			if text = text[end:]; text == "" {
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
			if l, ok := lowers()[r]; ok {
				r = l
			} else {
				r = unicode.ToLower(r)
			}
			out.WriteRune(r)
		}
	}
	return out.String()
}
