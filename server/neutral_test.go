package server_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// Fields of other servers with values that change no answer do not change it, and with others are
// refused by name. docs/serving.md has each of them.
func TestNeutralFields(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	docs, err := os.ReadFile(filepath.Join("..", "docs", "serving.md"))
	require.NoError(t, err)
	var all strings.Builder
	for name, values := range server.Neutral() {
		require.Contains(t, string(docs), "`"+name+"`")
		if name == "echo" { // which completions have
			continue
		}
		value := `"any"`
		if values != nil {
			value = strings.Join(append(slices.Clone(values), "null")[:1], "")
			refusal{with(`"` + name + `":"x"`), 400, "unsupported_parameter", name,
				"want "}.check(t, url)
		}
		all.WriteString(`,"` + name + `":` + value)
	}
	plain := with(`"seed":3,"steps":2`)
	want := ask(t, url, plain)
	given := strings.Replace(all.String(), `["text"]`, `[ "text" ]`, 1)
	given = strings.Replace(given, `"min_p":0`, `"min_p":0.0`, 1)
	got := ask(t, url, strings.TrimSuffix(plain, "}")+given+`,"top_k":-1,"n":null,"stop":"",
		"priority":0}`)
	require.Equal(t, want.Choices[0].Text, got.Choices[0].Text)
	require.Equal(t, want.Unmask.Key, got.Unmask.Key)
	for _, open := range []string{`"max_tokens":-1`, `"max_completion_tokens":-1`, `"top_k":0`} {
		require.Len(t, ask(t, url, `{"prompt":"A","steps":1,`+open+`}`).Choices, 1)
	}
	require.Greater(t, len(slices.Collect(maps.Keys(server.Neutral()))), 80)
}
