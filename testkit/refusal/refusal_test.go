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

	refused = refusal.RequireText(t, outOfRange, "steps is 0")
	require.Equal(t, "steps", refused.Name)
	refusal.RequireText(t, outOfRange, "steps is 0, want 1 to 4096")
	refusal.RequireText(t, fmt.Errorf("request 3: %w", wrongType), `request 3: steps is "3.5"`)
	refusal.RequireText(t, whole, "the prompt has 9 tokens")
}

// An assertion that cannot fail would let every test pass.
func TestRequireFails(t *testing.T) {
	_, err := steps.Int("0")
	for name, assert := range map[string]func(t testing.TB){
		"no error":       func(t testing.TB) { refusal.Require(t, nil, "steps", "0") },
		"no refusal":     func(t testing.TB) { refusal.Require(t, errors.New("x"), "steps", "0") },
		"other name":     func(t testing.TB) { refusal.Require(t, err, "seed", "0") },
		"other value":    func(t testing.TB) { refusal.Require(t, err, "steps", "1") },
		"other reason":   func(t testing.TB) { refusal.RequireReason(t, err, "steps", param.Missing) },
		"text, no error": func(t testing.TB) { refusal.RequireText(t, nil, "steps is 0") },
		"text, no refusal": func(t testing.TB) {
			refusal.RequireText(t, errors.New("steps is 0"), "steps is 0")
		},
		"text, other name":  func(t testing.TB) { refusal.RequireText(t, err, "seed is 0") },
		"text, other value": func(t testing.TB) { refusal.RequireText(t, err, "steps is 01") },
		"text, a part":      func(t testing.TB) { refusal.RequireText(t, err, "steps is ") },
		"text, other place": func(t testing.TB) { refusal.RequireText(t, err, "line 1: steps is 0") },
		"text, other words": func(t testing.TB) { refusal.RequireText(t, err, "steps is 0, want 2") },
		"reason, no error":  func(t testing.TB) { refusal.RequireReason(t, nil, "steps", param.Missing) },
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
