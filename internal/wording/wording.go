// Package wording lets tests replace the sentences of all refused values.
//
// Programs must decide by a refusal's fields, never by its sentence. A test shows that they do by
// running a program twice, the second time with a sentence that says nothing. This package is
// internal, so that no program outside can come to depend on it.
package wording

import "sync/atomic"

// replacement is what Replaced returns; nil if sentences are as written.
var replacement atomic.Pointer[string]

// Replace makes sentence the text of every refusal until restore is called. Only tests call it.
func Replace(sentence string) (restore func()) {
	replacement.Store(&sentence)
	return func() { replacement.Store(nil) }
}

// Replaced returns the sentence that stands for every refusal, and false if there is none.
func Replaced() (sentence string, ok bool) {
	if p := replacement.Load(); p != nil {
		return *p, true
	}
	return "", false
}
