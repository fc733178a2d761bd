package demo_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo/stories"
)

// The words of demo/recipe/dialogues.py.
const (
	animals = "bear|bird|cat|dog|dragon|duck|fox|frog|goat|hedgehog|horse|lion|mouse|owl|" +
		"penguin|rabbit|sheep|squirrel|turtle|wolf"
	colours = "black|blue|brown|green|red|white|yellow"
	objects = "ball|bell|book|cup|doll|drum|flute|hat|key|kite|ring|toy|boat|lamp|scarf|seed"
	places  = "garden|forest|beach|river|hill|park|market|lake|barn|mill|bridge|school|" +
		"sea|mountains|castle|island"
)

var (
	hero   = regexp.MustCompile(`(girl|boy) (?:named|whose name was) (\w+)|(\w+) was an? \w+ (girl|boy)\.`)
	trait  = regexp.MustCompile(`\b(\w+) (?:girl|boy)\b`)
	animal = regexp.MustCompile(`\b(` + animals + `)s?\b( named)?`)
	place  = regexp.MustCompile(`(near )?\bthe (?:old )?(` + places + `)\b`)
	owned  = regexp.MustCompile(`\b(` + colours + `) (` + objects + `)\b`)
)

// dialogue is a line of demo/recipe/dialogues.py: the last of its turns is the right answer to the
// others, which a user and a model say in turn.
type dialogue struct {
	Kind   string            `json:"kind"`   // of the last question: tell, ask, facts ...
	System string            `json:"system"` // a message before all turns, or ""
	Turns  []string          `json:"turns"`
	Facts  map[string]string `json:"facts"` // of its latest story
	Wish   []string          `json:"wish"`  // the facts that System asks for
}

// readDialogues returns those that demo/recipe/dialogues.py wrote to a file of stories/testdata.
func readDialogues(t *testing.T, file string) (list []dialogue) {
	data, err := os.ReadFile("stories/testdata/" + file)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var d dialogue
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		list = append(list, d)
	}
	require.NotEmpty(t, list)
	return list
}

// messages returns the turns before the answer as a chat template takes them: a JSON array of
// objects with a role and a content.
func (d dialogue) messages() json.RawMessage {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	if d.System != "" {
		list = append(list, message{"system", d.System})
	}
	for i, turn := range d.Turns[:len(d.Turns)-1] {
		list = append(list, message{[]string{"user", "assistant"}[i%2], turn})
	}
	data, _ := json.Marshal(list) // of texts
	return data
}

// factsOf returns a story's facts as demo/recipe/dialogues.py does: the hero's name, the first
// animal that is no pet with a name, the first place, and the first object with its color. What the
// text does not have is "".
func factsOf(text string) map[string]string {
	facts := map[string]string{"name": "", "animal": "", "place": "", "object": "", "color": ""}
	if m := hero.FindStringSubmatch(text); m != nil {
		facts["name"] = m[2] + m[3]
	}
	for _, m := range animal.FindAllStringSubmatch(text, -1) {
		if m[2] == "" {
			facts["animal"] = m[1]
			break
		}
	}
	for _, m := range place.FindAllStringSubmatch(text, -1) {
		// Heroes may live near the sea, which is no place of a story.
		if m[1] == "" || m[2] != "sea" {
			facts["place"] = m[2]
			break
		}
	}
	if m := owned.FindStringSubmatch(text); m != nil {
		facts["color"], facts["object"] = m[1], m[2]
	}
	return facts
}

// right reports whether an answer is right: JSON has the story's facts and no others, a story has
// the facts that were asked for, any other answer is the one of the recipe.
func (d dialogue) right(answer string) bool {
	answer = strings.TrimSpace(answer)
	last := d.Turns[len(d.Turns)-1]
	switch {
	case d.Kind == "facts" && last[0] == '{':
		var got map[string]string
		want := factsOf("")
		for key := range want {
			want[key] = d.Facts[key]
		}
		return json.Unmarshal([]byte(answer), &got) == nil && maps.Equal(got, want)
	case d.Kind == "tell" || d.Kind == "another":
		return d.told(answer)
	}
	return answer == last
}

// fits reports whether an answer is right and, if it is a story, has no contradiction and no slip
// and comes to an end.
func (d dialogue) fits(answer string) bool {
	if d.Kind != "tell" && d.Kind != "another" {
		return d.right(answer)
	}
	answer = strings.TrimSpace(answer)
	found, _ := stories.CountContradictions(answer)
	ended := strings.HasSuffix(answer, ".") || strings.HasSuffix(answer, `."`)
	return d.right(answer) && ended && found == 0 && stories.CountSlips(answer) == 0
}

func (d dialogue) told(answer string) bool {
	m := hero.FindStringSubmatch(answer)
	if m == nil {
		return false
	}
	got := factsOf(answer)
	got["child"] = m[1] + m[4]
	if t := trait.FindStringSubmatch(answer); t != nil {
		got["trait"] = t[1]
	}
	asked := d.Turns[len(d.Turns)-2]
	for key, value := range got {
		want := d.Facts[key]
		if value != want && (has(asked, want) || slices.Contains(d.Wish, key)) {
			return false
		}
	}
	return true
}

// has reports whether a text has a word.
func has(text, word string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text)
}

// The recipe's own answers are right, and its facts are those that are read from a story.
func TestAnswersOfTheRecipeAreRight(t *testing.T) {
	list := readDialogues(t, "dialogues.jsonl")
	for _, d := range append(list, readDialogues(t, "conversations.jsonl")...) {
		answer := d.Turns[len(d.Turns)-1]
		require.True(t, d.fits(" "+answer+"\n"), answer)
		require.False(t, d.fits(""), answer)
		require.False(t, d.fits("Yes."), answer)
		if d.Kind != "tell" && d.Kind != "another" {
			continue
		}
		for key, value := range factsOf(answer) {
			require.Equal(t, d.Facts[key], value, answer)
		}
		require.Zero(t, stories.CountSlips(answer), answer)
	}
}

func TestWrongAnswers(t *testing.T) {
	list := readDialogues(t, "dialogues.jsonl")
	for _, d := range append(list, readDialogues(t, "conversations.jsonl")...) {
		answer := d.Turns[len(d.Turns)-1]
		asked := d.Turns[len(d.Turns)-2]
		switch {
		case answer[0] == '{':
			require.False(t, d.fits(strings.Replace(answer, d.Facts["animal"], "ant", 1)), answer)
			require.False(t, d.fits(strings.Replace(answer, "{", `{"kin":"aunt",`, 1)), answer)
			require.False(t, d.fits(answer+"}"), answer)
		case d.Kind == "tell" || d.Kind == "another":
			require.False(t, d.fits(answer[:len(answer)-2]), answer)
			require.False(t, d.fits(answer+" The the end."), answer)
			for key, other := range map[string]string{"name": "Zoe", "trait": "mean",
				"animal": "ant"} {
				wrong := strings.ReplaceAll(answer, d.Facts[key], other)
				if has(asked, d.Facts[key]) || slices.Contains(d.Wish, key) {
					require.False(t, d.fits(wrong), wrong)
				}
			}
		}
	}
}

func TestFactsOfOtherText(t *testing.T) {
	for _, text := range []string{"", "\xff", "The ant has a kite."} {
		for key, value := range factsOf(text) {
			require.Empty(t, value, key)
		}
	}
	require.Equal(t, map[string]string{"name": "Tom", "animal": "owl", "place": "mill",
		"object": "lamp", "color": "red"}, factsOf("Tom was a shy boy. He had a dog named Spot. An owl near the old "+
		"mill had a red lamp, a fox at the lake a blue hat."))
}
