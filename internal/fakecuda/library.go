//go:build linux && (amd64 || arm64)

package fakecuda

import (
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// Codes that tests make the driver fail with.
const (
	OutOfMemory  = 2
	LaunchFailed = 719
	Unknown      = 999
)

// Library is a built driver library that a test controls.
type Library struct {
	Path string

	// Calls returns how often a function of the driver was called, or a kernel ran, since Forget.
	Calls func(name string) int
	// Forget sets all counts to zero and cancels planned failures.
	Forget func()
	// Fail makes the nth call from now of a function fail once, with a code.
	Fail func(function string, nth, code int)

	live func(what string) int
	set  func(what string, value int) int
}

// Open builds a library of the test's own and opens it.
func Open(t testing.TB) *Library {
	t.Helper()
	l := &Library{Path: BuildLibrary(t)}
	handle, err := purego.Dlopen(l.Path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	purego.RegisterLibFunc(&l.Calls, handle, "fake_calls")
	purego.RegisterLibFunc(&l.live, handle, "fake_live")
	purego.RegisterLibFunc(&l.Forget, handle, "fake_forget_calls")
	purego.RegisterLibFunc(&l.Fail, handle, "fake_inject")
	purego.RegisterLibFunc(&l.set, handle, "fake_set")
	return l
}

// Set changes the emulated machine: devices, memory (bytes), driver (version), major and minor
// (compute capability), the milliseconds that PTX takes to compile ("compile"), the launches after
// which the device is lost ("lose after", -1 for never), or whether kernels compute anything
// ("computes", 0 for no).
func (l *Library) Set(t testing.TB, what string, value int) {
	t.Helper()
	require.Zero(t, l.set(what, value), "fakecuda: %s", what)
}

// kinds are the kinds of objects that a driver makes and frees.
var kinds = []string{"allocations", "bytes", "host allocations", "modules", "streams", "events",
	"graphs", "executables", "contexts"}

// Live returns the number of objects of each kind that were made and not freed.
func (l *Library) Live() map[string]int {
	live := map[string]int{}
	for _, k := range kinds {
		if n := l.live(k); n != 0 {
			live[k] = n
		}
	}
	return live
}
