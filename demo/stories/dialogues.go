package stories

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
)

// The words of demo/recipe/dialogues.py.
const (
	objects = things + " boat lamp scarf seed"
	places  = "garden forest beach river hill park market lake barn mill bridge school"
)

var (
	trait  = regexp.MustCompile(`\b(\w+) (?:girl|boy)\b`)
	animal = regexp.MustCompile(`\b(` + either(animals) + `)s?\b( named)?`)
	place  = regexp.MustCompile(`\bthe (?:old )?(` + either(places) + `)\b`)
	owned  = regexp.MustCompile(`\b(` + either(colours) + `) (` + either(objects) + `)\b`)
)

// Dialogue is a line of demo/recipe/dialogues.py: the last of its turns is the right answer to the
// others, which a user and a model say in turn.
type Dialogue struct {
	Kind  string            `json:"kind"` // tell, ask, facts or other
	Turns []string          `json:"turns"`
	Facts map[string]string `json:"facts"` // of its story
}

// ReadDialogues reads the lines of a file that demo/recipe/dialogues.py wrote.
func ReadDialogues(name string) (list []Dialogue, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		var d Dialogue
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			return nil, fmt.Errorf("%s: dialogue %d: %w", name, len(list)+1, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// Messages returns the turns before the answer as a chat template takes them: a JSON array of
// objects with a role and a content.
func (d Dialogue) Messages() json.RawMessage {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	for i, turn := range d.Turns[:len(d.Turns)-1] {
		list = append(list, message{[]string{"user", "assistant"}[i%2], turn})
	}
	data, _ := json.Marshal(list) // of texts
	return data
}

// Facts returns a story's facts as demo/recipe/dialogues.py does: the hero's name, the first animal
// that is no pet with a name, the first place, and the first object with its color. What the text
// does not have is "".
func Facts(text string) map[string]string {
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
	if m := place.FindStringSubmatch(text); m != nil {
		facts["place"] = m[1]
	}
	if m := owned.FindStringSubmatch(text); m != nil {
		facts["color"], facts["object"] = m[1], m[2]
	}
	return facts
}

// Right reports whether an answer is right: JSON has the story's facts and no others, a story has
// the facts that were asked for, any other answer is the one of the recipe.
func (d Dialogue) Right(answer string) bool {
	answer = strings.TrimSpace(answer)
	switch d.Kind {
	case "facts":
		var got map[string]string
		want := Facts("")
		for key := range want {
			want[key] = d.Facts[key]
		}
		return json.Unmarshal([]byte(answer), &got) == nil && maps.Equal(got, want)
	case "tell":
		return d.told(answer)
	}
	return answer == d.Turns[len(d.Turns)-1]
}

func (d Dialogue) told(answer string) bool {
	m := hero.FindStringSubmatch(answer)
	if m == nil {
		return false
	}
	got := Facts(answer)
	got["child"] = m[1] + m[4]
	if t := trait.FindStringSubmatch(answer); t != nil {
		got["trait"] = t[1]
	}
	for key, value := range got {
		if want := d.Facts[key]; value != want && has(d.Turns[0], want) {
			return false
		}
	}
	return true
}

// has reports whether a text has a word.
func has(text, word string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text)
}
