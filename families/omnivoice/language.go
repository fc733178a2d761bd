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
	known := map[string]string{}
	for line := range strings.Lines(languages) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		other := strings.ToLower(display.English.Languages().Name(language.Make(id)))
		known[other] = cmp.Or(known[other], id) // several have it
		known[id] = id
		known[name] = id
	}
	known[""] = "" // some have no other name
	if id, ok := known[lower]; ok {
		return id, nil
	}
	if tag, err := language.Parse(lower); err == nil {
		if base, _ := tag.Base(); known[base.String()] == base.String() {
			return base.String(), nil
		}
	}
	want := "an id such as en or an English name"
	if near := param.Nearest(lower, slices.Sorted(maps.Keys(known))); len(near) > 0 {
		want += " (did you mean " + param.JoinOr(near) + "?)"
	}
	return "", &param.Error{Name: "language", Found: param.Quote(text), Want: want,
		Reason: param.NoSuch}
}
