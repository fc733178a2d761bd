//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/backendtest"
	"unmask/internal/fakecuda"
)

// opener opens the first GPU or, without one, a driver library on which every allocation ends at a page
// that nobody can touch.
func opener(t *testing.T) func() backend.Backend {
	o := Options{exact: true}
	if gpus, err := Devices(); err != nil || len(gpus) == 0 {
		o.Library = fakecuda.Build(t)
	}
	return func() backend.Backend {
		b, err := New(o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
}

// TestDevice runs the suite of all devices.
func TestDevice(t *testing.T) { backendtest.Run(t, opener(t)) }

// TestAllocations: no kernel of a step allocates.
func TestAllocations(t *testing.T) { backendtest.Allocations(t, opener(t)) }
