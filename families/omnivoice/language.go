package omnivoice

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"

	"unmask/param"
)

// languages has a line for each language that the model was trained on, those of two letters first:
// its id, of ISO 639, and its English name (omnivoice/utils/lang_map.py of the package omnivoice,
// written by research/originals/languages.py).
//
//go:embed languages.txt
var languages string

// FindLanguage returns the id of a language, given an id, a tag such as pt-BR or an English name,
// the model's or else CLDR's; "" is none. An error lists the nearest.
func FindLanguage(text string) (string, error) {
	lower := strings.ToLower(norm.NFC.String(trimSpace(text)))
	ids := map[string]string{} // by id and by name
	for line := range strings.Lines(languages) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		otherName := strings.ToLower(display.English.Languages().Name(language.Make(id)))
		ids[otherName] = cmp.Or(ids[otherName], id) // several languages have it; the first counts
		ids[id] = id
		ids[name] = id
	}
	ids[""] = "" // some languages have no other name
	if id, ok := ids[lower]; ok {
		return id, nil
	}
	if tag, err := language.Parse(lower); err == nil {
		base, _ := tag.Base()
		if id := base.String(); ids[id] == id {
			return id, nil
		}
	}
	want := "an id such as en or an English name"
	if nearest := param.Nearest(lower, slices.Sorted(maps.Keys(ids))); len(nearest) > 0 {
		want += " (did you mean " + param.JoinOr(nearest) + "?)"
	}
	return "", &param.Error{
		Name:   "language",
		Found:  param.Quote(text),
		Want:   want,
		Reason: param.NoSuch,
	}
}
