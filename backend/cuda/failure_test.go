//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/fakecuda"
)

// TestFailedStep: whichever call of a step fails, the step returns an error that names it, and the
// next step works.
func TestFailedStep(t *testing.T) {
	for _, name := range []string{"cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2", "cuEventCreate",
		"cuEventRecord", "cuLaunchKernel", "cuMemcpyDtoDAsync_v2",
		"cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"} {
		t.Run(name, func(t *testing.T) {
			b, l := open(t)
			x := b.New(2, 300)
			out := make([]float32, 3)
			in := []float32{-1, 2, 3}
			failed := 0
			for i := range 6 {
				l.Forget()
				if i < 4 {
					l.Fail(name, 1, fakecuda.LaunchFailed)
				}
				clear(out)
				err := failing(func() { step(b, x, in, out) })
				if err != nil {
					failed++
					var e *backend.DeviceError
					require.ErrorAs(t, err, &e)
					require.Equal(t, []any{name, 719, "CUDA_ERROR_LAUNCH_FAILED"}, []any{e.Call, e.Code, e.Name})
					require.Less(t, i, 4)
					continue
				}
				require.Equal(t, []float32{0, 2, 3}, out)
			}
			require.Positive(t, failed)
			require.Zero(t, l.Live()["graphs"])
			require.LessOrEqual(t, l.Live()["executables"], 1)
		})
	}
}

// TestNoGraph: if no graph can be made of a list, whichever call fails, the list is always launched
// command by command. If a graph was made but cannot be launched later, that is an error.
func TestNoGraph(t *testing.T) {
	for _, name := range []string{"cuStreamBeginCapture_v2", "cuStreamEndCapture",
		"cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphLaunch"} {
		b, l := open(t)
		x := b.New(2, 300)
		read(b, x)
		out := make([]float32, 3)
		for i := range 5 {
			l.Forget()
			if i == 1 {
				l.Fail(name, 1, fakecuda.OutOfMemory)
			}
			clear(out)
			step(b, x, []float32{-1, 2, 3}, out)
			require.Equal(t, []float32{0, 2, 3}, out, name)
			if i != 1 {
				require.Equal(t, []int{12, 0}, []int{l.Calls("cuLaunchKernel"), l.Calls("cuGraphLaunch")},
					"%s, time %d", name, i)
			}
		}
		require.Zero(t, l.Live()["executables"], name)
		if name != "cuGraphDestroy" {
			require.Zero(t, l.Live()["graphs"], name)
		}
	}
	b, l := open(t)
	x := b.New(2, 300)
	for range 4 {
		step(b, x, []float32{-1, 2, 3}, make([]float32, 3))
	}
	l.Fail("cuGraphLaunch", 1, fakecuda.Unknown)
	require.ErrorContains(t, failing(func() { step(b, x, []float32{-1, 2, 3}, make([]float32, 3)) }),
		"cuGraphLaunch: CUDA_ERROR_UNKNOWN (999)")
}

// TestLost: after a device is lost every pass returns an error, and nothing hangs or panics
// otherwise.
func TestLost(t *testing.T) {
	b, l := open(t)
	x := b.New(2, 300)
	out := make([]float32, 3)
	l.Set(t, "lose after", 30)
	var err error
	for range 5 {
		if err = failing(func() { step(b, x, []float32{-1, 2, 3}, out) }); err != nil {
			break
		}
	}
	require.EqualError(t, err,
		"cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; this process "+
			"cannot use the GPU any more, a new one can")
	for range 3 {
		require.ErrorContains(t, failing(func() { step(b, x, []float32{1}, out) }),
			"CUDA_ERROR_LAUNCH_FAILED (719)")
	}
	require.Error(t, b.Close())
}

// TestIllegalAddress: a kernel that accesses memory out of bounds causes a device error and does
// not end the process.
func TestIllegalAddress(t *testing.T) {
	b, _ := open(t)
	x := b.New(64)
	b.mu.Lock()
	b.begin(activateTwice, grid{x: 1}, 96, 0).tensor(x).long(96).int(1).end()
	b.mu.Unlock()
	require.EqualError(t, failing(func() { read(b, x) }),
		"cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was "+
			"encountered; "+
			"this process cannot use the GPU any more, a new one can")
}

// TestBadLaunch: the error for a launch that the driver refuses names the kernel.
func TestBadLaunch(t *testing.T) {
	b, _ := open(t)
	x := b.New(64)
	for what, call := range map[string]func(x *tensor.Dense){
		"cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE": func(x *tensor.Dense) {
			b.begin(activateTwice, grid{x: 1}, 32, 1<<20).tensor(x).long(64).int(1).end()
		},
		"cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1): unmask_activate: invalid argument": func(x *tensor.Dense) {
			b.begin(activateTwice, grid{x: 1, y: 1 << 16}, 32, 0).tensor(x).long(64).int(1).end()
		},
		"cuLaunchKernel: CUDA_ERROR_INVALID_VALUE": func(x *tensor.Dense) {
			b.begin(activateTwice, grid{x: 1}, 32, 0).tensor(x).long(64).int(1).int(2).end()
		},
	} {
		b.mu.Lock()
		call(x)
		b.mu.Unlock()
		require.ErrorContains(t, failing(func() { read(b, x) }), what)
	}
	require.Zero(t, read(b, x)[0])
}
