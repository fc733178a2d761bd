// Command modulepath gives the module another path, so that other modules can import and install
// it:
//
//	go run ./tools/modulepath example.org/you/unmask
//
// It rewrites go.mod and those of the modules inside, all imports, the names of packages in texts
// of Go code, and what README.md and docs/library.md say about installing. It changes files in
// place and prints their names; run it in a clean checkout, and look at the difference with git.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/modulepath PATH [DIR]")
		os.Exit(2)
	}
	dir := "."
	if len(os.Args) == 3 {
		dir = os.Args[2]
	}
	changed, err := rewriteModule(dir, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range changed {
		fmt.Println(name)
	}
}

// rewriteModule gives the module in dir another path. It returns the names of the changed files.
func rewriteModule(dir, newPath string) (changed []string, err error) {
	if err := module.CheckPath(newPath); err != nil {
		return nil, fmt.Errorf("path is %q, want one such as example.org/you/unmask: %w", newPath, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	oldPath := modfile.ModulePath(data)
	if oldPath == "" {
		return nil, fmt.Errorf("go.mod names no module")
	}
	folders, err := topFolders(dir)
	if err != nil {
		return nil, err
	}
	r := newRewriter(oldPath, newPath, folders)

	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rewrite := r.rewriteFor(filepath.ToSlash(name))
		if rewrite == nil || !entry.Type().IsRegular() {
			return nil
		}
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after := rewrite(before)
		if bytes.Equal(before, after) {
			return nil
		}
		changed = append(changed, filepath.ToSlash(name))
		return os.WriteFile(path, after, 0o644)
	})
	return changed, err
}

// topFolders returns the folders of dir that may hold packages. A text such as "unmask/fleet" names
// a package only if what follows the module's path is one of them.
func topFolders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			folders = append(folders, regexp.QuoteMeta(entry.Name()))
		}
	}
	return folders, nil
}

// rewriter holds what is replaced.
type rewriter struct {
	newPath string

	// packageName matches the path of a package of the module in quotes, or in backquotes.
	packageName *regexp.Regexp

	// rootImport matches an import of the module's root.
	rootImport *regexp.Regexp

	// moduleLine matches the module's path where go.mod files have it.
	moduleLine *regexp.Regexp
}

// newRewriter returns what replaces the path of the module: in imports and quoted names of its
// packages, in imports of its root, and in go.mod.
func newRewriter(oldPath, newPath string, folders []string) *rewriter {
	old := regexp.QuoteMeta(oldPath)
	return &rewriter{
		newPath:     newPath,
		packageName: regexp.MustCompile("([\"`])" + old + `/(` + strings.Join(folders, "|") + `)\b`),
		rootImport:  regexp.MustCompile(`(?m)(^import |^\s*(?:\w+ )?|import \(|; )"` + old + `"(\s*$|;|\))`),
		moduleLine:  regexp.MustCompile(`(?m)((?:^module|^require|^replace|^\t) ?)` + old + `(\s|/|$)`),
	}
}

// rewriteFor returns the function that rewrites a file, nil for a file that stays as it is.
func (r *rewriter) rewriteFor(name string) func([]byte) []byte {
	base := filepath.Base(name)
	switch {
	case base == "go.mod":
		return r.rewriteModFile
	case name == "README.md" || name == "docs/library.md":
		return func(data []byte) []byte { return r.rewritePackages(r.rewriteInstall(data)) }
	case slices.Contains([]string{".go", ".md", ".sh"}, filepath.Ext(base)):
		return r.rewritePackages
	}
	return nil
}

// rewriteModFile rewrites the lines of a go.mod that name the module.
func (r *rewriter) rewriteModFile(data []byte) []byte {
	return r.moduleLine.ReplaceAll(data, []byte("${1}"+r.newPath+"${2}"))
}

// rewritePackages rewrites imports and other names of packages.
func (r *rewriter) rewritePackages(data []byte) []byte {
	data = r.packageName.ReplaceAll(data, []byte("${1}"+r.newPath+"/${2}"))
	return r.rootImport.ReplaceAll(data, []byte("${1}\""+r.newPath+"\"${2}"))
}

// noPath is the part of a document that says that the module has no path yet. What stands between
// its two comments goes away, and the commands of the new path come in its place.
var noPath = regexp.MustCompile(`(?s)<!-- no module path -->.*?<!-- end -->`)

// rewriteInstall puts the commands of a module with a path in place of the text about its absence.
func (r *rewriter) rewriteInstall(data []byte) []byte {
	install := fmt.Sprintf("    go install %s/cmd/unmask@latest   # the program\n"+
		"    go get %s@latest                  # in a module of yours", r.newPath, r.newPath)
	return noPath.ReplaceAll(data, []byte(strings.ReplaceAll(install, "$", "$$")))
}
