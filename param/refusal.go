package param

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"unmask/internal/wording"
)

// Reason says why a value was refused. Programs decide by it; sentences are for people.
type Reason uint8

// The reasons.
const (
	OutOfRange  Reason = iota // not one of the allowed values
	WrongType                 // not the kind of value that the parameter has
	Missing                   // there is no value, and one is needed
	NoSuch                    // the name of nothing that is known
	TooLong                   // more tokens than there are positions
	NoHole                    // nothing is left to be filled
	NoEffect                  // has no effect beside the other parameters
	Unsupported               // the model cannot do it
	NoSuchToken               // not a token of the vocabulary
)

// reasonNames are the reasons in words, by Reason.
var reasonNames = []string{
	OutOfRange:  "out of range",
	WrongType:   "wrong type",
	Missing:     "missing",
	NoSuch:      "no such name",
	TooLong:     "too long",
	NoHole:      "no hole",
	NoEffect:    "no effect",
	Unsupported: "unsupported",
	NoSuchToken: "no such token",
}

// String returns the reason in words.
func (r Reason) String() string { return reasonNames[r] }

// Error is the error for a refused value: "steps is 0, want 1 to 4096".
type Error struct {
	// Name is the parameter's, as in flags.
	Name string

	// Found is the refused value as a sentence shows it, and Want describes the allowed ones.
	Found string
	Want  string

	Reason Reason

	// Err is a cause or a whole sentence that replaces Found and Want in the text; may be nil.
	Err error
}

// Error returns the sentence.
func (e *Error) Error() string {
	if sentence, ok := wording.Replaced(); ok {
		return sentence
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Name + " is " + e.Found + ", want " + e.Want
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Cause returns the error that e has in place of Found and Want, without the parameter's name in
// front that WithName puts there, or e itself if it has none.
func (e *Error) Cause() error {
	if n, ok := e.Err.(namedError); ok {
		return n.err
	}
	return cmp.Or(e.Err, error(e))
}

// WithName returns err as an Error about a parameter, with the parameter's name in front of its
// text. An Error without a cause, and a cause that is about another parameter, keep what they are
// about. It returns nil for nil.
func WithName(name string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok && e.Err == nil {
		return err
	}
	e := &Error{Name: name, Err: namedError{name, err}}
	if cause, ok := errors.AsType[*Error](err); ok {
		if cause.Name != name {
			return e.Err
		}
		e.Reason = cause.Reason
	}
	return e
}

// namedError is an error with a parameter's name in front.
type namedError struct {
	name string
	err  error
}

// Error returns the sentence, without names of packages and without the parameter's name twice.
func (n namedError) Error() string {
	text := n.err.Error()
	for _, prefix := range []string{"samplers: ", "generate: ", n.name + ": "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return n.name + ": " + text
}

// Unwrap returns the cause.
func (n namedError) Unwrap() error { return n.err }

// AtPlace names the place of an error before it; nil stays nil.
func AtPlace(place string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", place, err)
}

// Refuse returns an Error with a sentence of its own, for where "is ..., want ..." does not fit.
func Refuse(name string, reason Reason, format string, args ...any) error {
	return &Error{Name: name, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// RefuseUnless returns nil if ok, and otherwise the Error for a refused value.
func RefuseUnless(ok bool, name, found, want string, reason Reason) error {
	if ok {
		return nil
	}
	return &Error{Name: name, Found: found, Want: want, Reason: reason}
}
