package terminal

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"abc\r":                  "abc\r",
		"\x1b[1~a\x1b[4~b\r":     "\x1b[Ha\x1b[Fb\r",
		"\x1bOHgr\u00f6\x1bOF":   "\x1b[Hgr\u00f6\x1b[F",
		"abc\x03":                "abc\x05\x15", // the line is removed
		"abc\x03\x03":            "abc\x05\x15!",
		"abc\x03\x03\x03":        "abc\x05\x15!\x03",
		"abc\r\x03":              "abc\r!", // nothing stands in the line
		"\x03":                   "!",
		"\x03\x03":               "!\x03",
		"\x03a\r\x03":            "!a\r!",
		strings.Repeat("a", 999): strings.Repeat("a", 999),
	} {
		k := &keyReader{in: strings.NewReader(sent)}
		k.resize = func() {}
		k.warn = func() { k.pending = append(k.pending, '!') }
		got, err := io.ReadAll(k)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%q", sent)
	}
}

// A Read that waits ends with the context.
func TestStdin(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	before := os.Stdin
	defer func() { os.Stdin = before }()
	os.Stdin = r
	ctx, cancel := context.WithCancel(t.Context())
	_, err = w.WriteString("some text")
	require.NoError(t, err)
	got := make([]byte, 99)
	n, err := Stdin{ctx}.Read(got)
	require.NoError(t, err)
	require.Equal(t, "some text", string(got[:n]))
	ended := make(chan error)
	go func() {
		_, err := Stdin{ctx}.Read(got)
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, w.Close())
	_, err = Stdin{t.Context()}.Read(got)
	require.Equal(t, io.EOF, err)
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"one two three":               "one two \nthree",
		"one\ntwo three":              "one\ntwo three",
		"abcdefghijklm  no":           "abcdefghijklm\nno",
		"\u4e2d\u6587\u4e2d\u6587 ab": "\u4e2d\u6587\u4e2d\u6587 \nab",
		"a b c d e f":                 "a b c d e\nf", // a blank has no room
		"a b c d e  f ":               "a b c d e\nf ",
		"a b c d e ":                  "a b c d e",
		"a b c d \nefghi":             "a b c d \nefghi", // only its first line counts
		"a b c d e \nf":               "a b c d e\nf",
		"  a":                         "  a",
	} {
		require.Equal(t, want, WrapText(text, 9), "%q", text)
	}
}
