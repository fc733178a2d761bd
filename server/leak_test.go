package server_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// No goroutine of a server is left after the tests: those of the models' devices live as long as
// they do. Connections take a while to end on a machine that does much else.
func TestMain(m *testing.M) {
	loaded()
	if os.Getenv(soakServer) != "" {
		if err := serveSoak(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	before := goleak.IgnoreCurrent()
	code := m.Run()
	for deadline := time.Now().Add(time.Minute); code == 0; {
		err := goleak.Find(before, goleak.IgnoreAnyFunction("unmask/internal/parallel.(*pool).serve"))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "after all tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}
