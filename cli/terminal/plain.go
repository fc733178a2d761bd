package terminal

import (
	"fmt"
	"regexp"
)

// controls are the control characters but tabs and ends of lines: those of ASCII, and U+0080 to
// U+009F in UTF-8.
var controls = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x{9f}]`)

// Plain returns a text in which control characters, which a terminal would obey, are spelled as in
// Go, such as \x1b.
func Plain(text string) string {
	return controls.ReplaceAllStringFunc(text, func(c string) string {
		if len(c) == 1 {
			return fmt.Sprintf(`\x%02x`, c)
		}
		return fmt.Sprintf(`\u%04x`, []rune(c)[0])
	})
}
