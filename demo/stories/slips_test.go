package stories_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo/stories"
)

func TestSlips(t *testing.T) {
	for text, want := range map[string]int{
		"":                                        0,
		"Once upon a a time":                      1,
		"Every every day every day":               1,
		"The the\nthe end.":                       2,
		"Tap, tap, tap, it went.":                 0,
		"Who is there..  Nobody , . .":            2,
		"He ran. she ran! they ran? We ran.":      2,
		`"Who is there?" she asked. "No one."`:    0,
		`He said, "It is dry." and they went.`:    1,
		`"Yes," said the owl, "I saw it.", Then`:  0,
		"One, two, three, go! They all ran.":      0,
		"She met an fox and a owl.":               2,
		"An owl saw a fox at an island.":          0,
		"Nora was wenderful.":                     1,
		"\"I am here, asked Tom.":                 1,
		"Tom sang.\n\"Who is there?\" asked Tom.": 0,
	} {
		require.Equal(t, want, stories.CountSlips(text), text)
	}
}

// Every second one of stories.json is the recipe's own.
func TestTrueStoriesHaveNoSlips(t *testing.T) {
	data, err := os.ReadFile("testdata/stories.json")
	require.NoError(t, err)
	var list []struct {
		Text  string
		Slips int
	}
	require.NoError(t, json.Unmarshal(data, &list))
	require.NotEmpty(t, list)
	for i, story := range list {
		require.Equal(t, story.Slips, stories.CountSlips(story.Text), story.Text)
		if i%2 == 0 {
			require.Zero(t, story.Slips, story.Text)
		}
	}
}
