package stories_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo/stories"
)

// dialogues returns those of testdata, which demo/recipe/dialogues.py wrote.
func dialogues(t *testing.T) []stories.Dialogue {
	list, err := stories.ReadDialogues("testdata/dialogues.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

// The recipe's own answers are right, and its facts are those that are read from a story.
func TestAnswersOfTheRecipeAreRight(t *testing.T) {
	for _, d := range dialogues(t) {
		answer := d.Turns[len(d.Turns)-1]
		require.True(t, d.Right(" "+answer+"\n"), answer)
		require.False(t, d.Right(""), answer)
		require.False(t, d.Right("Yes."), answer)
		if d.Kind != "tell" {
			continue
		}
		for key, value := range stories.Facts(answer) {
			require.Equal(t, d.Facts[key], value, answer)
		}
		require.Zero(t, stories.Slips(answer), answer)
	}
}

func TestWrongAnswers(t *testing.T) {
	for _, d := range dialogues(t) {
		answer := d.Turns[len(d.Turns)-1]
		switch d.Kind {
		case "facts":
			require.False(t, d.Right(strings.Replace(answer, d.Facts["animal"], "ant", 1)), answer)
			require.False(t, d.Right(strings.Replace(answer, "{", `{"kin":"aunt",`, 1)), answer)
			require.False(t, d.Right(answer+"}"), answer)
		case "tell":
			if strings.Contains(d.Turns[0], d.Facts["name"]) {
				require.False(t, d.Right(strings.ReplaceAll(answer, d.Facts["name"], "Zoe")), answer)
			}
			if strings.Contains(d.Turns[0], d.Facts["trait"]) {
				require.False(t, d.Right(strings.ReplaceAll(answer, d.Facts["trait"], "mean")), answer)
			}
		}
	}
}

func TestFactsOfOtherText(t *testing.T) {
	for _, text := range []string{"", "\xff", "The ant has a kite."} {
		for key, value := range stories.Facts(text) {
			require.Empty(t, value, key)
		}
	}
	require.Equal(t, map[string]string{"name": "Tom", "animal": "owl", "place": "mill",
		"object": "lamp", "color": "red"}, stories.Facts("Tom was a shy boy. He had a dog named Spot. An owl near the old "+
		"mill had a red lamp, a fox at the lake a blue hat."))
}
