package unmask_test

import (
	"bytes"
	"cmp"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columns is how long a line of Go may be. One with a string of `long` bytes may be longer.
const columns, long = 100, 40

func TestLinesAreShort(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return cmp.Or(err, filepath.SkipDir)
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(src[:min(len(src), 200)], []byte("// Code generated")) {
			return nil
		}
		read++
		for _, line := range longLines(src) {
			t.Errorf("%s:%d has more than %d columns", path, line, columns)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, read, 400)
}

// longLines returns the numbers of lines with more than columns characters, without those with a
// long string and those for the toolchain.
func longLines(src []byte) (numbers []int) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	excused := map[int]bool{}
	for pos, t, text := s.Scan(); t != token.EOF; pos, t, text = s.Scan() {
		if t == token.STRING && len(text) >= long {
			first := file.Line(pos)
			for i := range strings.Count(text, "\n") + 1 {
				excused[first+i] = true
			}
		}
	}
	for i, line := range strings.Split(string(src), "\n") {
		if utf8.RuneCountInString(line) > columns && !excused[i+1] && !directive(line) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// directive reports whether a line is for the toolchain, which does not allow it to be split.
func directive(line string) bool { return strings.HasPrefix(line, "//go:") }

func TestLongLinesAreSeen(t *testing.T) {
	name := strings.Repeat("x", columns)
	src := "package p\n\n// " + name + "\nvar a = \"" + name + "\"\n\nvar " + name + " = 1\n\n" +
		"var b = `\n" + name + "x\n`\n"
	require.Equal(t, []int{3, 6}, longLines([]byte(src)))
}

// The command holds flags, calls and printing only; the logic is in libraries.
func TestLinesOfTheCommandLine(t *testing.T) {
	const most = 3000
	lines := 0
	for _, pattern := range []string{"cli/*.go", "cmd/unmask/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			lines += bytes.Count(src, []byte("\n"))
		}
	}
	require.LessOrEqual(t, lines, most)
}
