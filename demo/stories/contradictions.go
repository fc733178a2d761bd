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
	coloured = regexp.MustCompile(`\b(` + alternatives(colours) + `) (` + alternatives(things) + `)\b`)
	speaker  = regexp.MustCompile(`(?:said|asked) the (` + alternatives(animals) + `)\b`)
)

// CountContradictions returns how often a story of demo/recipe/stories.py contradicts itself, and
// its opportunities to: a hero with a name of the other kind, a thing that changes its colour or
// becomes another thing, an animal that speaks and changes its kind. Stories of the recipe have
// no contradictions. Several stories, one per line, are counted separately.
func CountContradictions(text string) (found, chances int) {
	for story := range strings.Lines(text) {
		f, c := countInStory(story)
		found += f
		chances += c
	}
	return found, chances
}

// countInStory is CountContradictions for one story.
func countInStory(story string) (found, chances int) {
	if m := hero.FindStringSubmatch(story); m != nil {
		kind := m[1]
		name := m[2]
		if kind == "" { // the other form of the sentence
			kind = m[4]
			name = m[3]
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

	// Colours, things and speakers must each stay as they were first named.
	colouredThings := coloured.FindAllStringSubmatch(story, -1)
	speakers := speaker.FindAllStringSubmatch(story, -1)
	for _, uses := range [][]string{
		matchGroup(colouredThings, 1),
		matchGroup(colouredThings, 2),
		matchGroup(speakers, 1),
	} {
		for i := 1; i < len(uses); i++ {
			chances++
			if uses[i] != uses[0] {
				found++
			}
		}
	}
	return found, chances
}

// alternatives returns a regular expression of any of the words.
func alternatives(words string) string { return strings.ReplaceAll(words, " ", "|") }

// matchGroup returns the i-th group of each match.
func matchGroup(matches [][]string, i int) []string {
	var groups []string
	for _, m := range matches {
		groups = append(groups, m[i])
	}
	return groups
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
	return countDoubled(text) + len(marks.FindAllString(text, -1)) + len(small.FindAllString(text, -1))
}

// countDoubled returns how many words repeat the word before them, with nothing but blanks between.
func countDoubled(text string) (count int) {
	ranges := words.FindAllStringIndex(text, -1) // where each word begins and ends
	for i := 1; i < len(ranges); i++ {
		previous := ranges[i-1]
		current := ranges[i]
		between := text[previous[1]:current[0]]
		if strings.TrimSpace(between) == "" &&
			strings.EqualFold(text[previous[0]:previous[1]], text[current[0]:current[1]]) {
			count++
		}
	}
	return count
}
