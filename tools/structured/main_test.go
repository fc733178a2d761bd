package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
)

// Every method writes the facts of a story in six passes at most, and those that know how much room
// the language needs keep to it, in an order that the model does not expect too.
func TestMethods(t *testing.T) {
	list, err := readFacts("../../demo/stories/testdata/dialogues.jsonl", 1)
	require.NoError(t, err)
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{})
	require.NoError(t, err)
	for _, way := range methods() {
		if way.steps != 6 {
			continue
		}
		for i, l := range languages {
			s, err := measure(m, way, l, list)
			require.NoError(t, err)
			require.LessOrEqual(t, s.passes, way.steps, way.name)
			switch way.name {
			case "no constraint":
				require.Equal(t, 1-i, s.valid, "the model writes its own order")
			case "arXiv 2508.10111":
				require.Equal(t, 1-i, s.valid, "another order runs out of room")
			default:
				require.Equal(t, 1, s.valid, "%s, %s", way.name, l.name)
			}
		}
	}
}
