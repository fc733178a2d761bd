package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/structured.md shows of texts that avoid something are stories: the demo's judge finds
// them as probable as free ones, which have 2.6. Where padding is forbidden it finds 6.9.
func TestConstrainedExamplesAreStories(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	document, err := os.ReadFile("../docs/structured.md")
	require.NoError(t, err)
	shown := regexp.MustCompile(`(?m)^ {4}unmask text .*--avoid.*$`)
	commands := shown.FindAllString(string(document), -1)
	require.NotEmpty(t, commands)
	for _, command := range commands {
		judged, err := exec.Command("sh", "-c",
			command+" -n 8 --json | unmask eval text - --stories --json").Output()
		require.NoError(t, err, command)
		var e struct {
			Samples int
			Metrics map[string]struct{ Value float64 }
		}
		require.NoError(t, json.Unmarshal(judged, &e))
		require.Equal(t, 8, e.Samples, command)
		require.Less(t, e.Metrics["perplexity"].Value, 3.5, command)
		require.Less(t, e.Metrics["slips"].Value, 0.5, command)
	}
}
