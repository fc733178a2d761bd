package jsonline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// scanner reads a text of JSON once, in time and memory in proportion to its length.
type scanner struct {
	ctx    context.Context
	limits Limits
	text   []byte

	// at is the byte that is read next.
	at int

	// names and values count those of the whole text so far.
	names  int
	values int

	// fields get the values of the outermost object by name, unless it is nil.
	fields map[string]json.RawMessage
}

// check reads the whole text. Broken bytes are told before all else, and broken escapes last.
func (s *scanner) check() error {
	if err := CheckUTF8(s.text); err != nil {
		return err
	}
	if err := s.readValue(0); err != nil {
		return err
	}
	s.skipSpaces()
	if unread := s.text[s.at:]; len(unread) > 0 {
		return refuse(Syntax, "byte %d: found %q after the end, want one JSON object", s.at,
			unread[:1])
	}
	return CheckPairs(s.text)
}

// skipSpaces passes over white space.
func (s *scanner) skipSpaces() {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
}

// isSpace reports whether c is white space between JSON's tokens.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// peek returns the next byte after white space, 0 at the end of the text.
func (s *scanner) peek() byte {
	s.skipSpaces()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// skip passes over the next byte after white space if it is c, and reports whether it is.
func (s *scanner) skip(c byte) bool {
	if s.peek() != c || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

// readValue reads a value that is within so many objects and lists.
func (s *scanner) readValue(depth int) error {
	s.values++
	if s.limits.Values > 0 && s.values > s.limits.Values {
		return refuse(TooMany, "byte %d: more than %d values", s.at, s.limits.Values)
	}
	const valuesPerLook = 1 << 12
	if s.values%valuesPerLook == 0 && s.ctx.Err() != nil {
		return s.ctx.Err()
	}

	c := s.peek()
	if (c == '{' || c == '[') && depth == s.limits.Depth {
		return refuse(TooDeep, "byte %d: JSON is %d deep, want at most %d", s.at, depth+1, depth)
	}
	switch c {
	case '{':
		return s.readObject(depth)
	case '[':
		return s.readList(depth)
	case '"':
		if !s.skipText() {
			return syntaxError(s.text)
		}
		return nil
	}
	if !s.skipWord("true") && !s.skipWord("false") && !s.skipWord("null") && !s.skipNumber() {
		return syntaxError(s.text)
	}
	return nil
}

// checkItems refuses an object or a list with more entries than one may have.
func (s *scanner) checkItems(items int) error {
	if s.limits.Items > 0 && items > s.limits.Items {
		return refuse(TooMany, "byte %d: more than %d entries", s.at, s.limits.Items)
	}
	return nil
}

// readList reads a list within so many objects and lists.
func (s *scanner) readList(depth int) error {
	s.at++
	if s.skip(']') {
		return nil
	}
	for items := 1; ; items++ {
		if err := s.checkItems(items); err != nil {
			return err
		}
		if err := s.readValue(depth + 1); err != nil {
			return err
		}
		if s.skip(']') {
			return nil
		}
		if !s.skip(',') {
			return syntaxError(s.text)
		}
	}
}

// readObject reads an object within so many objects and lists.
func (s *scanner) readObject(depth int) error {
	s.at++
	if s.skip('}') {
		return nil
	}
	names := map[string]bool{}
	for items := 1; ; items++ {
		if err := s.checkItems(items); err != nil {
			return err
		}
		name, err := s.readName(names)
		if err != nil {
			return err
		}
		s.skipSpaces()
		start := s.at
		if err := s.readValue(depth + 1); err != nil {
			return err
		}
		if depth == 0 && s.fields != nil {
			s.fields[name] = s.text[start:s.at:s.at]
		}
		if s.skip('}') {
			return nil
		}
		if !s.skip(',') {
			return syntaxError(s.text)
		}
	}
}

// readName reads a name that is none of names, and its colon. It adds the name to them.
func (s *scanner) readName(names map[string]bool) (string, error) {
	s.skipSpaces()
	start := s.at
	if s.peek() != '"' || !s.skipText() {
		return "", syntaxError(s.text)
	}
	name := unquote(s.text[start:s.at])
	if names[name] {
		return "", &Error{
			Kind:    DuplicateName,
			Name:    name,
			Message: fmt.Sprintf("%.40q is there twice, want it once", name),
		}
	}
	names[name] = true
	s.names++
	if s.limits.Names > 0 && s.names > s.limits.Names {
		return "", refuse(TooMany, "byte %d: more than %d names", start, s.limits.Names)
	}
	if !s.skip(':') {
		return "", syntaxError(s.text)
	}
	return name, nil
}

// unquote returns the text that JSON spells.
func unquote(raw []byte) (text string) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	_ = json.Unmarshal(raw, &text) // cannot fail: it was read
	return text
}

// skipText passes over a text with its quotes, and reports whether it is one.
func (s *scanner) skipText() bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < ' ':
			return false
		case c == '\\':
			if !s.skipEscape() {
				return false
			}
		}
	}
	return false
}

// skipEscape passes over a backslash and what it escapes, but for the last byte.
func (s *scanner) skipEscape() bool {
	s.at++
	if s.at == len(s.text) {
		return false
	}
	if s.text[s.at] != 'u' {
		return strings.IndexByte(`"\/bfnrt`, s.text[s.at]) >= 0
	}
	for range 4 {
		s.at++
		if s.at == len(s.text) || strings.IndexByte("0123456789abcdefABCDEF", s.text[s.at]) < 0 {
			return false
		}
	}
	return true
}

// skipWord passes over a word such as null if it is there, and reports whether it is.
func (s *scanner) skipWord(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

// skipNumber passes over a number, and reports whether it is one.
func (s *scanner) skipNumber() bool {
	s.skipByte("-")
	if !s.skipByte("0") && s.skipDigits() == 0 {
		return false
	}
	if s.skipByte(".") && s.skipDigits() == 0 {
		return false
	}
	if s.skipByte("eE") {
		s.skipByte("+-")
		return s.skipDigits() > 0
	}
	return true
}

// skipByte passes over the next byte if it is one of those allowed, and reports whether it is.
func (s *scanner) skipByte(allowed string) bool {
	if s.at == len(s.text) || strings.IndexByte(allowed, s.text[s.at]) < 0 {
		return false
	}
	s.at++
	return true
}

// skipDigits passes over digits and returns how many there are.
func (s *scanner) skipDigits() int {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

// Elements returns the elements of a list, which are parts of it. list is valid JSON.
func Elements(list []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		s := &scanner{text: list}
		if !s.skip('[') || s.skip(']') {
			return
		}
		for {
			s.skipSpaces()
			start := s.at
			s.skipValue()
			if !yield(list[start:s.at:s.at]) || !s.skip(',') {
				return
			}
		}
	}
}

// Fields returns the values of an object by name, which are parts of it, or nil for any other
// value. object is valid JSON.
func Fields(object []byte) map[string]json.RawMessage {
	s := &scanner{text: object}
	if !s.skip('{') {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for s.peek() == '"' {
		start := s.at
		s.skipText()
		name := unquote(object[start:s.at])
		s.skip(':')
		s.skipSpaces()
		start = s.at
		s.skipValue()
		fields[name] = object[start:s.at:s.at]
		s.skip(',')
	}
	return fields
}

// skipValue passes over a value of valid JSON, which begins at the next byte.
func (s *scanner) skipValue() {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.skipText()
			s.at-- // the step below is over the closing quote
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth < 0 { // the end of what the value is in
			return
		}
		s.at++
		if depth > 0 || s.at == len(s.text) {
			continue
		}
		if next := s.text[s.at]; next == ',' || next == '}' || next == ']' || isSpace(next) {
			return
		}
	}
}
