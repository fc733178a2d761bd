// Package stories counts how often a small story of demo/recipe/stories.py contradicts itself and
// its slips. That measures a model without a judge that could be misled.
package stories

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

// The words of demo/recipe/stories.py that must be used consistently in a story.
const (
	girls   = "Anna Clara Ella Julia Lily Mia Nora Rosa"
	boys    = "Adam Ben Carl Hugo Jack Leo Max Tom"
	animals = "bear bird cat dog dragon duck fox frog goat hedgehog horse lion mouse owl penguin " +
		"rabbit sheep squirrel turtle wolf"
	colours = "black blue brown green red white yellow"
	things  = "ball bell book cup doll drum flute hat key kite ring toy"
)

var (
	hero     = regexp.MustCompile(`(girl|boy) (?:named|whose name was) (\w+)|(\w+) was an? \w+ (girl|boy)\.`)
	coloured = regexp.MustCompile(`\b(` + alternatives(colours) + `) (` + alternatives(things) + `)\b`)
	person   = regexp.MustCompile(`\b(` + alternatives(girls+" "+boys) + `)\b`)
	speaker  = regexp.MustCompile(`(?:said|asked) the (` + alternatives(animals) + `)\b`)
)

// CountContradictions returns how often a story of demo/recipe/stories.py contradicts itself, and
// its opportunities to: a hero with a name of the other kind, a thing that changes its colour or
// becomes another thing, an animal that speaks and changes its kind, and people who speak before
// the story has them or who are a third one, as no story has. Stories of the recipe have no
// contradictions. Several stories, one per line, are counted separately.
func CountContradictions(text string) (slips, chances int) {
	for story := range strings.Lines(text) {
		f, c := countInStory(story)
		slips += f
		chances += c
	}
	return slips, chances
}

// countInStory is CountContradictions for one story.
func countInStory(story string) (slips, chances int) {
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
			slips++
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
				slips++
			}
		}
	}
	strangers, others := countStrangers(story)
	return slips + strangers, chances + others
}

// countStrangers returns how many people of a story beside its first one do not belong to it, and
// how many there are. A story of these is about one child and at most one other, who does not speak
// before it was introduced: a third name, or a second one that is a speaker's, is a slip.
func countStrangers(story string) (found, others int) {
	var names []string
	for _, span := range person.FindAllStringIndex(story, -1) {
		name := story[span[0]:span[1]]
		if slices.Contains(names, name) {
			continue
		}
		before := story[:span[0]]
		speaks := strings.HasSuffix(before, "said ") || strings.HasSuffix(before, "asked ")
		if len(names) > 1 || len(names) == 1 && speaks {
			found++
		}
		if len(names) > 0 {
			others++
		}
		names = append(names, name)
	}
	return found, others
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
	words   = regexp.MustCompile(`[A-Za-z]+`)
	marks   = regexp.MustCompile(`[.,;:!?]\s*[.,;:!?]`)
	small   = regexp.MustCompile(`[.!?]\s+[a-z]|\."\s+[a-z]`)
	article = regexp.MustCompile(`\b[Aa] [aeio][a-z]|\b[Aa]n (?:[^aeiouh]|h[^o]|ho[^u]|hous)`)
)

// wordList has a line for each word of the recipe's stories, as its stories.py prints them.
//
//go:embed words.txt
var wordList string

var known = knownWords()

// knownWords returns the words of wordList as a set.
func knownWords() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(wordList) {
		words[word] = true
	}
	return words
}

// CountSlips returns how many errors of writing a text of the recipe has that need no knowledge
// of its story: a word twice in a row, two marks in a row, a sentence that begins with a small
// letter, "a" for "an" and the reverse, a quote that does not close on its line, and a word that
// no story has. Stories of the recipe have none.
func CountSlips(text string) int {
	count := countDoubled(text)
	for _, slip := range []*regexp.Regexp{marks, small, article} {
		count += len(slip.FindAllString(text, -1))
	}
	for _, word := range words.FindAllString(text, -1) {
		if !known[strings.ToLower(word)] {
			count++
		}
	}
	for line := range strings.Lines(text) {
		count += strings.Count(line, `"`) % 2
	}
	return count
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
