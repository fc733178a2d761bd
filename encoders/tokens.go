package encoders

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"unmask/model"
	"unmask/tokenizers"
)

// tokens is a model's tokenizer and what it says about ids.
type tokens struct {
	t             tokenizers.Tokenizer
	from          string  // in words
	before, after []int32 // around every sequence
	ends          []int32 // that end an answer
	forbidden     []int32 // never drawn: special tokens, and rows without a token
}

// notResidues are ESM-2's letters that stand for no residue in particular: any residue, which
// DPLM's sampler forbids too, and the gaps of alignments.
var notResidues = []string{"X", ".", "-"}

// readTokens reads the tokenizer, finds the mask's id and the special tokens.
func readTokens(src *model.Source, f *file, c *Config) (k tokens, err error) {
	t, from, err := parse(src, c.family.class)
	if errors.Is(err, fs.ErrNotExist) {
		k.t = tokenizers.Numbers(c.Rows)
		c.Notes = append(c.Notes,
			"there is neither vocab.txt nor tokenizer.json: tokens are shown as numbers")
		return k, k.numbered(f, c)
	}
	if err != nil {
		return k, err
	}
	k.t, k.from = t, from
	switch n := t.VocabSize(); {
	case n > c.Rows:
		return k, fmt.Errorf("%s has %d tokens, want at most the %d rows of the head", from, n, c.Rows)
	case n < c.Rows && from == "vocab.txt":
		c.Notes = append(c.Notes, fmt.Sprintf("vocab.txt has %d tokens for the %d rows of the head: the "+
			"others are never drawn", n, c.Rows))
	}
	k.before, k.after = tokenizers.Around(t)
	if err := k.mask(f, c); err != nil {
		return k, err
	}
	if c.Chat && f.Pad != nil { // the tokenizer has no other end
		k.ends = []int32{int32(*f.Pad)}
	}
	for id := range int32(c.Rows) {
		if slices.Contains(k.ends, id) {
			continue
		}
		text, ok := t.Token(id)
		if !ok || tokenizers.IsSpecial(t, id) || id == c.Mask ||
			c.family.name == "esm" && slices.Contains(notResidues, text) {
			k.forbidden = append(k.forbidden, id)
		}
	}
	for _, id := range slices.Concat(k.before, k.after) { // decoded text does not show them
		k.t = tokenizers.WithMask(k.t, id, "")
	}
	if len(k.forbidden) == c.Rows {
		return k, fmt.Errorf("%s has special tokens only, want others", from)
	}
	return k, nil
}

// parse reads the tokenizer beside the weights.
func parse(src *model.Source, class string) (tokenizers.Tokenizer, string, error) {
	if src.Files == nil { // tensors made in memory
		return nil, "", fs.ErrNotExist
	}
	files := src.Files
	if isLaya(src) {
		sub, err := fs.Sub(files, "tokenizer")
		if err != nil {
			return nil, "", err
		}
		files = sub
	}
	return tokenizers.ParseClass(files, class)
}

// mask sets the mask's id: config.json's or else the vocabulary's.
func (k *tokens) mask(f *file, c *Config) error {
	for _, name := range []string{"[MASK]", "<mask>"} {
		if id, ok := k.t.Special(name); ok && f.Mask == nil {
			f.Mask = &id
		}
	}
	switch {
	case f.Mask == nil && c.Headless:
		c.Mask = -1
		return nil
	case f.Mask == nil:
		return fmt.Errorf("mask_token_id is missing, and the vocabulary has neither [MASK] nor <mask>")
	case *f.Mask < 0 || int(*f.Mask) >= c.Rows:
		return fmt.Errorf("config.json: mask_token_id is %d, want 0 to %d", *f.Mask, c.Rows-1)
	}
	c.Mask = *f.Mask
	return nil
}

// numbered is for models without a tokenizer: config.json has the ids.
func (k *tokens) numbered(f *file, c *Config) error {
	if err := k.mask(f, c); err != nil {
		return err
	}
	k.forbidden = []int32{c.Mask}
	if f.First == nil || f.Last == nil {
		return nil
	}
	for _, id := range []int32{*f.First, *f.Last} {
		if id < 0 || int(id) >= c.Rows {
			return fmt.Errorf("config.json: special token is %d, want 0 to %d", id, c.Rows-1)
		}
		k.forbidden = append(k.forbidden, id)
	}
	k.before, k.after = []int32{*f.First}, []int32{*f.Last}
	return nil
}
