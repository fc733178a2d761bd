package tokenizers

import (
	"maps"
	"slices"
)

// WithSpecial returns a tokenizer like t to which ids, such as a model's mask and its ends of
// text, are special tokens, whatever its file calls them: plain text never becomes one of them.
// Text that nothing else can encode is refused.
func WithSpecial(t Tokenizer, ids ...int32) Tokenizer {
	switch t := t.(type) {
	case *masked:
		return &masked{WithSpecial(t.Tokenizer, ids...), t.id, t.maskText}
	case *vocabulary:
		return t.withSpecial(ids)
	}
	return t
}

// withSpecial returns a copy of v to which ids are special tokens, or v if they are already. Ids
// outside the vocabulary are passed over.
func (v *vocabulary) withSpecial(ids []int32) *vocabulary {
	changes := slices.ContainsFunc(ids, func(id int32) bool {
		return !v.specialIDs[id] && id >= 0 && int(id) < len(v.tokens)
	})
	if !changes {
		return v
	}
	list := slices.Clone(v.addedList)
	for i := range list {
		list[i].special = list[i].special || slices.Contains(ids, list[i].id)
	}
	out := *v
	out.normalizesApart = false
	if err := out.setAdded(list); err != nil {
		panic("tokenizers: " + err.Error()) // cannot happen: they were set once
	}
	for _, id := range ids {
		out.specialIDs[id] = true
	}
	out.model = v.model.clone()
	out.model.forbid(out.specialIDs)
	if b, ok := out.model.(*bpe); ok && slices.Contains(ids, b.unknownID) {
		b.unknownID = -1
	}
	return &out
}

// clone returns a model whose tokens can be forbidden without a change of b.
func (b *bpe) clone() subwordModel {
	out := *b
	out.runeIDs = maps.Clone(b.runeIDs)
	out.wholeWords = maps.Clone(b.wholeWords)
	if b.lastByteIDs != nil {
		out.lastByteIDs = new(*b.lastByteIDs)
	}
	return &out
}

// forbid makes no word, rune or byte one of the ids. A file's unknown token still stands for what
// has no token.
func (b *bpe) forbid(ids map[int32]bool) {
	b.forbidden = maps.Clone(b.forbidden)
	if b.forbidden == nil {
		b.forbidden = map[int32]bool{}
	}
	maps.Copy(b.forbidden, ids)
	maps.DeleteFunc(b.runeIDs, func(_ rune, id int32) bool { return ids[id] })
	maps.DeleteFunc(b.wholeWords, func(_ string, id int32) bool { return ids[id] })
	for i := range b.byteIDs {
		if ids[b.byteIDs[i]] {
			b.byteIDs[i] = -1
		}
		if b.lastByteIDs != nil && ids[b.lastByteIDs[i]] {
			b.lastByteIDs[i] = -1
		}
		if ids[b.fallbackIDs[i]] {
			b.fallbackIDs[i] = -1
		}
	}
}
