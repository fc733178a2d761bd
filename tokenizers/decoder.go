package tokenizers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const replacement = string(utf8.RuneError)

// share is the part of a decoded token that comes from one id.
type share struct {
	text   string
	owner  int  // index of the id
	fixed  bool // a mask, shown unchanged
	hidden bool // a fixed one that has no text, such as the first token of a sequence
}

// spelled is a token in the decoder, from one id or, once fused, from several.
type spelled []share

func (s spelled) text() string {
	var out strings.Builder
	for _, part := range s {
		out.WriteString(part.text)
	}
	return out.String()
}

// decoder is a stage that turns spelled tokens into text.
type decoder func(tokens []spelled) []spelled

// readDecoder reads stage s; nil means a decoder that puts a space between tokens.
func readDecoder(s object) (decoder, error) {
	kind, err := s.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		return decodeSpaced, nil
	case "Sequence":
		return readSequence(s, "decoders", readDecoder, inOrder)
	case "ByteLevel": // its settings are for the other uses of ByteLevel
		return decodeBytes, s.only("add_prefix_space", "trim_offsets", "use_regex")
	case "ByteFallback":
		return decodeFallback, s.only()
	case "Fuse":
		return decodeFused, s.only()
	case "Replace":
		replace, err := readReplace(s)
		return each(func(_ bool, text string) string { return replace(text) }), err
	case "Strip":
		return readStrip(s)
	case "WordPiece":
		return readDecodeWordPiece(s)
	case "Metaspace":
		scheme, mark, _, err := metaspace(s)
		return each(func(first bool, text string) string {
			if first && scheme != "never" {
				return strings.ReplaceAll(text, mark, "")
			}
			return strings.ReplaceAll(text, mark, " ")
		}), err
	}
	return nil, fmt.Errorf("type is %.40q, want ByteLevel, ByteFallback, Fuse, Metaspace, "+
		"Replace, Strip, WordPiece or Sequence", kind)
}

// each changes the text of each token separately; first is true for the first that is shown. A text
// from several ids is then counted as the first one's. Tokens after a text of MaxText bytes stay.
func each(change func(first bool, text string) string) decoder {
	return func(tokens []spelled) []spelled {
		first, size := true, 0
		for i, t := range tokens {
			if len(t) > 0 && !t[0].fixed && size <= MaxText {
				tokens[i] = spelled{{text: change(first, t.text()), owner: t[0].owner}}
				size += len(tokens[i][0].text)
			}
			first = first && len(t) > 0 && t[0].hidden
		}
		return tokens
	}
}

// readStrip removes up to `start` times a character from the start of every token.
func readStrip(s object) (decoder, error) {
	var content string
	start, stop := 0, 0
	if err := s.read(map[string]any{"content": &content, "start": &start,
		"stop": &stop}); err != nil {
		return nil, err
	}
	switch {
	case utf8.RuneCountInString(content) != 1:
		return nil, fmt.Errorf("content is %.40q, want one character", content)
	case start < 0:
		return nil, fmt.Errorf("start is %d, want 0 or more", start)
	case stop != 0:
		return nil, fmt.Errorf("stop is %d, want 0", stop)
	}
	return func(tokens []spelled) []spelled {
		for _, t := range tokens {
			left := start
			for i := range t {
				for left > 0 && !t[i].fixed && strings.HasPrefix(t[i].text, content) {
					t[i].text = t[i].text[len(content):]
					left--
				}
				if t[i].text != "" {
					break
				}
			}
		}
		return tokens
	}, nil
}

func decodeSpaced(tokens []spelled) []spelled {
	for i, t := range tokens {
		if i > 0 && len(t) > 0 {
			t[0].text = " " + t[0].text
		}
	}
	return tokens
}

func decodeFused(tokens []spelled) []spelled { return []spelled{slices.Concat(tokens...)} }

// decodeBytes reads the byte alphabet and fuses all tokens.
func decodeBytes(tokens []spelled) []spelled {
	all := slices.Concat(tokens...)
	for i := range all {
		if !all[i].fixed {
			all[i].text, _ = unspell(all[i].text)
		}
	}
	return []spelled{wholeRunes(all)}
}

// decodeFallback joins runs of <0x00> ... <0xFF>: valid UTF-8 becomes its runes, and any other run
// one U+FFFD per byte.
func decodeFallback(tokens []spelled) []spelled {
	var out []spelled
	var run spelled
	flush := func() {
		if utf8.ValidString(run.text()) {
			if len(run) > 0 {
				out = append(out, wholeRunes(run))
			}
			run = nil
			return
		}
		for _, part := range run {
			part.text = replacement
			out = append(out, spelled{part})
		}
		run = nil
	}
	for _, t := range tokens {
		if len(t) == 1 && !t[0].fixed {
			if b, ok := fallbackByte(t[0].text); ok {
				run = append(run, share{text: string([]byte{b}), owner: t[0].owner})
				continue
			}
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// fallbackByte reads <0xAB> as Rust reads two hexadecimal digits: in any case, or a plus and one
// digit.
func fallbackByte(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(strings.TrimPrefix(text[3:5], "+"), 16, 8)
	return byte(b), err == nil
}

// wholeRunes gives each part the runes that begin in its bytes, and U+FFFD for bytes that form none
// (one for each maximal subpart, Unicode 15 section 3.9).
func wholeRunes(parts spelled) spelled {
	var bytes []byte
	end := make([]int, len(parts)) // end of each part's bytes
	for i, part := range parts {
		bytes = append(bytes, part.text...)
		end[i] = len(bytes)
	}
	at := 0
	for i := range parts {
		var text []byte
		for at < end[i] {
			rest := bytes[at:]
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				size = maximalSubpart(rest)
			}
			text = utf8.AppendRune(text, r)
			at += size
		}
		parts[i].text = string(text)
	}
	return parts
}

// maximalSubpart returns the number of bytes at the ill-formed start of b that one U+FFFD replaces:
// the longest beginning of a rune's encoding, at least one byte.
func maximalSubpart(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
