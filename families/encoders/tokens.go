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
	tokenizer tokenizers.Tokenizer

	// source says in words where the tokenizer is from.
	source string

	// before and after are the tokens around every sequence.
	before, after []int32

	// ends are the tokens that end an answer.
	ends []int32

	// forbidden are never drawn: the mask and, of all models but BERT-Chat, special tokens and rows
	// of the head without a token.
	forbidden []int32
}

// notResidues are ESM-2's letters that stand for no residue in particular: any residue, which
// DPLM's sampler forbids too, and the gaps of alignments.
var notResidues = []string{"X", ".", "-"}

// readTokens reads the tokenizer and finds the mask's id and the special tokens.
func readTokens(src *model.Source, f *model.Values, c *Config) (k tokens, err error) {
	t, source, err := parseTokenizer(src, c.family.class)
	if errors.Is(err, fs.ErrNotExist) {
		k.tokenizer = tokenizers.Numbers(c.VocabRows)
		c.Notes = append(c.Notes,
			"there is neither vocab.txt nor tokenizer.json: tokens are shown as numbers")
		return k, k.setNumbered(f, c)
	}
	if err != nil {
		return k, err
	}
	k.tokenizer = t
	k.source = source
	n := t.VocabSize()
	if n > c.VocabRows {
		return k, fmt.Errorf("%s has %d tokens, want at most the %d rows of the head", source, n,
			c.VocabRows)
	}
	if n < c.VocabRows && source == "vocab.txt" {
		c.Notes = append(c.Notes, fmt.Sprintf("vocab.txt has %d tokens for the %d rows of the head: the "+
			"others are never drawn", n, c.VocabRows))
	}

	k.before, k.after = tokenizers.SurroundingTokens(t)
	if err := k.setMask(f, c); err != nil {
		return k, err
	}
	pad := f.Int("pad_token_id")
	if c.Chat && pad != nil { // the tokenizer has no other end token
		k.ends = []int32{int32(*pad)}
	}
	for id := range int32(c.VocabRows) {
		text, hasText := t.Token(id)
		// BERT-Chat's own program lets special tokens win, and rows of the head without a token. A ban
		// would change the order too.
		isBanned := !c.Chat && (!hasText || tokenizers.IsSpecial(t, id))
		isNoResidue := c.family.name == "esm" && slices.Contains(notResidues, text)
		if isBanned || id == c.Mask || isNoResidue {
			k.forbidden = append(k.forbidden, id)
		}
	}
	if len(k.forbidden) == c.VocabRows {
		return k, fmt.Errorf("%s has special tokens only, want others", source)
	}
	for _, id := range slices.Concat(k.before, k.after) { // decoded text does not show them
		k.tokenizer = tokenizers.WithMask(k.tokenizer, id, "")
	}
	return k, nil
}

// parseTokenizer reads the tokenizer beside the weights.
func parseTokenizer(src *model.Source, class string) (tokenizers.Tokenizer, string, error) {
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

// setMask sets the mask's id: that of config.json, or else that of the vocabulary. A network
// without a head for tokens may have none.
func (k *tokens) setMask(f *model.Values, c *Config) error {
	mask := f.Int("mask_token_id")
	for _, name := range []string{"[MASK]", "<mask>"} {
		if id, ok := k.tokenizer.Special(name); ok && mask == nil {
			number := int(id)
			mask = &number
		}
	}
	switch {
	case f.Err != nil:
		return f.Err
	case mask == nil && c.Headless:
		c.Mask = -1
		return nil
	case mask == nil:
		return fmt.Errorf("mask_token_id is missing, and the vocabulary has neither [MASK] nor <mask>")
	case *mask < 0 || *mask >= c.VocabRows:
		return fmt.Errorf("config.json: mask_token_id is %d, want 0 to %d", *mask, c.VocabRows-1)
	}
	c.Mask = int32(*mask)
	return nil
}

// setNumbered sets the tokens of a model without a tokenizer, from the ids of config.json.
func (k *tokens) setNumbered(f *model.Values, c *Config) error {
	if err := k.setMask(f, c); err != nil {
		return err
	}
	k.forbidden = []int32{c.Mask}
	first := f.Int("cls_token_id")
	last := f.Int("sep_token_id")
	if first == nil || last == nil {
		return f.Err
	}
	for _, id := range []int{*first, *last} {
		if id < 0 || id >= c.VocabRows {
			return fmt.Errorf("config.json: special token is %d, want 0 to %d", id, c.VocabRows-1)
		}
		if !c.Chat {
			k.forbidden = append(k.forbidden, int32(id))
		}
	}
	k.before = []int32{int32(*first)}
	k.after = []int32{int32(*last)}
	return nil
}
