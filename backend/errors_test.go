package backend_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
)

func TestRecover(t *testing.T) {
	lost := &backend.DeviceError{Call: "cuLaunchKernel", Code: 719, Name: "CUDA_ERROR_LAUNCH_FAILED"}
	run := func(v any, before error) (err error) {
		defer backend.Recover(&err)
		if v != nil {
			panic(v)
		}
		return before
	}
	require.ErrorIs(t, run(lost, nil), lost)
	require.EqualError(t, lost, "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)")
	other := errors.New("of the pass itself")
	require.Equal(t, other, run(nil, other))
	require.NoError(t, run(nil, nil))
	require.PanicsWithValue(t, "Linear: dst is wrong", func() { _ = run("Linear: dst is wrong", nil) })
}
