package refusal_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/param"
	"unmask/testkit/refusal"
)

var steps = param.Param{Name: "steps", Kind: param.Whole, Min: 1, Max: 4096}

func TestRequire(t *testing.T) {
	_, outOfRange := steps.Int("0")
	_, wrongType := steps.Int("3.5")

	refused := refusal.Require(t, outOfRange, "steps", "0")
	require.Equal(t, "1 to 4096", refused.Want)
	refusal.Require(t, fmt.Errorf("request 3: %w", wrongType), "steps", `"3.5"`)

	refusal.RequireReason(t, outOfRange, "steps", param.OutOfRange)
	refusal.RequireReason(t, wrongType, "steps", param.WrongType)
	whole := param.Refuse("prompt", param.TooLong, "the prompt has 9 tokens, of 8 that fit")
	refusal.Require(t, whole, "prompt", "")
	refusal.RequireReason(t, whole, "prompt", param.TooLong)
}

// An assertion that cannot fail would let every test pass.
func TestRequireFails(t *testing.T) {
	_, err := steps.Int("0")
	for name, assert := range map[string]func(t testing.TB){
		"no error":         func(t testing.TB) { refusal.Require(t, nil, "steps", "0") },
		"no refusal":       func(t testing.TB) { refusal.Require(t, errors.New("x"), "steps", "0") },
		"other name":       func(t testing.TB) { refusal.Require(t, err, "seed", "0") },
		"other value":      func(t testing.TB) { refusal.Require(t, err, "steps", "1") },
		"other reason":     func(t testing.TB) { refusal.RequireReason(t, err, "steps", param.Missing) },
		"reason, no error": func(t testing.TB) { refusal.RequireReason(t, nil, "steps", param.Missing) },
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() { // FailNow ends the goroutine
				defer close(done)
				assert(r)
			}()
			<-done
			require.True(t, r.failed)
		})
	}
}

// recorder is a test that only notes that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func (r *recorder) FailNow() {
	r.failed = true
	runtime.Goexit()
}
