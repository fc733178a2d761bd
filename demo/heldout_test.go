package demo_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/demo/stories"
)

var heldOutCount = flag.Int("held-out", 0,
	"lines of each file of heldout that the demo answers; at most 200, 60, 100 and 60 are there")

// readHeldOut returns the lines of a file that no training has seen.
func readHeldOut[T any](t *testing.T, file string) (list []T) {
	data, err := os.ReadFile("heldout/" + file)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var element T
		require.NoError(t, json.Unmarshal([]byte(line), &element))
		list = append(list, element)
	}
	return list
}

// wording is a request in free words, and what its answer must be.
type wording struct {
	Say  string   `json:"say"`
	Kind string   `json:"kind"` // "story", "one" for a story of one sentence, or "offer"
	Has  []string `json:"has"`  // expressions that a story must match
}

// talk is a conversation that the demo has itself: each turn checks the answer to what it says.
type talk struct {
	System string `json:"system"`
	Turns  []struct {
		Say  string   `json:"say"`
		Want []string `json:"want"`
	} `json:"turns"`
}

// asked is a question about a story that the demo is said to have told.
type asked struct {
	Story string `json:"story"`
	Ask   string `json:"ask"`
	Want  string `json:"want"` // an expression for the answer, in any case
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]"?(?: |$)`)
	offered     = regexp.MustCompile(`\bstor(y|ies)\b`)
	named       = regexp.MustCompile(`\b(girl|boy) named (\w+)`)
)

// isClean reports whether a text has neither a slip nor a contradiction and ends as a sentence
// does. Words that were asked for may be ones that no other story has.
func isClean(text string, has []string) bool {
	for _, word := range has {
		if stories.CountSlips(word) == 0 || regexp.QuoteMeta(word) != word {
			continue
		}
		other := "fox"
		if m := hero.FindStringSubmatch(text); word != strings.ToLower(word) && m != nil {
			other = map[string]string{"girl": "Anna", "boy": "Tom"}[m[1]+m[4]]
		}
		text = strings.ReplaceAll(text, "an "+word, "a "+word)
		text = strings.ReplaceAll(text, word, other)
	}
	found, _ := stories.CountContradictions(text)
	last := sentenceEnd.FindAllStringIndex(text, -1)
	ended := last != nil && last[len(last)-1][1] == len(text)
	return found == 0 && stories.CountSlips(text) == 0 && ended
}

// isStory reports whether a text is a story as the recipe has them, with all that was asked for.
func isStory(text string, has []string) bool {
	return hero.MatchString(text) && len(sentenceEnd.FindAllString(text, -1)) > 3 &&
		isClean(text, has) && matchesAll(text, has)
}

// isSentence reports whether a text is a story of one sentence, with all that was asked for.
func isSentence(text string, has []string) bool {
	return named.MatchString(text) && len(sentenceEnd.FindAllString(text, -1)) == 1 &&
		isClean(text, has) && matchesAll(text, has)
}

func matchesAll(text string, expressions []string) bool {
	for _, e := range expressions {
		if !regexp.MustCompile(e).MatchString(text) {
			return false
		}
	}
	return true
}

// isPolite reports whether a text is whole sentences that are no story.
func isPolite(text string) bool {
	ends := sentenceEnd.FindAllStringIndex(text, -1)
	return ends != nil && ends[len(ends)-1][1] == len(text) && len(text) < 200
}

// isOffer reports whether a text says what the demo can do to somebody who asked for anything. "Ask
// me for one" is no answer to somebody who asked.
func isOffer(text string) bool {
	return isPolite(text) && !hero.MatchString(text) && offered.MatchString(text) &&
		!strings.Contains(text, "no story yet")
}

func (w wording) right(answer string) bool {
	switch w.Kind {
	case "story":
		return isStory(answer, w.Has)
	case "one":
		return isSentence(answer, w.Has)
	}
	return isOffer(answer)
}

// plots are expressions of what only one plot of the recipe has, the first that matches counts.
var plots = []struct{ name, mark string }{
	{"hide", `hide and seek`}, {"boat", `\bboat\b`}, {"snow", `snowman`}, {"letter", `letter`},
	{"race", `\brace\b`}, {"egg", `\begg\b`}, {"garden", `\bseed`},
	{"song", `\bsong\b|\bsang (?:in|at|by|on|under|near|behind)`},
	{"wish", `one wish|Make a wish|a wish\b|I wish|came true`},
	{"bridge", `in the way|On the path stood|that nobody liked`},
	{"cake", `\b(?:a|the) cake\b|full mouth`},
	{"lost", `lost (?:her|his)|not find|was gone`},
	{"storm", `sky grew dark|so hard that|very hard|storm`},
	{"night", `not sleep|strange sound|lamp|scarf|Behind a tree sat|way home|its mother`},
	{"gift", `birthday|gift|happy\.|made an? \w+ \w+`},
}

// plotOf returns the plot of a story, "" if it has none.
func plotOf(text string) string {
	for _, p := range plots {
		if regexp.MustCompile(p.mark).MatchString(text) {
			return p.name
		}
	}
	return ""
}

// told is what a talk has been so far.
type told struct {
	turns []string
	plots []string
	story string // the latest
}

// check reports whether an answer is what one word of a turn's Want says.
func (b *told) check(want, answer string, has []string) bool {
	facts := factsOf(b.story)
	if m := trait.FindStringSubmatch(b.story); m != nil {
		facts["trait"] = m[1]
	}
	switch want {
	case "story":
		return isStory(answer, has)
	case "one":
		return isSentence(answer, has)
	case "new":
		return !slices.Contains(b.plots, plotOf(answer))
	case "name", "animal", "place", "object", "color", "trait":
		return facts[want] != "" && strings.Contains(answer, facts[want])
	case "same":
		return answer == b.story
	case "shorter":
		return len(answer) < len(b.story) && isPolite(answer) &&
			strings.Contains(answer, facts["name"])
	case "more":
		return answer != b.story && isPolite(answer) &&
			(strings.Contains(answer, facts["name"]) || strings.Contains(answer, facts["animal"]))
	case "offer":
		return isOffer(answer)
	case "polite":
		return isPolite(answer)
	case "nostory":
		return !hero.MatchString(answer)
	case "two":
		return regexp.MustCompile(`(?i)\btwo\b`).MatchString(answer)
	case "yes", "no":
		return regexp.MustCompile(`(?i)^` + want + `\b`).MatchString(answer)
	case "json":
		var got map[string]string
		return json.Unmarshal([]byte(answer), &got) == nil && maps.Equal(got, factsOf(b.story))
	}
	_, expression, _ := strings.Cut(want, "has:")
	return regexp.MustCompile(expression).MatchString(answer)
}

// answerAll returns the model's answers to the last of some turns, of which each list ends in "".
func answerAll(t *testing.T, m *unmask.Model, list []dialogue) []string {
	texts := make([]string, len(list))
	for i, shown := range answered(t, m, list, 0) {
		texts[i] = strings.TrimSpace(shown.Text)
	}
	return texts
}

// The figures of demo/recipe/README.md are those of -held-out 200. No answer is a failure: the
// counts are what a training is chosen by.
func TestHeldOutWordings(t *testing.T) {
	list := readHeldOut[wording](t, "wordings.jsonl")
	require.Len(t, list, 200)
	list = list[:min(*heldOutCount, len(list))]
	var dialogues []dialogue
	for _, w := range list {
		dialogues = append(dialogues, dialogue{Turns: []string{w.Say, ""}})
	}
	right := map[string]int{}
	all := map[string]int{}
	for i, answer := range answerAll(t, weighed(t, *answerModel, demo.Chat()), dialogues) {
		all[list[i].Kind]++
		if list[i].right(answer) {
			right[list[i].Kind]++
		} else {
			t.Logf("%s %q %v\ngot  %q", list[i].Kind, list[i].Say, list[i].Has, answer)
		}
	}
	t.Logf("right %v of %v", right, all)
}

func TestHeldOutQuestions(t *testing.T) {
	list := readHeldOut[asked](t, "questions.jsonl")
	require.Len(t, list, 100)
	list = list[:min(*heldOutCount, len(list))]
	var dialogues []dialogue
	for _, q := range list {
		turns := []string{"Tell me a story.", q.Story, q.Ask, ""}
		dialogues = append(dialogues, dialogue{Turns: turns})
	}
	right := 0
	for i, answer := range answerAll(t, weighed(t, *answerModel, demo.Chat()), dialogues) {
		want := regexp.MustCompile("(?i)" + list[i].Want)
		if want.MatchString(answer) && isPolite(answer) {
			right++
		} else {
			t.Logf("%q\nwant %q\ngot  %q", list[i].Ask, list[i].Want, answer)
		}
	}
	t.Logf("%d of %d right", right, len(list))
}

// Each turn of a talk is answered after the model's own earlier answers.
func TestHeldOutDialogues(t *testing.T) {
	list := readHeldOut[talk](t, "dialogues.jsonl")
	require.Len(t, list, 60)
	list = list[:min(*heldOutCount, len(list))]
	m := weighed(t, *answerModel, demo.Chat())
	before := make([]told, len(list))
	right := 0
	all := 0
	whole := slices.Repeat([]bool{true}, len(list))
	for turn := 0; ; turn++ {
		var dialogues []dialogue
		var numbers []int
		for i, d := range list {
			if turn < len(d.Turns) {
				turns := slices.Concat(before[i].turns, []string{d.Turns[turn].Say, ""})
				dialogues = append(dialogues, dialogue{System: d.System, Turns: turns})
				numbers = append(numbers, i)
			}
		}
		if numbers == nil {
			break
		}
		for k, answer := range answerAll(t, m, dialogues) {
			i := numbers[k]
			said := list[i].Turns[turn]
			var has []string
			for _, want := range said.Want {
				if _, word, ok := strings.Cut(want, "has:"); ok {
					has = append(has, word)
				}
			}
			good := true
			for _, want := range said.Want {
				good = good && before[i].check(want, answer, has)
			}
			all++
			if good {
				right++
			} else {
				whole[i] = false
				t.Logf("dialogue %d turn %d %q\nwant %v\ngot  %q", i, turn, said.Say, said.Want,
					answer)
			}
			before[i].add(said.Say, answer)
		}
	}
	wholeCount := 0
	for _, ok := range whole {
		if ok {
			wholeCount++
		}
	}
	t.Logf("%d of %d turns right, %d of %d dialogues whole", right, all, wholeCount, len(list))
}

// add keeps a turn, and its story if the answer is one.
func (b *told) add(say, answer string) {
	b.turns = append(b.turns, say, answer)
	if hero.MatchString(answer) && len(answer) > 60 {
		b.story = answer
		b.plots = append(b.plots, plotOf(answer))
	}
}

// Stories that are asked for in a row have different plots, and first stories all heroes: of
// -held-out 200 first stories, 20 rows of four.
func TestHeldOutVariety(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	first := make([]dialogue, *heldOutCount)
	for i := range first {
		first[i].Turns = []string{"Tell me a story.", ""}
	}
	heroes := map[string]int{}
	plotCounts := map[string]int{}
	texts := answerAll(t, m, first)
	pairs := 0
	distinct := map[string]bool{}
	for i, text := range texts {
		heroes[factsOf(text)["name"]]++
		plotCounts[plotOf(text)]++
		words := strings.Fields(text)
		for k := 1; k < len(words) && i < 40; k++ {
			pairs++
			distinct[words[k-1]+" "+words[k]] = true
		}
	}
	t.Logf("heroes %v\nplots %v\ndistinct2 of 40 %s", heroes, plotCounts,
		strconv.FormatFloat(float64(len(distinct))/float64(max(pairs, 1)), 'f', 3, 64))
	rows := min(*heldOutCount/10, 20)
	row := make([]told, rows)
	for turn := range 4 {
		var dialogues []dialogue
		say := []string{"Tell me a story.", "Another one, please.", "One more story!",
			"And another one?"}[turn]
		for i := range row {
			dialogues = append(dialogues, dialogue{Turns: slices.Concat(row[i].turns, []string{say, ""})})
		}
		for i, answer := range answerAll(t, m, dialogues) {
			row[i].add(say, answer)
		}
	}
	four := 0
	for _, r := range row {
		kinds := slices.Clone(r.plots)
		slices.Sort(kinds)
		if len(r.plots) == 4 && len(slices.Compact(kinds)) == 4 {
			four++
		} else {
			t.Logf("plots %v", r.plots)
		}
	}
	t.Logf("four plots in %d of %d rows", four, rows)
}

// The checks tell right answers from wrong ones.
func TestChecksOfHeldOut(t *testing.T) {
	const story = "Tom was a shy boy. One day Tom found an egg by the sea. He put it into a red " +
		"hat. Crack! A tiny owl looked at him. It never forgot Tom."
	require.True(t, isStory(story, []string{"Tom", "owl", "snow|sea"}))
	require.False(t, isStory(story, []string{"fox"}))
	require.False(t, isStory(strings.Replace(story, "tiny owl", "tiny tiny owl", 1), nil))
	require.True(t, isStory(strings.ReplaceAll(story, "owl", "robot"), []string{"robot"}))
	require.False(t, isStory(strings.ReplaceAll(story, "owl", "robot"), nil))
	require.True(t, isStory(strings.ReplaceAll(story, "Tom", "Oscar"), []string{"Oscar"}))
	require.False(t, isStory(strings.TrimSuffix(story, " Tom."), nil))
	require.True(t, isSentence("A shy boy named Tom found an egg.", []string{"Tom"}))
	require.False(t, isSentence(story, nil))
	require.Equal(t, "egg", plotOf(story))
	require.True(t, isOffer("I can tell you a small story."))
	require.False(t, isOffer("There is no story yet. Ask me for one."))
	require.False(t, isOffer("I do not know."))
	b := told{}
	b.add("Tell me a story.", story)
	for want, answers := range map[string][2]string{
		"name": {"It is Tom.", "It is Ben."}, "animal": {"It is an owl.", "It is a fox."},
		"color": {"The hat is red.", "It is blue."}, "same": {story, "Again."},
		"shorter": {"Tom found an egg.", story + " So it was."}, "two": {"Two.", "One."},
		"more": {"Then Tom slept.", "There is no story yet."}, "yes": {"Yes, it is.", "No."},
		"no": {"No, it is not.", "Nora is."}, "has:sea": {"At sea.", "At home."},
		"new": {"Ben built a snowman.", story}, "place": {"It happens by the sea.", "At home."},
		"json": {`{"name":"Tom","animal":"owl","place":"sea","object":"hat","color":"red"}`, "{}"},
	} {
		require.True(t, b.check(want, answers[0], nil), want)
		require.False(t, b.check(want, answers[1], nil), want)
	}
}
