package speech

import (
	_ "embed"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"unmask/param"
)

// languages are the ids of the languages that the model was trained on (k2-fsa/OmniVoice,
// docs/lang_id_name_map.tsv): those of ISO 639, with two letters where there are such.
//
//go:embed languages.txt
var languages string

// Languages returns the ids of all languages, sorted.
func Languages() []string { return strings.Fields(languages) }

// FindLanguage returns the id of a language, given an id, a tag such as pt-BR or an English name;
// "" is none. An error lists the nearest.
func FindLanguage(text string) (string, error) {
	lower, ids := strings.ToLower(trim(text)), Languages()
	if lower == "" || slices.Contains(ids, lower) {
		return lower, nil
	}
	if tag, err := language.Parse(lower); err == nil {
		if base, _ := tag.Base(); slices.Contains(ids, base.String()) {
			return base.String(), nil
		}
	}
	names := slices.Clone(ids)
	for _, id := range ids {
		name := strings.ToLower(display.English.Languages().Name(language.Make(id)))
		if name == lower {
			return id, nil
		}
		names = append(names, name)
	}
	want := "an id such as en or an English name"
	if near := param.Nearest(lower, names); len(near) > 0 {
		want += " (did you mean " + param.Either(near) + "?)"
	}
	return "", &param.Error{Name: "language", Found: param.Quote(text), Want: want,
		Reason: param.NoSuch}
}
