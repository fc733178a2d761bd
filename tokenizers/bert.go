package tokenizers

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// readBertNormalizer reads BERT's normalizer (tokenizers, normalizers/bert.rs).
func readBertNormalizer(s object) (normalizer, error) {
	n := bertNormalizer{clean: true, spaceChinese: true, lower: true}
	var stripAccents *bool // null means the value of lowercase
	err := s.readFields(map[string]any{
		"clean_text":           &n.clean,
		"handle_chinese_chars": &n.spaceChinese,
		"strip_accents":        &stripAccents,
		"lowercase":            &n.lower,
	})
	if err != nil {
		return nil, err
	}
	n.stripAccents = n.lower
	if stripAccents != nil {
		n.stripAccents = *stripAccents
	}
	return n.normalize, nil
}

// applyBertConfig copies the settings of the normalizer from tokenizer_config.json to a
// tokenizer.json, as BertTokenizer does when it loads both: they overrule the file's own.
func applyBertConfig(file, config object) error {
	normalizer, err := file.subobject("normalizer")
	kind, _ := normalizer.kind()
	if err != nil || kind != "BertNormalizer" {
		return err
	}
	if class := config.tokenizerClass(); class != "" && class != "BertTokenizer" {
		return nil
	}
	for configName, fileName := range map[string]string{
		"do_lower_case":          "lowercase",
		"strip_accents":          "strip_accents",
		"tokenize_chinese_chars": "handle_chinese_chars",
	} {
		if raw, ok := config[configName]; ok {
			normalizer[fileName] = raw
		}
	}
	file["normalizer"] = mustMarshal(normalizer)
	return nil
}

// bertNormalizer changes text as BERT's code does before it cuts words.
type bertNormalizer struct {
	// clean drops control characters and turns white space into spaces.
	clean bool

	// spaceChinese puts spaces around Chinese characters, so that each is a word.
	spaceChinese bool

	// stripAccents decomposes letters and drops their accents.
	stripAccents bool

	// lower makes letters lower case.
	lower bool
}

// normalize changes a text as BertNormalizer does, in its order: accents go before letters become
// small.
func (n bertNormalizer) normalize(text string) string {
	if n.clean || n.spaceChinese {
		text = n.cleanAndSpace(text)
	}
	if n.stripAccents {
		text = normalForm{decomposed: norm.NFD}.normalize(text)
		text = dropRunes(unicodeTables()["nonspacing"])(text)
	}
	if n.lower {
		text = Lowercase(text)
	}
	return text
}

// cleanAndSpace removes control characters, makes white space a blank each, and puts blanks around
// Chinese characters, each of which is then a word.
func (n bertNormalizer) cleanAndSpace(text string) string {
	controls := unicodeTables()["controls"]
	chinese := unicodeTables()["chinese"]
	var out strings.Builder
	for _, r := range text {
		switch {
		case n.clean && inRanges(controls, r):
		case n.clean && unicode.IsSpace(r):
			out.WriteByte(' ')
		case n.spaceChinese && inRanges(chinese, r):
			out.WriteString(" " + string(r) + " ")
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// dropRunes returns a normalizer that drops the characters in sorted ranges.
func dropRunes(ranges [][2]rune) normalizer {
	return func(text string) string {
		return strings.Map(func(r rune) rune {
			if inRanges(ranges, r) {
				return -1
			}
			return r
		}, text)
	}
}

// isPunctuation reports whether r is punctuation for BERT.
func isPunctuation(r rune) bool { return inRanges(unicodeTables()["signs"], r) }
