package server_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of a server is left after the tests: those of the models' devices live as long as
// they do.
func TestMain(m *testing.M) {
	loaded()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("unmask/internal/parallel.(*pool).serve"))
}
