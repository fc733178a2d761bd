// Package stories counts how often a small story of demo/recipe/stories.py contradicts itself and
// its slips. That measures a model without a judge that could be misled.
package stories

import (
	"regexp"
	"slices"
	"strings"
)

// The words of demo/recipe/stories.py that must be used consistently in a story.
const (
	girls   = "Anna Clara Ella Julia Lily Mia Nora Rosa"
	boys    = "Adam Ben Carl Hugo Jack Leo Max Tom"
	animals = "bear bird cat dog duck fox frog horse mouse owl"
	colours = "black blue brown green red white yellow"
	things  = "ball bell book cup doll drum flute hat key kite ring toy"
)

var (
	hero     = regexp.MustCompile(`(girl|boy) (?:named|whose name was) (\w+)|(\w+) was an? \w+ (girl|boy)\.`)
	coloured = regexp.MustCompile(`\b(` + either(colours) + `) (` + either(things) + `)\b`)
	speaker  = regexp.MustCompile(`(?:said|asked) the (` + either(animals) + `)\b`)
)

// CountContradictions returns how often a story of demo/recipe/stories.py contradicts itself, and
// its opportunities to: a hero with a name of the other kind, a thing that changes its colour or
// becomes another thing, an animal that speaks and changes its kind. Stories of the recipe have
// no contradictions. Several stories, one per line, are counted separately.
func CountContradictions(text string) (found, chances int) {
	for story := range strings.Lines(text) {
		f, c := contradictions(story)
		found, chances = found+f, chances+c
	}
	return found, chances
}

func contradictions(story string) (found, chances int) {
	if m := hero.FindStringSubmatch(story); m != nil {
		kind, name := m[1], m[2]
		if kind == "" {
			name, kind = m[3], m[4]
		}
		names := girls
		if kind == "boy" {
			names = boys
		}
		chances++
		if !slices.Contains(strings.Fields(names), name) {
			found++
		}
	}
	pairs := coloured.FindAllStringSubmatch(story, -1)
	for _, uses := range [][]string{column(pairs, 1), column(pairs, 2),
		column(speaker.FindAllStringSubmatch(story, -1), 1)} {
		for i := 1; i < len(uses); i++ {
			chances++
			if uses[i] != uses[0] {
				found++
			}
		}
	}
	return found, chances
}

// either returns a regular expression of any of the words.
func either(words string) string { return strings.ReplaceAll(words, " ", "|") }

// column returns the i-th group of each match.
func column(matches [][]string, i int) []string {
	var out []string
	for _, m := range matches {
		out = append(out, m[i])
	}
	return out
}

var (
	words = regexp.MustCompile(`[A-Za-z]+`)
	marks = regexp.MustCompile(`[.,;:!?]\s*[.,;:!?]`)
	small = regexp.MustCompile(`[.!?]\s+[a-z]|\."\s+[a-z]`)
)

// CountSlips returns how many errors of writing a text of the recipe has that need no knowledge
// of its story: a word twice in a row, two marks in a row, and a sentence that begins with a
// small letter. Stories of the recipe have none.
func CountSlips(text string) int {
	return doubled(text) + len(marks.FindAllString(text, -1)) + len(small.FindAllString(text, -1))
}

// doubled returns how many words repeat the word before them, with nothing but blanks between.
func doubled(text string) (count int) {
	at := words.FindAllStringIndex(text, -1)
	for i := 1; i < len(at); i++ {
		before, this := at[i-1], at[i]
		between := text[before[1]:this[0]]
		if strings.TrimSpace(between) == "" &&
			strings.EqualFold(text[before[0]:before[1]], text[this[0]:this[1]]) {
			count++
		}
	}
	return count
}
