// Package refusal has assertions on refused values for tests.
//
// A refusal is a *param.Error. Its fields say what was refused and why, and programs decide by
// them; its sentence is for people. A test that asserts on the fields survives a better sentence,
// so each sentence is asserted in one place only, next to the code that writes it.
package refusal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/param"
)

// Require requires that err is or wraps a *param.Error about the parameter name that refuses the
// value found, and returns it, so that a test can look at Want or Reason too.
//
// found is the value as the error shows it: 0, or "3.5" with its quotes for a text. It is empty for
// an error that has a whole sentence of its own, as those of param.Refuse have. Where several
// errors are joined or wrapped, the first one in the order of errors.As counts.
func Require(t testing.TB, err error, name, found string) *param.Error {
	t.Helper()
	refused := asRefusal(t, err, name)
	require.Equalf(t, found, refused.Found, "the value that is refused in %q", err.Error())
	return refused
}

// RequireReason requires that err is or wraps a *param.Error about the parameter name with the
// given reason, and returns it. It is for refusals whose value says nothing, such as a missing one.
func RequireReason(t testing.TB, err error, name string, reason param.Reason) *param.Error {
	t.Helper()
	refused := asRefusal(t, err, name)
	require.Equalf(t, reason.String(), refused.Reason.String(), "the reason in %q", err.Error())
	return refused
}

// asRefusal returns the first *param.Error in err's tree, which must be about the parameter name.
func asRefusal(t testing.TB, err error, name string) *param.Error {
	t.Helper()
	require.Error(t, err)
	var refused *param.Error
	require.ErrorAsf(t, err, &refused, "%q refuses no parameter's value", err.Error())
	require.Equalf(t, name, refused.Name, "the parameter that is refused in %q", err.Error())
	return refused
}

// RequireText requires that err is or wraps a *param.Error that says text, and returns it. It is
// for tables of refusals.
//
// text is the parameter with its value, "steps is 0", which leaves the rest of the sentence free. A
// place may stand before it, as in "request 3: steps is 0". In the one test that keeps a
// sentence's words, and for an error with a sentence of its own, text is a part of the sentence.
func RequireText(t testing.TB, err error, text string, msgAndArgs ...any) *param.Error {
	t.Helper()
	require.Error(t, err, msgAndArgs...)
	var refused *param.Error
	require.ErrorAs(t, err, &refused, msgAndArgs...)
	if refused.Found == "" || refused.Err != nil || strings.Contains(text, ", want ") {
		require.ErrorContains(t, err, text, msgAndArgs...)
		return refused
	}
	value := refused.Name + " is " + refused.Found
	place, ok := strings.CutSuffix(text, value)
	require.Truef(t, ok, "%q is refused, want %q", value, text)
	require.ErrorContains(t, err, place, msgAndArgs...)
	return refused
}
