package tokenizers

import "sort"

// Part is a stretch of a text. The text of a special token becomes its id only in parts that
// are Special; user input belongs in other parts.
type Part struct {
	Text    string
	Special bool
}

// EncodeParts encodes parts as one text: words and merges may cross the borders of parts. The error
// is that of Encode.
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

// byteRange is a range of bytes in which special tokens are found.
type byteRange struct{ start, end int }

// isWithin reports whether text[start:end] lies in one of some ranges, which are ordered and
// disjoint.
func isWithin(ranges []byteRange, start, end int) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].end >= end })
	return i < len(ranges) && ranges[i].start <= start
}

// IsSpecial reports whether id is a special token of t, such as an end of text.
func IsSpecial(t Tokenizer, id int32) bool {
	switch t := t.(type) {
	case *masked:
		return id == t.id || IsSpecial(t.Tokenizer, id)
	case *vocabulary:
		return t.specialIDs[id]
	}
	text, _ := t.Token(id)
	special, ok := t.Special(text)
	return ok && special == id
}
