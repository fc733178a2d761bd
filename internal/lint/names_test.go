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

// A package says what it is about. Names that say nothing are refused.
func TestPackagesAreNamed(t *testing.T) {
	for _, name := range files(t, ".go") {
		base := filepath.Base(filepath.Dir(name))
		require.NotContains(t, []string{"util", "utils", "common", "helper", "helpers", "misc", "base",
			"core", "shared", "types"}, base, name)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links between documents lead to files that exist, and to headings that exist.
func TestLinksOfDocuments(t *testing.T) {
	pages := map[string]string{}
	for _, name := range files(t, ".md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		pages[name] = string(text)
	}
	seen := 0
	for name, text := range pages {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			seen++
			file, heading, _ := strings.Cut(target, "#")
			to := name
			if file != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
				_, err := os.Stat(to)
				require.NoErrorf(t, err, "%s links to %s", name, target)
			}
			if heading != "" {
				require.Containsf(t, headings(pages[to]), heading, "%s links to %s", name, target)
			}
		}
	}
	require.Greater(t, seen, 50)
}

// fence matches blocks of code, in which brackets are no links.
var fence = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

var punctuation = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)

// headings returns the anchors of a page's headings.
func headings(page string) (list []string) {
	for line := range strings.Lines(fence.ReplaceAllStringFunc(page, func(code string) string {
		if strings.HasPrefix(code, "```") {
			return ""
		}
		return code
	})) {
		if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
			anchor := punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			list = append(list, strings.ReplaceAll(anchor, " ", "-"))
		}
	}
	return slices.Compact(list)
}
