package lint

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

// Figures of documents come from bench/results; bench/README.md says how, under "Results".

var update = flag.Bool("update", false, "write the figures of all documents anew from bench/results")

// results is a file of bench/results: what one command measured on one machine.
type results map[string]any

func readResults(name string) (r results, err error) {
	data, err := os.ReadFile("bench/results/" + name + ".json")
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(data, &r)
}

// rows returns the rows whose names begin with prefix.
func (r results) rows(prefix string) (found []map[string]any) {
	list, _ := r["rows"].([]any)
	for _, one := range list {
		row, _ := one.(map[string]any)
		if name, ok := row["name"].(string); ok && strings.HasPrefix(name, prefix) {
			found = append(found, row)
		}
	}
	return found
}

func (r results) row(name string) (map[string]any, error) {
	for _, row := range r.rows(name) {
		if row["name"] == name {
			return row, nil
		}
	}
	return nil, fmt.Errorf("no row is called %q", name)
}

// at returns a number of a row.
func (r results) at(name, field string) (float64, error) {
	row, err := r.row(name)
	if err != nil {
		return 0, err
	}
	if row[field] == nil {
		return 0, fmt.Errorf("row %q has no %s", name, field)
	}
	return number(row[field])
}

// ratio returns a field of a row over that of another.
func (r results) ratio(name, other, field string) (float64, error) {
	a, err := r.at(name, field)
	if err != nil {
		return 0, err
	}
	b, err := r.at(other, field)
	return a / b, err
}

// times returns a ratio with two decimals for a table's cell, "-" where the file has not both rows.
func (r results) times(name, other, field string) string {
	x, err := r.ratio(name, other, field)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// number returns a number, or the median of a list of rounds.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case int:
		return float64(v), nil
	case []any:
		var rounds []float64
		for _, one := range v {
			x, ok := one.(float64)
			if !ok {
				return 0, fmt.Errorf("%v is not a number", one)
			}
			rounds = append(rounds, x)
		}
		if n := len(rounds); n > 0 {
			slices.Sort(rounds)
			return (rounds[(n-1)/2] + rounds[n/2]) / 2, nil
		}
	}
	return 0, fmt.Errorf("%v is not a number, nor a list of rounds", v)
}

// fill returns what a template prints of the results.
func (r results) fill(text string) (string, error) {
	two := func(f func(x, y float64) float64) func(a, b any) (float64, error) {
		return func(a, b any) (float64, error) {
			x, err := number(a)
			if err != nil {
				return 0, err
			}
			y, err := number(b)
			return f(x, y), err
		}
	}
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"row": r.row, "rows": r.rows, "at": r.at, "ratio": r.ratio, "times": r.times, "num": number,
		"div":  two(func(x, y float64) float64 { return x / y }),
		"mul":  two(func(x, y float64) float64 { return x * y }),
		"list": func(v ...any) []any { return v },
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any(r))
	return b.String(), err
}

var (
	// a template in a comment, and what it printed last
	figureBlock = regexp.MustCompile(`(?s)<!-- figures: ([\w-]+)\n(.*?)\n-->\n(.*?)<!-- end -->`)
	// a number, and the expression that gives it
	figureInline = regexp.MustCompile(`(\d+(?:\.\d+)?)<!-- figure: ([\w-]+) (.+?) -->`)
)

// withFigures returns a page with its figures written anew from the results that read returns.
func withFigures(page string, read func(name string) (results, error)) (string, error) {
	blocks, inline := figureBlock.FindAllString(page, -1), figureInline.FindAllString(page, -1)
	if n := strings.Count(page, "<!-- figures: "); n != len(blocks) {
		return "", fmt.Errorf("%d of %d tables of figures end with <!-- end -->", len(blocks), n)
	}
	if n := strings.Count(page, "<!-- figure: "); n != len(inline) {
		return "", fmt.Errorf("%d of %d figures follow a number", len(inline), n)
	}
	var failed error
	each := func(pattern *regexp.Regexp, print func(m []string, r results) (string, error)) {
		page = pattern.ReplaceAllStringFunc(page, func(all string) string {
			m := pattern.FindStringSubmatch(all)
			r, err := read(m[2])
			if pattern == figureBlock {
				r, err = read(m[1])
			}
			if err == nil {
				all, err = print(m, r)
			}
			if err != nil && failed == nil {
				failed = err
			}
			return all
		})
	}
	each(figureBlock, func(m []string, r results) (string, error) {
		text, err := r.fill(m[2])
		return fmt.Sprintf("<!-- figures: %s\n%s\n-->\n%s\n<!-- end -->", m[1], m[2],
			strings.TrimRight(text, "\n")), err
	})
	each(figureInline, func(m []string, r results) (string, error) {
		text, err := r.fill("{{" + m[3] + "}}")
		if err != nil {
			return "", err
		}
		value, err := strconv.ParseFloat(text, 64)
		_, decimals, _ := strings.Cut(m[1], ".")
		return fmt.Sprintf("%.*f<!-- figure: %s %s -->", len(decimals), value, m[2], m[3]), err
	})
	return page, failed
}

// The figures of all documents are those of the results; -update makes them so.
func TestFiguresOfDocuments(t *testing.T) {
	for _, name := range files(t, ".md") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		want, err := withFigures(string(data), readResults)
		require.NoError(t, err, name)
		if *update && want != string(data) {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
			continue
		}
		require.Equal(t, want, string(data),
			"%s: go test ./internal/lint -run Figures -update writes it", name)
	}
}

// Every file of results says where it comes from, names its rows, and is used by a document.
func TestResults(t *testing.T) {
	var text strings.Builder
	for _, name := range files(t, ".md") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text.Write(data)
	}
	list, err := filepath.Glob("bench/results/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, file := range list {
		t.Run(filepath.Base(file), func(t *testing.T) {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			require.Regexp(t, `<!-- figures?: `+name+`\s|results/`+name+`\.json`, text.String(),
				"no document uses it")
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotRegexp(t, `[" ]/[a-z]`, string(data), "a path of a machine")
			var r struct {
				Machine struct {
					Processor, Instructions string
					Cores                   int
					MemoryGB                float64 `json:"memory_gb"`
				}
				Commit, Command, Date, Note string
				Rows                        []map[string]any
			}
			require.NoError(t, json.Unmarshal(data, &r))
			require.NotEmpty(t, r.Machine.Processor)
			require.NotEmpty(t, r.Machine.Instructions)
			require.Positive(t, r.Machine.Cores)
			require.True(t, r.Machine.MemoryGB > 0 || strings.Contains(r.Note, "memory"), "memory_gb")
			require.Regexp(t, `^[0-9a-f]{7,40}$`, r.Commit)
			require.Regexp(t, `^20\d\d-\d\d-\d\d$`, r.Date)
			require.NotEmpty(t, r.Command)
			require.NotEmpty(t, r.Rows)
			seen := map[any]bool{nil: true}
			for _, row := range r.Rows {
				require.False(t, seen[row["name"]], "row %v, a name of its own", row)
				seen[row["name"]] = true
				for key, v := range row {
					if _, ok := v.([]any); ok {
						_, err := number(v)
						require.NoError(t, err, "%v, %s", row["name"], key)
					}
				}
			}
		})
	}
}

// claims are how documents say how fast something is.
var claims = regexp.MustCompile(`\d\.\d+\s+x\b|\b0\.\d+\s+of\b|\d\s+times\s+(as|slower|faster)\b|` +
	`\d\s+(tokens|texts|images|samples|requests|answers|sequences)\s+a\s+second\b|` +
	`\d\s+(ms|s|us)\s+a\s+(pass|step|reply|answer|sample|image|token)\b`)

// unmarked are the parts of documents whose claims need no results, with the reason.
var unmarked = map[string]string{
	"docs/dev/performance.md ## Weights in block formats": "what a change did to the version before it",
	"docs/dev/performance.md ## What won":                 "what a change did to the version before it",
	"docs/dev/performance.md ## AVX-512": "what would remain to be gained is computed; gorgonia's " +
		"product is compared by a Go benchmark that prints both",
	"docs/dev/performance.md ## What failed, or did not pay": "computed, not measured",
}

// README, docs/dev/performance.md and bench/README.md claim nothing about speed without results.
func TestFiguresAreMarked(t *testing.T) {
	used := map[string]bool{}
	for _, name := range []string{"README.md", "docs/dev/performance.md", "bench/README.md"} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text := figureBlock.ReplaceAllString(string(data), "")
		text = figureInline.ReplaceAllString(text, "")
		for _, section := range strings.Split("\n"+text, "\n#") {
			heading, _, _ := strings.Cut(section, "\n")
			part := name + " #" + heading
			found := claims.FindAllString(section, -1)
			used[part] = len(found) > 0
			if unmarked[part] == "" {
				require.Empty(t, found, "%s: without results", part)
			}
		}
	}
	for part := range unmarked {
		require.True(t, used[part], "%s has no claim that needs an exception", part)
	}
}

func TestWithFigures(t *testing.T) {
	read := func(name string) (r results, err error) {
		if name != "some" {
			return nil, fmt.Errorf("no results %s", name)
		}
		return r, json.Unmarshal([]byte(`{"machine": {"cores": 2}, "rows": [
			{"name": "a/ours", "seconds": [3, 1, 2], "passes": 4},
			{"name": "a/theirs", "seconds": [2.5, 3.5], "passes": 8}]}`), &r)
	}
	for _, test := range []struct{ name, page, want, err string }{
		{"nothing", "text\n", "text\n", ""},
		{"a table", "<!-- figures: some\n| |\n|---|\n{{range rows \"a/\"}}| {{num .seconds}} |\n" +
			"{{end}}\n-->\nold\n<!-- end -->\n", "<!-- figures: some\n| |\n|---|\n" +
			"{{range rows \"a/\"}}| {{num .seconds}} |\n{{end}}\n-->\n| |\n|---|\n| 2 |\n| 3 |\n" +
			"<!-- end -->\n", ""},
		{"decimals stay", "is 9.99<!-- figure: some div (at \"a/ours\" \"seconds\") 3 --> of\n",
			"is 0.67<!-- figure: some div (at \"a/ours\" \"seconds\") 3 --> of\n", ""},
		{"whole numbers", "on 7<!-- figure: some .machine.cores --> cores",
			"on 2<!-- figure: some .machine.cores --> cores", ""},
		{"a ratio that is not there",
			"<!-- figures: some\n{{times \"a/ours\" \"b\" \"seconds\"}}\n-->\n<!-- end -->",
			"<!-- figures: some\n{{times \"a/ours\" \"b\" \"seconds\"}}\n-->\n-\n<!-- end -->", ""},
		{"no end", "<!-- figures: some\n| |\n-->\n| |\n", "",
			"0 of 1 tables of figures end with <!-- end -->"},
		{"no number", "is <!-- figure: some num 1 -->", "", "0 of 1 figures follow a number"},
		{"no results", "1<!-- figure: other num 1 -->", "", "no results other"},
		{"no row", "1<!-- figure: some at \"a\" \"seconds\" -->", "", `no row is called "a"`},
		{"no field", "1<!-- figure: some at \"a/ours\" \"rate\" -->", "", `row "a/ours" has no rate`},
		{"no key", "1<!-- figure: some .threads -->", "", "threads"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := withFigures(test.page, read)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// A script keeps every round of a command that prints lines of JSON.
func TestResultsOfACommand(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	folder := t.TempDir()
	line := `{"name": "a", "seconds": 0.5, "passes": 3}`
	for _, test := range []struct{ name, command, err string }{
		{"two rounds", `echo '` + line + `'; echo not JSON`, ""},
		{"no lines", "true", "prints no JSON"},
		{"a row twice", `echo '` + line + line + `' | sed 's/}{/}\n{/'`, "two rows are called a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := filepath.Join(folder, "out.json")
			said, err := exec.Command(python, "tools/peers/results.py", "--out", out, "--rounds", "2",
				"--", "sh", "-c", test.command).CombinedOutput()
			if test.err != "" {
				require.Error(t, err)
				require.Contains(t, string(said), test.err)
				return
			}
			require.NoError(t, err, string(said))
			data, err := os.ReadFile(out)
			require.NoError(t, err)
			require.True(t, bytes.Contains(data, []byte(
				`{"name": "a", "seconds": [0.5, 0.5], "passes": 3}`)), string(data))
			var r results
			require.NoError(t, json.Unmarshal(data, &r))
			require.NotEmpty(t, r["machine"].(map[string]any)["processor"])
			require.Contains(t, r["command"], "--rounds 2")
		})
	}
}
