package lint

import (
	"cmp"
	"errors"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the rows of ARCHITECTURE.md's table, top to bottom: a package imports only packages in
// rows below its own, or inside its own folder. Packages in one row do not import each other.
type layers struct {
	rows  [][]string
	named map[string][]string // the table's rows by name
}

var (
	inside = regexp.MustCompile(`\([^)]*\)`)
	quoted = regexp.MustCompile("`([^`]+)`")
)

// readLayers reads the table's columns: name, packages, description. A semicolon between packages
// begins a row of its own; packages in parentheses are inside the folder before them.
func readLayers(t *testing.T) layers {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	l := layers{named: map[string][]string{}}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		for part := range strings.SplitSeq(inside.ReplaceAllString(cells[2], ""), ";") {
			var row []string
			for _, match := range quoted.FindAllStringSubmatch(part, -1) {
				name := strings.TrimSuffix(match[1], "/...")
				if name == "unmask" {
					name = "."
				}
				row = append(row, name)
			}
			l.rows = append(l.rows, row)
			name := strings.TrimSpace(cells[1])
			l.named[name] = append(l.named[name], row...)
		}
	}
	require.Greater(t, len(l.rows), 10)
	return l
}

// of returns the row of a package and its folder in the table.
func (l layers) of(pkg string) (row int, folder string) {
	for i, names := range l.rows {
		for _, name := range names {
			if pkg == name || strings.HasPrefix(pkg, name+"/") && name != "." {
				if row > 0 && len(name) < len(folder) {
					continue // backend/cpu is in a row of its own
				}
				row, folder = i+1, name
			}
		}
	}
	return row, folder
}

// apart reports whether two packages must not import each other although one is in a row below:
// networks and samplers meet in model.Marginals only.
func (l layers) apart(from, to string) bool {
	switch _, folder := l.of(to); {
	case slices.Contains(l.named["networks"], from) || slices.Contains(l.named["codecs"], from):
		return folder == "samplers"
	case from == "samplers":
		return slices.Contains([]string{"nn", "attention", "weights", "backend", "backend/cpu",
			"backend/cuda"}, folder) || to == "internal/simd"
	case from == "internal":
		return strings.HasPrefix(folder, "backend")
	}
	return false
}

// builds returns the build contexts that the code is written for.
func builds() map[string]build.Context {
	out := map[string]build.Context{}
	for name, change := range map[string]func(c *build.Context){
		"linux/amd64":   func(c *build.Context) {},
		"linux/arm64":   func(c *build.Context) { c.GOARCH = "arm64" },
		"linux/386":     func(c *build.Context) { c.GOARCH = "386" },
		"windows/amd64": func(c *build.Context) { c.GOOS = "windows" },
		"darwin/arm64":  func(c *build.Context) { c.GOOS, c.GOARCH = "darwin", "arm64" },
		"purego":        func(c *build.Context) { c.BuildTags = []string{"purego"} },
		"nofleet":       func(c *build.Context) { c.BuildTags = []string{"nofleet"} },
		"nocuda":        func(c *build.Context) { c.BuildTags = []string{"nocuda"} },
		"cgo":           func(c *build.Context) { c.CgoEnabled = true },
	} {
		c := build.Default
		c.GOOS, c.GOARCH, c.CgoEnabled = "linux", "amd64", false
		change(&c)
		out[name] = c
	}
	return out
}

func TestLayers(t *testing.T) {
	l, seen := readLayers(t), map[string]bool{}
	contexts := builds()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := filepath.Base(path); path != "." &&
			(strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return filepath.SkipDir
		}
		from := filepath.ToSlash(path)
		for name, c := range contexts {
			p, err := c.ImportDir(path, 0)
			if none, ok := errors.AsType[*build.NoGoError](err); ok && none != nil {
				continue // not in this build
			}
			require.NoErrorf(t, err, "%s, %s", from, name)
			row, folder := l.of(from)
			require.NotZerof(t, row, "package %s is in no row of ARCHITECTURE.md", from)
			seen[folder] = true
			for _, imported := range p.Imports {
				to, ours := strings.CutPrefix(imported, modulePath(t)+"/")
				if imported == modulePath(t) {
					to, ours = ".", true
				}
				below, other := l.of(to)
				if !ours || other == folder {
					continue
				}
				require.NotZerof(t, below, "package %s is in no row of ARCHITECTURE.md", to)
				require.Greaterf(t, below, row, "%s imports %s, which is not below it (%s)", from, to, name)
				require.Falsef(t, l.apart(folder, to), "%s imports %s (%s)", from, to, name)
			}
		}
		return nil
	})
	require.NoError(t, err)
	for _, row := range l.rows {
		for _, name := range row {
			require.Truef(t, seen[name], "ARCHITECTURE.md has %s, which is no package", name)
		}
	}
}

// The scheduler of the server knows no HTTP, which only the folder around it speaks.
func TestEngineKnowsNoHTTP(t *testing.T) {
	for name, c := range builds() {
		p, err := c.ImportDir("server/engine", 0)
		require.NoError(t, err, name)
		require.NotEmpty(t, p.Imports)
		require.NotContains(t, p.Imports, "net/http", name)
	}
}

// imports returns the module's packages with those of the module that they import in one build,
// tests left out. The root is ".".
func imports(t *testing.T, c build.Context) map[string][]string {
	out := map[string][]string{}
	for _, name := range files(t, ".go") {
		dir := filepath.Dir(name)
		if _, known := out[dir]; known || strings.Contains(dir, "testdata") {
			continue
		}
		p, err := c.ImportDir(dir, 0)
		if err != nil {
			continue // not in this build, as TestLayers checks
		}
		out[dir] = nil
		for _, imported := range p.Imports {
			if to, ours := strings.CutPrefix(imported+"/", modulePath(t)+"/"); ours {
				out[dir] = append(out[dir], cmp.Or(strings.TrimSuffix(to, "/"), "."))
			}
		}
	}
	require.Greater(t, len(out), 60)
	return out
}

// folder returns the top-level folder of a package.
func folder(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// internal imports internal only; the root, server and generate import nothing of research.
func TestWhatMayBeImported(t *testing.T) {
	for name, c := range builds() {
		for from, list := range imports(t, c) {
			for _, to := range list {
				switch folder(from) {
				case "internal":
					require.Equalf(t, "internal", folder(to), "%s imports %s (%s)", from, to, name)
				case ".", "server", "generate":
					require.NotEqualf(t, "research", folder(to), "%s imports %s (%s)", from, to, name)
				}
			}
		}
	}
}

// What computes with no tensors brings no library of them into a program that imports it.
func TestRulesBringNoTensors(t *testing.T) {
	light := []string{"samplers", "grammar", "grammar/schema", "tokenizers", "tokenizers/chat",
		"param", "backend/rank", "media/images", "media/sound", "demo"}
	for _, name := range light {
		out, err := exec.Command("go", "list", "-deps", "./"+name).Output()
		require.NoError(t, err, name)
		require.Contains(t, string(out), modulePath(t)+"/"+name)
		require.NotRegexp(t, "gorgonia|arrow|protobuf", string(out), name)
	}
}

// Folders make no circle of imports.
func TestFoldersMakeNoCircle(t *testing.T) {
	for name, c := range builds() {
		next := map[string][]string{} // the folders that a folder imports
		for from, list := range imports(t, c) {
			for _, to := range list {
				if folder(from) != folder(to) {
					next[folder(from)] = append(next[folder(from)], folder(to))
				}
			}
		}
		done := map[string]bool{}
		var visit func(at string, path []string)
		visit = func(at string, path []string) {
			require.NotContainsf(t, path, at, "%s, from %s back to it (%s)", path, at, name)
			if !done[at] {
				for _, to := range next[at] {
					visit(to, append(path, at))
				}
				done[at] = true
			}
		}
		for _, at := range slices.Sorted(maps.Keys(next)) {
			visit(at, nil)
		}
	}
}
