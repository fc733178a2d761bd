package tokenizers

import (
	"maps"
	"slices"
)

// WithSpecial returns a tokenizer like t to which ids, such as a model's mask and its ends of
// text, are special tokens, whatever its file calls them: plain text never becomes one of them.
// Text that nothing else can encode is refused.
func WithSpecial(t Tokenizer, ids ...int32) Tokenizer {
	switch one := t.(type) {
	case *masked:
		return &masked{WithSpecial(one.Tokenizer, ids...), one.id, one.shown}
	case *vocabulary:
		return one.guard(ids)
	}
	return t
}

func (v *vocabulary) guard(ids []int32) *vocabulary {
	if !slices.ContainsFunc(ids, func(id int32) bool {
		return !v.marked[id] && id >= 0 && int(id) < len(v.tokens)
	}) {
		return v
	}
	list := slices.Clone(v.listed)
	for i := range list {
		list[i].special = list[i].special || slices.Contains(ids, list[i].id)
	}
	out := *v
	out.apart = false
	if err := out.setAdded(list); err != nil {
		panic("tokenizers: " + err.Error()) // they were set once
	}
	for _, id := range ids {
		out.marked[id] = true
	}
	out.model = v.model.clone()
	out.model.bar(out.marked)
	if b, ok := out.model.(*bpe); ok && slices.Contains(ids, b.unknown) {
		b.unknown = -1
	}
	return &out
}

func (b *bpe) clone() subwords {
	out := *b
	out.merges, out.runes, out.whole = maps.Clone(b.merges), maps.Clone(b.runes), maps.Clone(b.whole)
	if b.last != nil {
		out.last = new(*b.last)
	}
	return &out
}

// bar makes no merge end in one of the ids, and no word, rune or byte be one. A file's unknown
// token still stands for what has no token.
func (b *bpe) bar(ids map[int32]bool) {
	maps.DeleteFunc(b.merges, func(_ pair, m merge) bool { return ids[m.id] })
	maps.DeleteFunc(b.runes, func(_ rune, id int32) bool { return ids[id] })
	maps.DeleteFunc(b.whole, func(_ string, id int32) bool { return ids[id] })
	for i := range b.bytes {
		if ids[b.bytes[i]] {
			b.bytes[i] = -1
		}
		if b.last != nil && ids[b.last[i]] {
			b.last[i] = -1
		}
		if ids[b.fallback[i]] {
			b.fallback[i] = -1
		}
	}
}
