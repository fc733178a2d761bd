package tokenizers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const replacement = string(utf8.RuneError)

// fragment is the part of a decoded token that comes from one id. Each id keeps its part through
// all stages, so that a stream can show the text of single ids.
type fragment struct {
	text   string
	owner  int  // index of the id
	fixed  bool // a mask, shown unchanged
	hidden bool // a fixed one that has no text, such as the first token of a sequence
}

// decoderToken is a token in the decoder, from one id or, once fused, from several.
type decoderToken []fragment

// text returns the text of all parts.
func (s decoderToken) text() string {
	var out strings.Builder
	for _, part := range s {
		out.WriteString(part.text)
	}
	return out.String()
}

// decoder is a stage that turns the texts of tokens into text.
type decoder func(tokens []decoderToken) []decoderToken

// readDecoder reads stage s; nil means a decoder that puts a space between tokens.
func readDecoder(s object) (decoder, error) {
	kind, err := s.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		return joinWithSpaces, nil
	case "Sequence":
		return readSequence(s, "decoders", readDecoder, chainStages)
	case "ByteLevel": // its settings are for the other uses of ByteLevel
		return decodeByteLevel, s.allowOnly("add_prefix_space", "trim_offsets", "use_regex")
	case "ByteFallback":
		return decodeByteFallback, s.allowOnly()
	case "Fuse":
		return fuseTokens, s.allowOnly()
	case "Replace":
		replace, err := readReplace(s)
		return eachToken(func(_ bool, text string) string { return replace(text) }), err
	case "Strip":
		return readStripDecoder(s)
	case "WordPiece":
		return readWordPieceDecoder(s)
	case "Metaspace":
		m, err := readMetaspace(s)
		return eachToken(func(first bool, text string) string {
			if first && m.scheme != "never" {
				return strings.ReplaceAll(text, m.mark, "")
			}
			return strings.ReplaceAll(text, m.mark, " ")
		}), err
	}
	return nil, fmt.Errorf("type is %.40q, want ByteLevel, ByteFallback, Fuse, Metaspace, "+
		"Replace, Strip, WordPiece or Sequence", kind)
}

// eachToken changes the text of each token separately; first is true for the first that is shown. A
// text from several ids is then counted as the first one's. Tokens after a text of MaxText bytes
// stay.
func eachToken(change func(first bool, text string) string) decoder {
	return func(tokens []decoderToken) []decoderToken {
		first := true
		size := 0 // of the text so far
		for i, t := range tokens {
			if len(t) > 0 && !t[0].fixed && size <= MaxText {
				tokens[i] = decoderToken{{text: change(first, t.text()), owner: t[0].owner}}
				size += len(tokens[i][0].text)
			}
			first = first && len(t) > 0 && t[0].hidden
		}
		return tokens
	}
}

// readStripDecoder removes up to `start` times a character from the start of every token.
func readStripDecoder(s object) (decoder, error) {
	var content string
	start := 0
	stop := 0
	err := s.readFields(map[string]any{"content": &content, "start": &start, "stop": &stop})
	if err != nil {
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
	return func(tokens []decoderToken) []decoderToken {
		for _, t := range tokens {
			remaining := start
			for i := range t {
				for remaining > 0 && !t[i].fixed && strings.HasPrefix(t[i].text, content) {
					t[i].text = t[i].text[len(content):]
					remaining--
				}
				if t[i].text != "" {
					break
				}
			}
		}
		return tokens
	}, nil
}

// joinWithSpaces puts a space between tokens.
func joinWithSpaces(tokens []decoderToken) []decoderToken {
	for i, t := range tokens {
		if i > 0 && len(t) > 0 {
			t[0].text = " " + t[0].text
		}
	}
	return tokens
}

// fuseTokens makes one token of all, so that later steps see characters that several had.
func fuseTokens(tokens []decoderToken) []decoderToken {
	return []decoderToken{slices.Concat(tokens...)}
}

// decodeByteLevel reads the byte alphabet and fuses all tokens.
func decodeByteLevel(tokens []decoderToken) []decoderToken {
	fused := slices.Concat(tokens...)
	for i := range fused {
		if !fused[i].fixed {
			fused[i].text, _ = decodeAlphabet(fused[i].text)
		}
	}
	return []decoderToken{assignRunes(fused)}
}

// decodeByteFallback joins runs of <0x00> ... <0xFF>: valid UTF-8 becomes its runes, and any other
// run one U+FFFD per byte.
func decodeByteFallback(tokens []decoderToken) []decoderToken {
	var out []decoderToken
	var run decoderToken
	flush := func() {
		if utf8.ValidString(run.text()) {
			if len(run) > 0 {
				out = append(out, assignRunes(run))
			}
			run = nil
			return
		}
		for _, part := range run {
			part.text = replacement
			out = append(out, decoderToken{part})
		}
		run = nil
	}
	for _, t := range tokens {
		if len(t) == 1 && !t[0].fixed {
			if b, ok := parseByteToken(t[0].text); ok {
				run = append(run, fragment{text: string([]byte{b}), owner: t[0].owner})
				continue
			}
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// parseByteToken reads <0xAB> as Rust reads two hexadecimal digits: in any case, or a plus and one
// digit.
func parseByteToken(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(strings.TrimPrefix(text[3:5], "+"), 16, 8)
	return byte(b), err == nil
}

// assignRunes gives each part the runes that begin in its bytes, and U+FFFD for bytes that form
// none (one for each maximal subpart, Unicode 15 section 3.9).
func assignRunes(parts decoderToken) decoderToken {
	var bytes []byte
	end := make([]int, len(parts)) // end of each part's bytes
	for i, part := range parts {
		bytes = append(bytes, part.text...)
		end[i] = len(bytes)
	}
	pos := 0
	for i := range parts {
		var text []byte
		for pos < end[i] {
			r, size := utf8.DecodeRune(bytes[pos:])
			if r == utf8.RuneError && size == 1 {
				size = maximalSubpart(bytes[pos:])
			}
			text = utf8.AppendRune(text, r)
			pos += size
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
