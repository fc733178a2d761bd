package chat

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusals find what an error calls not supported.
var refusals = regexp.MustCompile(`^(line \d+: )?((filter|statement|function|method) ([a-z_]+)|.*) ` +
	`((is|are) not supported|cannot be written|is not a whole number of 64 bits)`)

// Every filter, test, method and statement of Jinja (testdata/table.py) gives Jinja's text for
// values of all kinds, or an error where it gives one, or is refused by its name.
func TestTableOfJinja(t *testing.T) {
	data, err := os.ReadFile("testdata/table.json")
	require.NoError(t, err)
	var rows [][2]*string
	require.NoError(t, json.Unmarshal(data, &rows))
	equal, refused := 0, map[string][]string{} // names by kind
	setup := `{% set D = [{'k': 1, 'n': 'x'}, {'k': 'B', 'm': 2}, {'n': 'b', 'k': 1}] %}`
	for _, row := range rows {
		source, want := *row[0], row[1]
		var out text
		tmpl, err := Parse(setup+source, nil)
		if err == nil {
			out, err = tmpl.render([]byte("[]"), Options{})
		}
		if err != nil && want != nil {
			found := refusals.FindStringSubmatch(err.Error())
			if found == nil {
				t.Errorf("%s\nwant %q\nfound error %v", source, *want, err)
				continue
			}
			if kind, name := found[3], found[4]; !slices.Contains(refused[kind], name) {
				refused[kind] = append(refused[kind], name)
			}
			continue
		}
		switch {
		case err == nil && want == nil:
			t.Errorf("%s\nwant an error\nfound %q", source, out.s)
		case err == nil && out.s != *want:
			t.Errorf("%s\nwant  %q\nfound %q", source, *want, out.s)
		default:
			equal++
		}
	}
	require.GreaterOrEqual(t, equal, 3400)
	require.ElementsMatch(t, strings.Fields(strings.Replace(unsupportedFilters, "random", "", 1)),
		refused["filter"])
	require.ElementsMatch(t, []string{"autoescape", "block", "print", "raw", "with"},
		refused["statement"])
	require.ElementsMatch(t, []string{"cycler", "joiner", "lipsum"}, refused["function"])
}
