package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const newPath = "example.org/you/unmask"

// copyModule copies the files that git knows, the new ones too, to a folder.
func copyModule(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		t.Skip("not a checkout of git")
	}
	dir := t.TempDir()
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		data, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, data, 0o644))
	}
	return dir
}

// goCommand runs the go command in a folder and returns what it prints.
func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
	return string(out)
}

// After the rewrite nothing imports the old path, in any module, and the packages are found.
func TestRewriteModule(t *testing.T) {
	dir := copyModule(t)
	changed, err := rewriteModule(dir, newPath)
	require.NoError(t, err)
	require.Contains(t, changed, "go.mod")
	require.Contains(t, changed, "unmask.go")
	require.Contains(t, changed, "README.md")
	require.Contains(t, changed, "testdata/outside/go.mod")

	listed := goCommand(t, dir, nil, "list", "-test", "-f", "{{join .Imports \"\\n\"}}", "./...")
	require.Contains(t, listed, newPath+"/samplers\n")
	for line := range strings.Lines(listed) {
		require.NotRegexp(t, `^unmask(/|$)`, strings.TrimSpace(line))
	}
	for _, document := range []string{"README.md", "docs/library.md"} {
		text, err := os.ReadFile(filepath.Join(dir, document))
		require.NoError(t, err)
		require.Contains(t, string(text), "go get "+newPath+"@latest", document)
		require.NotContains(t, string(text), "no module path", document)
	}

	again, err := rewriteModule(dir, newPath)
	require.NoError(t, err)
	require.Empty(t, again, "a second time changes nothing")
}

func TestRewriteRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module unmask\n"), 0o644))
	_, err := rewriteModule(dir, "not a path")
	require.ErrorContains(t, err, `path is "not a path", want one such as example.org/you/unmask`)
	_, err = rewriteModule(t.TempDir(), newPath)
	require.ErrorIs(t, err, os.ErrNotExist)
}

var install = flag.Bool("install", false,
	"also install the program and build another module's from a proxy, which compiles everything")

// useOfModule is a program of another module.
const useOfModule = `package main

import (
	"context"
	"fmt"

	"example.org/you/unmask"
	"example.org/you/unmask/demo"
)

func main() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	answer, err := m.Write(context.Background(), unmask.Request{Prompt: "Once upon a time", Seed: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Text)
}
`

// From an empty folder, go install and go get find the module at a proxy and do its main job. What
// the rules, the exact models and the tokenizers bring with them is small.
func TestInstall(t *testing.T) {
	if !*install {
		t.Skip("without -install: the gate's step module gives it")
	}
	dir := copyModule(t)
	_, err := rewriteModule(dir, newPath)
	require.NoError(t, err)

	proxy := t.TempDir()
	versions := filepath.Join(proxy, "example.org/you/unmask/@v")
	require.NoError(t, os.MkdirAll(versions, 0o755))
	const version = "v0.2.0"
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(versions, version+".mod"), mod, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(versions, version+".info"),
		[]byte(`{"Version":"`+version+`"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(versions, "list"), []byte(version+"\n"), 0o644))
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, modzip.CreateFromDir(archive,
		module.Version{Path: newPath, Version: version}, dir))
	require.NoError(t, archive.Close())

	upstream := strings.TrimSpace(goCommand(t, dir, nil, "env", "GOPROXY"))
	bin := t.TempDir()
	env := []string{"GOPROXY=file://" + proxy + "," + upstream, "GONOSUMDB=example.org",
		"GONOSUMCHECK=1", "GOFLAGS=-mod=mod -modcacherw", "GOBIN=" + bin, "CGO_ENABLED=0"}

	empty := t.TempDir()
	goCommand(t, empty, env, "install", newPath+"/cmd/unmask@"+version)
	story, err := exec.Command(filepath.Join(bin, "unmask"), "text", "--prompt", "Once upon a time",
		"--seed", "1").Output()
	require.NoError(t, err)
	require.Regexp(t, "^Once upon a time ", string(story))

	mine := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "main.go"), []byte(useOfModule), 0o644))
	goCommand(t, mine, env, "mod", "init", "example.org/mine")
	goCommand(t, mine, env, "get", newPath+"@"+version)
	goCommand(t, mine, env, "mod", "tidy")
	require.Equal(t, string(story), goCommand(t, mine, env, "run", "."))

	// What an importer of one package compiles. A server, plots and a message broker are not in it.
	for _, name := range []string{"samplers", "exact", "tokenizers"} {
		dependencies := goCommand(t, mine, env, "list", "-deps", newPath+"/"+name)
		require.NotRegexp(t, "nats-io|gonum.org/v1/plot|net/http/httptest|prometheus|spf13/cobra",
			dependencies, name)
		t.Logf("%s compiles %d packages", name, strings.Count(dependencies, "\n"))
	}
}
