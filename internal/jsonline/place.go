package jsonline

import (
	"bytes"
	"strconv"
	"strings"
)

// maxPlace bounds a place in bytes: an error repeats little of what it is about.
const maxPlace = 100

// PlaceOf returns the value of a text in which a byte is, such as messages[1].content: "" for what
// is in no object and no list. The text need not be JSON behind that byte, and its texts need not
// be UTF-8.
func PlaceOf(text []byte, offset int) string {
	type level struct {
		isList bool
		index  int
		name   string
		isName bool // a text is the next entry's name
	}
	var levels []level
	offset = min(offset, len(text))
	for i := 0; i < offset; i++ {
		var top *level
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		switch c := text[i]; {
		case c == '"':
			end := endOfText(text, i)
			if top != nil && top.isName && end <= offset {
				top.name = string(bytes.ToValidUTF8(text[i+1:end-1], []byte("?")))
			}
			i = end - 1
		case c == '{' || c == '[':
			levels = append(levels, level{isList: c == '[', isName: c == '{'})
		case top == nil:
		case c == '}' || c == ']':
			levels = levels[:len(levels)-1]
		case c == ',':
			top.index++
			top.name = ""
			top.isName = !top.isList
		case c == ':':
			top.isName = false
		}
	}

	var place strings.Builder
	for _, l := range levels {
		if l.isList {
			place.WriteString("[" + strconv.Itoa(l.index) + "]")
		} else if l.name != "" {
			place.WriteString("." + l.name)
		}
		if place.Len() > maxPlace {
			return ""
		}
	}
	return strings.TrimPrefix(place.String(), ".")
}

// endOfText returns the index behind the JSON text that begins at byte i, or the text's length.
func endOfText(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
