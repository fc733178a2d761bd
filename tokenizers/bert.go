package tokenizers

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// readBERT reads BERT's normalizer (tokenizers, normalizers/bert.rs).
func readBERT(s object) (normalizer, error) {
	clean, apart, lower := true, true, true
	var accents *bool // strip_accents: null is the value of lowercase
	if err := s.read(map[string]any{"clean_text": &clean, "handle_chinese_chars": &apart,
		"strip_accents": &accents, "lowercase": &lower}); err != nil {
		return nil, err
	}
	strip := lower
	if accents != nil {
		strip = *accents
	}
	return bertNormalizer(clean, apart, strip, lower), nil
}

// setBERT puts what tokenizer_config.json says of BertTokenizer's normalizer into a file, as that
// class does.
func setBERT(file, config object) error {
	normalizer, err := file.stage("normalizer")
	kind, _ := normalizer.kind()
	if class := config.class(); err != nil || kind != "BertNormalizer" ||
		class != "" && class != "BertTokenizer" {
		return err
	}
	for theirs, ours := range map[string]string{"do_lower_case": "lowercase",
		"strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"} {
		if raw, ok := config[theirs]; ok {
			normalizer[ours] = raw
		}
	}
	file["normalizer"] = encode(normalizer)
	return nil
}

// bertNormalizer drops control characters and turns white space into spaces (clean), puts spaces
// around Chinese characters (apart), decomposes letters and drops their accents (strip), and makes
// letters lower case.
func bertNormalizer(clean, apart, strip, lower bool) normalizer {
	controls, chinese := tables()["controls"], tables()["chinese"]
	return func(text string) string {
		if clean || apart {
			var out strings.Builder
			for _, r := range text {
				switch {
				case clean && inRanges(controls, r):
				case clean && unicode.IsSpace(r):
					out.WriteByte(' ')
				case apart && inRanges(chinese, r):
					out.WriteString(" " + string(r) + " ")
				default:
					out.WriteRune(r)
				}
			}
			text = out.String()
		}
		if strip {
			text = without(tables()["nonspacing"])(form{decomposed: norm.NFD}.normalize(text))
		}
		if lower {
			text = Lowercase(text)
		}
		return text
	}
}

// without returns a normalizer that drops the characters in sorted ranges.
func without(ranges [][2]rune) normalizer {
	return func(text string) string {
		return strings.Map(func(r rune) rune {
			if inRanges(ranges, r) {
				return -1
			}
			return r
		}, text)
	}
}

// isSign reports whether r is punctuation for BERT.
func isSign(r rune) bool { return inRanges(tables()["signs"], r) }
