package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	goTest   = regexp.MustCompile("(?m)`go test [^`]+`|^ {4}.*\\bgo test .*$")
	word     = regexp.MustCompile(`'[^']*'|[^\s` + "`" + `']+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`)
)

// Each name in -run and -bench of a `go test` that a document shows is that of a test: a command
// whose pattern matches nothing passes without testing anything.
func TestCommandsOfDocuments(t *testing.T) {
	seen := 0
	for _, name := range files(t, ".md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, command := range goTest.FindAllString(string(text), -1) {
			folders, patterns := asked(command)
			for _, pattern := range patterns {
				seen++
				require.Truef(t, slices.ContainsFunc(testsIn(t, folders),
					regexp.MustCompile(pattern).MatchString), "%s: no test is named %s: %s", name, pattern,
					command)
			}
		}
	}
	require.Greater(t, seen, 20)
}

// asked returns the folders of a go test command, none for all, and the names that its patterns
// list. A pattern that is to match nothing, such as ^$, has none.
func asked(command string) (folders, patterns []string) {
	words := word.FindAllString(command, -1)
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "..."):
			folders = append(folders, filepath.Clean(w))
		case (w == "-run" || w == "-bench") && i+1 < len(words):
			for p := range strings.SplitSeq(strings.Trim(words[i+1], "'"), "|") {
				p, _, _ = strings.Cut(p, "/") // and names of subtests
				if !slices.Contains([]string{"^$", "-", "xxx"}, p) {
					patterns = append(patterns, p)
				}
			}
		}
	}
	return folders, patterns
}

// testsIn returns the names of the tests and benchmarks in folders, or everywhere.
func testsIn(t *testing.T, folders []string) (names []string) {
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") ||
			len(folders) > 0 && !slices.Contains(folders, filepath.Dir(name)) {
			continue
		}
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, match := range testFunc.FindAllSubmatch(src, -1) {
			names = append(names, string(match[1]))
		}
	}
	return names
}

func TestAskedTests(t *testing.T) {
	folders, patterns := asked("`go test ./fleet -run\n'Names|Over' -bench Hub`")
	require.Equal(t, []string{"fleet"}, folders)
	require.Equal(t, []string{"Names", "Over", "Hub"}, patterns)
}
