package textfile

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// One mark at the beginning is dropped, and nothing else, however the reader below cuts the text.
func TestReaderDropsOneMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", Mark, "\xef", "\xef\xbb", "\xef\xbba", Mark + Mark}).
			Draw(t, "start") + rapid.String().Draw(t, "rest")
		readers := map[string]io.Reader{
			"whole":  strings.NewReader(text),
			"bytes":  iotest.OneByteReader(strings.NewReader(text)),
			"errors": iotest.DataErrReader(strings.NewReader(text)),
		}
		for name, r := range readers {
			got, err := io.ReadAll(NewReader(r))
			require.NoError(t, err)
			require.Equal(t, strings.TrimPrefix(text, Mark), string(got), name)
		}
		require.Equal(t, strings.TrimPrefix(text, Mark), TrimMark(text))
	})
}

// A line that is there is returned before the next byte comes.
func TestReaderDoesNotWait(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	go out.Write([]byte("a"))
	p := make([]byte, 8)
	n, err := NewReader(in).Read(p)
	require.NoError(t, err)
	require.Equal(t, "a", string(p[:n]))
}

func TestLineEnd(t *testing.T) {
	for text, want := range map[string]string{
		"a\n": "a", "a\r\n": "a", "a": "a", "a\n\n": "a\n", "a\r": "a\r", "\r\n": "", "": "",
	} {
		require.Equal(t, want, TrimLineEnd(text))
	}
}
