package tokenizers

import (
	"encoding/json"
	"maps"
	"slices"
)

// NoUnknown is the id of [WithUnknown] for a tokenizer that has no unknown token.
const NoUnknown = int32(-1)

// WithUnknown returns a tokenizer like t that takes the file's unknown token for what has no other
// token, as Hugging Face's library does, and the id of that token. A vector of a text bears one
// unknown word; a text that is made or judged does not, so that t itself refuses it. Without an
// unknown token t is returned as it is, with NoUnknown.
func WithUnknown(t Tokenizer) (Tokenizer, int32) {
	v, ok := WithoutMask(t).(*vocabulary)
	if !ok {
		return t, NoUnknown
	}
	out := *v
	out.model = v.model.clone()
	id := out.model.readUnknown()
	if id < 0 {
		return t, NoUnknown
	}
	return replaceVocabulary(t, &out), id
}

// WithLowercase returns a tokenizer like t that makes texts lower-case before it normalizes them,
// unless one of its normalizers is Lowercase. Added tokens that are found in normalized text are
// found in that, and others in the text as it was.
func WithLowercase(t Tokenizer) (Tokenizer, error) {
	v, ok := WithoutMask(t).(*vocabulary)
	if !ok || v.lowercases {
		return t, nil
	}
	out := *v
	out.lowercases = true
	out.normalize = Lowercase
	if v.normalize != nil {
		out.normalize = func(text string) string { return v.normalize(Lowercase(text)) }
	}
	out.normalizesApart = false
	if err := out.setAdded(slices.Clone(v.addedList)); err != nil {
		return nil, err
	}
	maps.Copy(out.specialIDs, v.specialIDs)
	return replaceVocabulary(t, &out), nil
}

// replaceVocabulary returns t with another tokenizer below its masks.
func replaceVocabulary(t, v Tokenizer) Tokenizer {
	if m, ok := t.(*masked); ok {
		return &masked{Tokenizer: replaceVocabulary(m.Tokenizer, v), id: m.id, maskText: m.maskText}
	}
	return v
}

// hasLowercase reports whether a normalizer, or one in its sequence, is Lowercase.
func hasLowercase(s object) bool {
	kind, _ := s.kind() // readNormalizer returns its error
	if kind != "Sequence" {
		return kind == "Lowercase"
	}
	var list []struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(s["normalizers"], &list)
	for _, stage := range list {
		if stage.Type == "Lowercase" {
			return true
		}
	}
	return false
}
