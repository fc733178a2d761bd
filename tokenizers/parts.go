package tokenizers

import "sort"

// Part is a stretch of a text. The spelling of a special token becomes its id only in parts that
// are Special; user input belongs in other parts.
type Part struct {
	Text    string
	Special bool
}

// EncodeParts encodes parts as one text: words and merges may cross the borders of parts.
func EncodeParts(t Tokenizer, parts []Part) ([]int32, error) {
	if v, ok := WithoutMask(t).(*vocabulary); ok {
		return v.encodeParts(parts)
	}
	var ids []int32
	for _, p := range parts {
		encode := t.Encode
		if p.Special {
			encode = t.EncodeSpecial
		}
		part, err := encode(p.Text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, part...)
	}
	return ids, nil
}

// stretch is a range of bytes in which special tokens are found.
type stretch struct{ start, end int }

// allows reports whether text[start:end] lies in one of the allowed ranges, which are ordered and
// disjoint.
func allows(allowed []stretch, start, end int) bool {
	at := sort.Search(len(allowed), func(i int) bool { return allowed[i].end >= end })
	return at < len(allowed) && allowed[at].start <= start
}

// IsSpecial reports whether id is a special token of t, such as an end of text.
func IsSpecial(t Tokenizer, id int32) bool {
	switch one := t.(type) {
	case *masked:
		return id == one.id || IsSpecial(one.Tokenizer, id)
	case *vocabulary:
		return one.marked[id]
	}
	spelling, _ := t.Token(id)
	special, ok := t.Special(spelling)
	return ok && special == id
}
