package stories

import (
	"regexp"
	"strings"
)

var (
	words = regexp.MustCompile(`[A-Za-z]+`)
	marks = regexp.MustCompile(`[.,;:!?]\s*[.,;:!?]`)
	small = regexp.MustCompile(`[.!?]\s+[a-z]|\."\s+[a-z]`)
)

// Slips returns how many errors of writing a text of the recipe has that need no knowledge of its
// story: a word twice in a row, two marks in a row, and a sentence that begins with a small letter.
// Stories of the recipe have none.
func Slips(text string) int {
	return doubled(text) + len(marks.FindAllString(text, -1)) + len(small.FindAllString(text, -1))
}

// doubled returns how many words repeat the word before them, with nothing but blanks between.
func doubled(text string) (count int) {
	at := words.FindAllStringIndex(text, -1)
	for i := 1; i < len(at); i++ {
		before, this := at[i-1], at[i]
		between := text[before[1]:this[0]]
		if strings.TrimSpace(between) == "" &&
			strings.EqualFold(text[before[0]:before[1]], text[this[0]:this[1]]) {
			count++
		}
	}
	return count
}
