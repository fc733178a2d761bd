package tokenizers

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// precompiled is SentencePiece's table of replacements: a trie in a double array (Aoe 1989, as in
// Darts-clone) whose values are places of texts.
type precompiled struct {
	units []uint32
	texts []byte // each ends with a 0
}

// readPrecompiled reads the normalizer of models that come from SentencePiece: the number of bytes
// of the trie, its units and the texts, in base64.
func readPrecompiled(s object) (normalizer, error) {
	var encoded string
	if err := s.readFields(map[string]any{"precompiled_charsmap": &encoded}); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	if len(data) == 0 {
		return func(text string) string { return text }, nil
	}
	const word = 4
	size := uint32(0)
	if len(data) >= word {
		size = binary.LittleEndian.Uint32(data)
		data = data[word:]
	}
	if size == 0 || size%word != 0 || uint64(size) > uint64(len(data)) {
		return nil, fmt.Errorf("precompiled_charsmap: trie of %d bytes, want a multiple of %d up to %d",
			size, word, len(data))
	}
	p := precompiled{units: make([]uint32, size/word), texts: data[size:]}
	for i := range p.units {
		p.units[i] = binary.LittleEndian.Uint32(data[i*word:])
	}
	if !utf8.Valid(p.texts) {
		return nil, fmt.Errorf("precompiled_charsmap: the texts are not UTF-8")
	}
	return p.normalize, nil
}

// maxGrapheme is the length from which a cluster of characters is not looked up as a whole.
const maxGrapheme = 6

// maxExpanded is the length from which a text is left as it is: it is refused.
const maxExpanded = 2*MaxText + 1

// normalize replaces the clusters of characters (Unicode's extended grapheme clusters) that the
// table has, or else the characters in them, as SentencePiece's port in tokenizers does.
func (p precompiled) normalize(text string) string {
	var out strings.Builder
	for state := -1; text != "" && out.Len() < maxExpanded; {
		var cluster string
		cluster, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if len(cluster) < maxGrapheme {
			if replaced, ok := p.lookup(cluster); ok {
				out.Write(replaced)
				continue
			}
		}
		for i, r := range cluster {
			if out.Len() >= maxExpanded {
				break
			}
			if replaced, ok := p.lookup(cluster[i : i+utf8.RuneLen(r)]); ok {
				out.Write(replaced)
			} else {
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}

// lookup returns the text for the shortest key that part begins with. A unit of the trie has its
// byte in the lowest bits, a flag for a key that ends there in bit 8, and the distance of its
// children above. Damaged tables may point anywhere, so that each place is checked.
func (p precompiled) lookup(part string) ([]byte, bool) {
	index := childOffset(p.units[0])
	for i := range len(part) {
		index ^= uint32(part[i])
		if part[i] == 0 || index >= uint32(len(p.units)) {
			return nil, false
		}
		unit := p.units[index]
		if unit&(1<<31|0xff) != uint32(part[i]) {
			return nil, false
		}
		index ^= childOffset(unit)
		endsKey := unit>>8&1 == 1
		if endsKey && index < uint32(len(p.units)) {
			place := p.units[index] &^ (1 << 31)
			if place > uint32(len(p.texts)) {
				return nil, false
			}
			text, _, _ := bytes.Cut(p.texts[place:], []byte{0})
			return text, true
		}
	}
	return nil, false
}

// childOffset returns the distance of a unit's children.
func childOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
