//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/fakecuda"
)

func TestName(t *testing.T) {
	b, l := open(t)
	require.Equal(t, "cuda:0 Fake GPU", b.Name())
	t.Setenv(LibraryVariable, l.Path)
	infos, err := Devices()
	require.NoError(t, err)
	require.Equal(t, []Info{b.Info}, infos)
	require.Equal(t, []int{9, 0, 4, 4 << 30},
		[]int{b.Major, b.Minor, b.Multiprocessors, b.Memory})
}

// TestMissing: the error for anything that is missing names it in one line.
func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		o       Options
		prepare func(l *fakecuda.Library)
		want    string
	}{
		"library": {Options{Library: "/nowhere/libcuda.so.1"}, nil,
			"cuda: no NVIDIA driver: /nowhere/libcuda.so.1: cannot open shared object file"},
		"symbol": {Options{Library: "libc.so.6"}, nil,
			"cuda: libc.so.6 has no cuInit: the driver is too old"},
		"device": {Options{}, func(l *fakecuda.Library) { l.Set(t, "devices", 0) }, "finds no GPU"},
		"index": {Options{Device: 3}, func(l *fakecuda.Library) { l.Set(t, "devices", 2) },
			"cuda: GPU is 3, want 0 to 1"},
		"negative": {Options{Device: -1}, nil, "cuda: GPU is -1, want 0 to 0"},
		"age": {Options{}, func(l *fakecuda.Library) { l.Set(t, "major", 7) },
			"has compute capability 7.0, want 8.0 (Ampere) or later"},
		"version": {Options{}, func(l *fakecuda.Library) { l.Set(t, "driver", 11000) },
			"CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): kernels as PTX: the driver is too old, want 520 " +
				"(CUDA 11.8) or later"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fakecuda.Open(t)
			if c.o.Library == "" {
				c.o.Library = l.Path
			}
			if c.prepare != nil {
				c.prepare(l)
			}
			_, err := New(c.o)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, l.Live())
		})
	}
}

// TestFailures: whichever call fails while a device is opened, the error names it and everything is
// freed.
func TestFailures(t *testing.T) {
	l := fakecuda.Open(t)
	require.NoError(t, openOn(t, l).Close()) // cuInit is called once
	for _, name := range []string{"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
		"cuDeviceTotalMem_v2", "cuDeviceGetAttribute",
		"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction",
		"cuStreamCreate", "cuMemAllocHost_v2"} {
		l.Forget()
		l.Fail(name, 1, fakecuda.Unknown)
		if name == "cuModuleLoadDataEx" { // there is another image
			l.Fail(name, 2, fakecuda.Unknown)
		}
		_, err := New(Options{Library: l.Path})
		require.ErrorContains(t, err, "cuda: "+name+": CUDA_ERROR_UNKNOWN (999): ")
		require.Empty(t, l.Live(), name)
	}
	first := fakecuda.Open(t)
	first.Fail("cuInit", 1, 100)
	_, err := New(Options{Library: first.Path})
	require.ErrorContains(t, err,
		"cuda: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected")
	require.NoError(t, openOn(t, first).Close(), "the next attempt is a new one")
}

// TestClose: a backend frees everything.
func TestClose(t *testing.T) {
	b, l := open(t)
	x := b.New(300, 40)
	for range 3 {
		for range minGraph {
			relu(b, x)
		}
		read(b, x)
	}
	require.Equal(t, 1, l.Live()["executables"])
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Empty(t, l.Live())
}
