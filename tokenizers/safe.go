package tokenizers

import (
	"fmt"
	"regexp"
)

// safePieces are the pieces of SAFE, in which a molecule is a row of fragments (Noutahi et al.
// 2024; safe/tokenizer.py): an atom in brackets, an element, a bond, a ring's number. Merges happen
// within a piece only.
var safePieces = regexp.MustCompile(`\[[^\]]+]|Br?|Cl?|[NOSPFI]|[bcnops]|\(|\)|\.|=|#|-|\+|\\|/|:|~|@` +
	`|\?|>>?|\*|\$|%[0-9]{2}|[0-9]`)

// applySafe rewrites a tokenizer.json of SAFE's to say what its own program does with it, and
// leaves every other file as it is.
//
// The file says something else in four places. custom_pre_tokenizer means that SAFE's pieces are
// used in place of its pre_tokenizer. added_tokens has ids from before training, and the model's
// count. BPEDecoder joins tokens as they are, since no token has its suffix. And its last three
// keys keep Hugging Face's library from reading it at all.
func applySafe(file object) (isSafe bool, err error) {
	if err := file.get("custom_pre_tokenizer", &isSafe); err != nil || !isSafe {
		return false, err
	}
	var kind string
	if err := file.get("tokenizer_type", &kind); err != nil {
		return false, err
	}
	if kind != "bpe" {
		return false, fmt.Errorf("tokenizer_type is %.40q, want bpe, SAFE's, where "+
			"custom_pre_tokenizer is true", kind)
	}

	model, err := file.subobject("model")
	if err != nil {
		return false, err
	}
	vocab, err := readVocab(model)
	if err != nil {
		return false, fmt.Errorf("model.%w", err)
	}
	var added []addedEntry
	if err := file.get("added_tokens", &added); err != nil {
		return false, err
	}
	for i := range added {
		if id, ok := vocab[added[i].Content]; ok {
			added[i].ID = &id
		}
	}
	file["added_tokens"] = mustMarshal(added)
	delete(model, "unk_token") // a character without a token is refused: it is another molecule
	file["model"] = mustMarshal(model)
	delete(file, "pre_tokenizer")
	file["decoder"] = mustMarshal(map[string]any{"type": "Fuse"})
	return true, nil
}

// addSafeSplit adds the split at SAFE's pieces. Text between pieces is an error: SAFE's program
// drops it without a word, so that another molecule would be encoded.
func (p *preTokenizer) addSafeSplit() {
	p.stages = append(p.stages, func(in piece, next func(piece) error) error {
		end := 0
		for _, place := range safePieces.FindAllStringIndex(in.text, -1) {
			if place[0] > end {
				break
			}
			if err := next(piece{text: in.text[place[0]:place[1]]}); err != nil {
				return err
			}
			end = place[1]
		}
		if end < len(in.text) {
			return fmt.Errorf("text %.40q, want SAFE, whose pieces are atoms in brackets, elements, "+
				"bonds, dots and rings", in.text[end:])
		}
		return nil
	})
}
