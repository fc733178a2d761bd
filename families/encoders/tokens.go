package encoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

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

	// forbidden are never drawn: the mask and, of all models but BERT-Chat and GenMol, special tokens
	// and rows of the head without a token.
	forbidden []int32

	// pad fills up a text, nil if the network draws none or a text ends with it.
	pad *int32
}

// notResidues are letters of ESM-2 and ESM-C that stand for no residue in particular: any residue,
// which DPLM's sampler forbids too, and the gaps of alignments.
var notResidues = []string{"X", ".", "-"}

// esmcTokens are the tokens of ESM-C, one for each letter, in the order of their ids. They are
// those of ESM-2, but | in place of <null_1> stands between chains.
var esmcTokens = strings.Fields(`<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B
	U Z O . - | <mask>`)

// esmcTokenizer returns ESM-C's tokenizer. The first files have none, and that of the later ones,
// read from source, has no decoder, which would write a blank between residues: it is only
// compared.
func esmcTokenizer(read tokenizers.Tokenizer, source string) (tokenizers.Tokenizer, string, error) {
	if read == nil {
		source = "the table of ESM-C"
	}
	for id, want := range esmcTokens {
		if read == nil {
			break
		}
		text, _ := read.Token(int32(id))
		if strings.TrimSpace(text) != want {
			return nil, "", fmt.Errorf("%s: token %d is %.20q, want ESM-C's %q", source, id, text, want)
		}
	}
	t, err := esmcTable()
	return t, source, err
}

// esmcTable returns the tokenizer of ESM-C, whose checkpoints have none: that of
// their authors' program, as a tokenizer.json.
func esmcTable() (tokenizers.Tokenizer, error) {
	vocab := map[string]int{}
	var added []map[string]any
	for id, text := range esmcTokens {
		vocab[text] = id
		if len(text) > 1 || text == chainBreak {
			added = append(added, map[string]any{"id": id, "content": text, "special": true})
		}
	}
	around := func(id string) map[string]any {
		return map[string]any{"SpecialToken": map[string]any{"id": id, "type_id": 0}}
	}
	special := func(id string) map[string]any {
		return map[string]any{"id": id, "ids": []int{vocab[id]}, "tokens": []string{id}}
	}
	file, err := json.Marshal(map[string]any{
		"added_tokens": added,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{},
			"unk_token": "<unk>"},
		"decoder": map[string]any{"type": "Fuse"},
		"post_processor": map[string]any{
			"type": "TemplateProcessing",
			"single": []any{around("<cls>"),
				map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, around("<eos>")},
			"special_tokens": map[string]any{"<cls>": special("<cls>"), "<eos>": special("<eos>")},
		},
	})
	if err != nil {
		return nil, err
	}
	return tokenizers.Parse(file)
}

// chainBreak is the letter of ESM-C between the chains of a complex, and chainBreakID its token.
const (
	chainBreak   = "|"
	chainBreakID = 31
)

// readTokens reads the tokenizer and finds the mask's id and the special tokens.
func readTokens(src *model.Source, f *model.Values, c *Config) (k tokens, err error) {
	t, source, err := parseTokenizer(src, c)
	if c.family.name == "esmc" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		t, source, err = esmcTokenizer(t, source)
	}
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
		// BERT-Chat's own program lets special tokens win, and rows of the head without a token, and
		// so does GenMol's. A ban would change the order too.
		drawsAll := c.Chat || c.family.name == genmol
		isBanned := !drawsAll && (!hasText || tokenizers.IsSpecial(t, id))
		isProtein := c.family.name == "esm" || c.family.name == "esmc"
		isNoResidue := isProtein && slices.Contains(notResidues, text)
		if isBanned || id == c.Mask || isNoResidue {
			k.forbidden = append(k.forbidden, id)
		}
	}
	if len(k.forbidden) == c.VocabRows {
		return k, fmt.Errorf("%s has special tokens only, want others", source)
	}
	hidden := slices.Concat(k.before, k.after) // decoded text does not show them
	if c.family.name == genmol {
		hidden = append(hidden, genmolHidden...)
		if id, ok := t.Special("[PAD]"); ok {
			k.pad = &id
		}
	}
	for _, id := range hidden {
		k.tokenizer = tokenizers.WithMask(k.tokenizer, id, "")
	}
	return k, nil
}

// parseTokenizer reads the tokenizer beside the weights.
func parseTokenizer(src *model.Source, c *Config) (tokenizers.Tokenizer, string, error) {
	if src.Files == nil { // tensors made in memory
		return nil, "", fs.ErrNotExist
	}
	if c.family.name == genmol {
		return genmolTokenizer(src, c)
	}
	files := src.Files
	if isLaya(src) {
		sub, err := fs.Sub(files, "tokenizer")
		if err != nil {
			return nil, "", err
		}
		files = sub
	}
	return tokenizers.ParseClass(files, c.family.class)
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
		if !c.Chat && c.family.name != genmol {
			k.forbidden = append(k.forbidden, int32(id))
		}
	}
	k.before = []int32{int32(*first)}
	k.after = []int32{int32(*last)}
	return nil
}
