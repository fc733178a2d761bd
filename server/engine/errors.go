package engine

import (
	"fmt"
	"strings"
)

// Kind says why a call has no answer. Programs decide by it; sentences are for people.
type Kind uint8

// The kinds.
const (
	QueueFull    Kind = iota // too much waits already
	WaitTooLong              // its time would be over before its first step
	ShuttingDown             // no further call begins
	Deadline                 // its time is over
	Cancelled                // nobody waits for it any more
	StepFailed               // the model's pass
	AnswerFailed             // making the answer of finished sequences
)

// Error is why a call has no answer.
type Error struct {
	Kind    Kind
	Message string // one line
	Retry   int    // seconds after which to try again; 0: not said
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")}
}

// shuttingDown is the error of calls that come or wait while the server ends.
func shuttingDown() *Error {
	return &Error{Kind: ShuttingDown, Message: "the server is shutting down", Retry: 5}
}
