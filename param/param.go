// Package param describes parameters: name, kind, range, default, a line of help and the paper.
// One description serves flags, texts such as moment(alpha=3), files and lists, so that all of
// them read a value the same way and refuse it with the same words.
package param

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a parameter's values.
type Kind uint8

// The kinds.
const (
	Number Kind = iota // a finite float64
	Whole              // an int
	Word               // one of Words
	Text               // read by the parameter's owner
)

// kindNames are the kinds' names, by Kind.
var kindNames = []string{Number: "number", Whole: "whole", Word: "word", Text: "text"}

// String returns number, whole, word or text.
func (k Kind) String() string { return kindNames[k] }

// MarshalText returns String's bytes.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Param describes a parameter.
type Param struct {
	// Name is as in texts and flags, such as top-k.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`

	// Min and Max are the least and the largest value of a Number or Whole, themselves allowed.
	Min float64 `json:"min,omitzero"`
	Max float64 `json:"max,omitzero"`

	// Zero is the meaning of 0 below Min, such as "all"; "" if 0 is refused.
	Zero string `json:"zero,omitempty"`

	// Words are the values of a Word, or the only values of a Whole.
	Words []string `json:"words,omitempty"`

	// Default is the default as text; "" if the owner decides.
	Default string `json:"default,omitempty"`

	// Help is one line, with the unit.
	Help string `json:"help"`

	// Paper is the parameter's own source; "" for that of its owner.
	Paper string `json:"paper,omitempty"`
}

// Want describes the allowed values, such as "0.001 to 1000".
func (p Param) Want() string {
	switch {
	case len(p.Words) > 0:
		return JoinOr(p.Words)
	case p.Kind == Text:
		return "a text"
	}
	want := Format(p.Min) + " to " + Format(p.Max)
	if p.Zero != "" {
		want += ", or 0 for " + p.Zero
	}
	return want
}

// JoinOr joins words as "a, b or c".
func JoinOr(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}

// Float reads a Number. It refuses 0 below Min unless Zero has a meaning for it.
func (p Param) Float(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(x, 0) {
		return 0, p.refuseText(text, "a number, ", err)
	}
	if !p.allows(x) {
		return 0, p.refuseValue(Format(x))
	}
	return x, nil
}

// Int reads a Whole. It refuses 0 below Min unless Zero has a meaning for it.
func (p Param) Int(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		kind := "a whole number, "
		if len(p.Words) > 0 {
			kind = "" // the words say it
		}
		return 0, p.refuseText(text, kind, err)
	}
	fitsInt := int64(int(n)) == n // int has 32 bits on some machines
	if !p.allows(float64(n)) || !fitsInt {
		return 0, p.refuseValue(strconv.FormatInt(n, 10))
	}
	return int(n), nil
}

// Word reads one of Words.
func (p Param) Word(text string) (string, error) {
	if !slices.Contains(p.Words, text) {
		return "", p.refuseValue(Quote(text))
	}
	return text, nil
}

// Check returns an error for a number out of range. 0 stands for the default and passes.
func (p Param) Check(x float64) error {
	if x == 0 || p.allows(x) {
		return nil
	}
	return p.refuseValue(Format(x))
}

// CheckInt is Check for a whole number.
func (p Param) CheckInt(n int) error {
	if n == 0 || p.allows(float64(n)) {
		return nil
	}
	return p.refuseValue(strconv.Itoa(n))
}

// CheckWord returns an error for a word that is not one of Words. "" stands for the default and
// passes.
func (p Param) CheckWord(word string) error {
	if word == "" {
		return nil
	}
	_, err := p.Word(word)
	return err
}

// allows reports whether x is in range; NaN is not.
func (p Param) allows(x float64) bool {
	if p.Kind == Whole && len(p.Words) > 0 {
		return slices.Contains(p.Words, Format(x))
	}
	return x >= p.Min && x <= p.Max || x == 0 && p.Zero != ""
}

// refuseValue returns the error for a value out of range.
func (p Param) refuseValue(found string) error {
	return &Error{Name: p.Name, Found: found, Want: p.Want()}
}

// refuseText returns the error for a text that is no number of this kind, or one that no variable
// holds. kind is put in front of the allowed values, and err is strconv's.
func (p Param) refuseText(text, kind string, err error) error {
	e := &Error{Name: p.Name, Found: Quote(text), Want: kind + p.Want(), Reason: WrongType}
	if errors.Is(err, strconv.ErrRange) {
		e.Reason = OutOfRange
	}
	return e
}

// Format writes a number in the form that Float reads: 3, 0.5, 1e-09.
func Format(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// maxQuoted is the number of bytes of a text that an error shows.
const maxQuoted = 60

// Quote quotes a text for an error and cuts it off after 60 bytes, so that a file given by mistake
// does not fill the screen.
func Quote(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	start := strings.ToValidUTF8(text[:maxQuoted], "")
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(start), len(text))
}

// Unknown returns the error for a name that is not known: "unknown sampler "momnet" (did you mean
// moment?), want one of eb, moment". kind says what was to be named (here "sampler"), and is the
// error's Name.
func Unknown(kind, name string, known []string) error {
	known = slices.Sorted(slices.Values(known))
	suggestion := ""
	if names := Nearest(name, known); len(names) > 0 {
		suggestion = " (did you mean " + JoinOr(names) + "?)"
	}
	list := strings.Join(known, ", ")
	return &Error{
		Name:   kind,
		Found:  Quote(name),
		Want:   list,
		Reason: NoSuch,
		Err:    fmt.Errorf("unknown %s %s%s, want one of %s", kind, Quote(name), suggestion, list),
	}
}

// Nearest returns the names in known that differ from name in the fewest letters, if that is at
// most a third of its letters, and otherwise those that begin with name; three at most.
func Nearest(name string, known []string) []string {
	const longest = 64
	if len(name) < 2 || len(name) > longest {
		return nil
	}
	maxEdits := max(1, len(name)/3)
	fewest := maxEdits + 1
	var near, longer []string
	for i, candidate := range known {
		if slices.Contains(known[:i], candidate) {
			continue
		}
		edits := editDistance(name, candidate)
		if edits < fewest {
			fewest = edits
			near = nil
		}
		if edits == fewest && edits <= maxEdits {
			near = append(near, candidate)
		}
		if strings.HasPrefix(candidate, name) {
			longer = append(longer, candidate)
		}
	}
	if len(near) == 0 {
		near = longer
	}
	return near[:min(3, len(near))]
}

// editDistance returns how many letters of a must be inserted, removed, replaced or swapped with a
// neighbour to get b (Damerau and Levenshtein, restricted).
func editDistance(a, b string) int {
	// row[j] is the distance of a[:i] and b[:j]; last and beforeLast are the rows of i-1 and i-2.
	beforeLast := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := 1
			if a[i-1] == b[j-1] {
				replace = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
		beforeLast, last, row = last, row, beforeLast
	}
	return last[len(b)]
}
