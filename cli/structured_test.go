package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/structured.md shows of texts under a constraint are stories, or beginnings of some: the
// demo's judge finds them as probable as free ones, which have 2.6. Where padding is forbidden it
// finds 6.9.
func TestConstrainedExamplesAreStories(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	document, err := os.ReadFile("../docs/structured.md")
	require.NoError(t, err)
	shown := regexp.MustCompile(`(?m)^ {4}unmask text .*--(avoid|regex|choice).*$`)
	commands := shown.FindAllString(string(document), -1)
	judged := 0
	for _, command := range commands {
		if strings.Contains(command, "--json") || strings.Contains(command, "--steps 1") {
			continue // these are about choices, and no whole sentences
		}
		judged++
		flags := ""
		if strings.Contains(command, "--avoid") { // more than a sentence
			flags = "--stories"
		}
		m := judgedBy(t, command, flags)
		require.Less(t, m["perplexity"].Value, 3.5, command)
		require.Less(t, m["slips"].Value, 0.5, command)
	}
	require.GreaterOrEqual(t, judged, 3)
}

// judgement has what a judge finds, by the names of metrics.
type judgement map[string]struct{ Value float64 }

// judgedBy returns what the demo's judge finds of eight texts of a command.
func judgedBy(t *testing.T, command, flags string) judgement {
	out, err := exec.Command("sh", "-c",
		command+" -n 8 --json | unmask eval text - --json "+flags).Output()
	require.NoError(t, err, command)
	var e struct {
		Samples int
		Metrics judgement
	}
	require.NoError(t, json.Unmarshal(out, &e))
	require.Equal(t, 8, e.Samples, command)
	return e.Metrics
}

// On the demo, avoiding what does not occur gives the demo's own stories, and so their perplexity
// and slips: by its own recipe, with a prompt and in a chat.
func TestAvoidingNothingGivesTheSameTexts(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	for _, command := range []string{
		"unmask text --steps 64",
		"unmask text --prompt 'Once upon a time' --length 64",
		"unmask text --chat 'Tell me about Lily and a fox.'",
	} {
		written := func(flags string) string {
			out, err := exec.Command("sh", "-c", command+" -n 3 --seed 1 "+flags).Output()
			require.NoError(t, err, command)
			return string(out)
		}
		require.Equal(t, written(""), written("--avoid zzzz"), command)
	}
}
