package pytorch

import (
	"fmt"
	"path/filepath"
	"strings"
)

// fairseqVocabulary returns the vocab.txt of a dict.txt beside the checkpoint: fairseq puts four
// special tokens before its words and the mask after them (fairseq/data/dictionary.py,
// tasks/masked_lm.py). Without a dict.txt there is none.
func fairseqVocabulary(src string, rows int) (map[string][]byte, error) {
	name := filepath.Join(filepath.Dir(src), "dict.txt")
	data, err := readSmall(name)
	if err != nil {
		return nil, fmt.Errorf("%w, want the dictionary beside the checkpoint", err)
	}
	words := []string{"<s>", "<pad>", "</s>", "<unk>"}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		end := strings.LastIndexByte(line, ' ')
		if end < 1 {
			return nil, fmt.Errorf("%s: line %d is %.40q, want a word and its count", name,
				len(words)-3, line)
		}
		words = append(words, line[:end])
	}
	words = append(words, "<mask>")
	if len(words) != rows {
		return nil, fmt.Errorf("%s has %d words, want %d: the head has %d rows, 5 for special tokens",
			name, len(words)-5, rows-5, rows)
	}
	return map[string][]byte{"vocab.txt": []byte(strings.Join(words, "\n") + "\n")}, nil
}
