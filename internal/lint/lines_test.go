package lint

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columns is how long a line of Go may be. One with a string of `long` bytes may be longer.
const columns, long = 100, 40

func TestLinesAreShort(t *testing.T) {
	read := 0
	for _, name := range files(t, ".go") {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		if bytes.Contains(src[:min(len(src), 200)], []byte("// Code generated")) {
			continue
		}
		read++
		for _, line := range longLines(src) {
			t.Errorf("%s:%d has more than %d columns", name, line, columns)
		}
	}
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
