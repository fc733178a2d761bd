package terminal

import (
	"io"
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
		"abc\x03\x03":            "abc\x05\x15\x03",
		"abc\r\x03":              "abc\r\x03", // nothing stands in the line
		"\x03":                   "\x03",
		strings.Repeat("a", 999): strings.Repeat("a", 999),
	} {
		got, err := io.ReadAll(&keys{in: strings.NewReader(sent)})
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%q", sent)
	}
}
