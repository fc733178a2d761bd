package tokenizers

import "unicode/utf8"

const replacement = string(utf8.RuneError)

// pieces gives each id the runes that start in its bytes.
func pieces(t Tokenizer, ids []int32) []string {
	var bytes []byte
	end := make([]int, len(ids)) // end of each id's bytes
	for i, id := range ids {
		token, ok := t.Token(id)
		if !ok {
			token = replacement
		}
		bytes = append(bytes, token...)
		end[i] = len(bytes)
	}
	out := make([]string, len(ids))
	at := 0
	for i := range ids {
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
		out[i] = string(text)
	}
	return out
}

// maximalSubpart is how many bytes of the ill-formed start of b one U+FFFD stands for: the
// longest start of some rune's encoding, at least one byte.
func maximalSubpart(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
