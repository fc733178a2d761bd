package terminal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/cli/terminal"
)

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"text":          {"Lily\tand é 日 🙂\n", "Lily\tand é 日 🙂\n"},
		"escape":        {"a\x1b]0;title\x07b", `a\x1b]0;title\x07b`},
		"C1 in UTF-8":   {"a\u009b31mb\u0085", `a\u009b31mb\u0085`},
		"carriage":      {"safe\rgone", `safe\x0dgone`},
		"delete":        {"ab\x7f\b", `ab\x7f\x08`},
		"invalid UTF-8": {"a\xff\xc3b", "a\xff\xc3b"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, terminal.EscapeControls(c.text)) })
	}
}
