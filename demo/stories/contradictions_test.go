package stories_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo/stories"
)

// stories.json holds true stories and ones made of two halves, with what recipe/stories.py counts.
func TestContradictionsAreThoseOfTheRecipe(t *testing.T) {
	data, err := os.ReadFile("testdata/stories.json")
	require.NoError(t, err)
	var list []struct {
		Text           string
		Found, Chances int
	}
	require.NoError(t, json.Unmarshal(data, &list))
	all, found, chances := "", 0, 0
	for _, s := range list {
		f, c := stories.CountContradictions(s.Text)
		require.Equal(t, [2]int{s.Found, s.Chances}, [2]int{f, c}, s.Text)
		all, found, chances = all+s.Text+"\n", found+s.Found, chances+s.Chances
	}
	require.NotZero(t, found)
	f, c := stories.CountContradictions(all)
	require.Equal(t, [2]int{found, chances}, [2]int{f, c}, "one story a line")
}

func TestContradictionsOfOtherText(t *testing.T) {
	for _, text := range []string{"", "\n\n", "Whan that Aprille with his shoures soote",
		"\xff\xfe girl named"} {
		found, chances := stories.CountContradictions(text)
		require.Zero(t, found+chances, "%q", text)
	}
	found, chances := stories.CountContradictions(`There once was a shy girl whose name was Tom.`)
	require.Equal(t, [2]int{1, 1}, [2]int{found, chances})
}

func TestStrangers(t *testing.T) {
	for text, want := range map[string][2]int{
		"Tom and Rosa built a boat.":                          {0, 1},
		`Tom built a boat. "Let us sail," said Rosa.`:         {1, 1},
		`Tom and Rosa built a boat. "Yes," said Rosa.`:        {0, 1},
		"Tom met Rosa at the lake. Then Leo and Rosa sailed.": {1, 2},
	} {
		found, chances := stories.CountContradictions(text)
		require.Equal(t, want, [2]int{found, chances}, text)
	}
}
