//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/internal/fakecuda"
)

// packedImage compresses an image like the embedded ones.
func packedImage(image string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write([]byte(image)) // to memory
	_ = z.Close()
	return out.Bytes()
}

func TestWrongPTX(t *testing.T) {
	l := fakecuda.Open(t)
	right, err := decompressImage(ptx)
	require.NoError(t, err)
	for _, c := range []struct {
		ptx  []byte
		want string
	}{
		{packedImage(""), "CUDA_ERROR_INVALID_PTX (218): kernels as PTX: a PTX JIT compilation failed: " +
			"ptxas application ptx input, line 1; fatal   : Missing .version"},
		{packedImage(".version 7.8\n.target sm_80\n.address_size 64\n"),
			"cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): named symbol not found: unmask_"},
		{packedImage(strings.Replace(string(right), ".param .u64 unmask_activate_param_1",
			".param .u32 unmask_activate_param_1", 1)),
			"cuModuleGetFunction: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: " +
				"unmask_activate"},
		{[]byte("no gzip"), "kernels as PTX: unexpected EOF"},
		{ptx[:len(ptx)/2], "kernels as PTX: unexpected EOF"},
	} {
		_, err := openDevice(Options{Library: l.Path}, kernelImages{ptx: c.ptx})
		require.ErrorContains(t, err, c.want)
		require.Empty(t, l.Live())
	}
}

// TestImages: a Hopper GPU gets machine code, any other GPU gets PTX, and so does a Hopper GPU
// whose driver does not accept the machine code. Both have every kernel, with its source's
// parameters, but those with wgmma, which give the bits of the others.
func TestImages(t *testing.T) {
	l := fakecuda.Open(t)
	var product []float32
	for name, c := range map[string]struct {
		prepare func()
		loads   int
	}{
		"Hopper":           {func() {}, 1},
		"Ampere":           {func() { l.Set(t, "major", 8) }, 1},
		"Ada":              {func() { l.Set(t, "major", 8); l.Set(t, "minor", 9) }, 1},
		"an old driver":    {func() { l.Set(t, "driver", 11080) }, 2},
		"code is refused":  {func() { l.Fail("cuModuleLoadDataEx", 1, 209) }, 2},
		"out of an accord": {func() { l.Fail("cuModuleLoadDataEx", 1, 200) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l.Set(t, "major", 9)
			l.Set(t, "minor", 0)
			l.Set(t, "driver", 13000)
			l.Forget()
			c.prepare()
			b := openOn(t, l)
			require.Equal(t, c.loads, l.Calls("cuModuleLoadDataEx"))
			x := b.New(2)
			b.Write(x, 0, []float32{-1, 1})
			relu(b, x)
			require.Equal(t, []float32{0, 1}, read(b, x))
			w := packed(b, normal(1, 300*83), 300, 83, backend.BF16)
			require.Equal(t, name == "Hopper",
				b.fastestTile(linearTiles[backend.BF16], 150, w.(*matrix)).kernel.hopper)
			y := b.New(150, 300)
			b.Linear(y, put(b, normal(2, 150*83), 150, 83), 150, w, backend.Epilogue{})
			if product == nil {
				product = read(b, y)
			}
			require.Equal(t, product, read(b, y))
			require.NoError(t, b.Close())
			require.Empty(t, l.Live())
		})
	}
}

// TestPTX: the PTX gives the bits of the machine code, on a GPU too.
func TestPTX(t *testing.T) {
	forms := []kernelImages{embedded, {ptx: ptx}}
	t.Cleanup(func() { embedded = forms[0] })
	const rows, in, out = 150, 83, 300
	x, w := normal(1, rows*in), normal(2, out*in)
	want := make([][]float32, len(precisions))
	for i, form := range forms {
		embedded = form
		b, _ := openAny(t)
		for j, as := range precisions {
			m := packed(b, w, out, in, as)
			require.False(t, i == 1 && b.fastestTile(linearTiles[as], rows, m.(*matrix)).kernel.hopper)
			y := b.New(rows, out)
			b.Linear(y, put(b, x, rows, in), rows, m, backend.Epilogue{Act: backend.GELUErf})
			if got := read(b, y); i == 0 {
				want[j] = got
			} else {
				require.Equal(t, want[j], got, "%v", as)
			}
		}
	}
}

// TestNoImage: if neither form loads, the error names both and gives advice.
func TestNoImage(t *testing.T) {
	l := fakecuda.Open(t)
	for code, want := range map[int]string{
		noJITCompiler: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): kernels as PTX: the driver's " +
			"compiler, libnvidia-ptxjitcompiler.so.1, is missing",
		unsupportedPTXVersion: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): kernels as PTX: the driver is " +
			"too old, want 520 (CUDA 11.8) or later",
	} {
		l.Fail("cuModuleLoadDataEx", 1, 209)
		l.Fail("cuModuleLoadDataEx", 2, code)
		_, err := New(Options{Library: l.Path})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err,
			"CUDA_ERROR_NO_BINARY_FOR_GPU (209): kernels as machine code for Hopper: no kernel image is "+
				"available")
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, l.Live())
	}
}

// TestNotice: a slow load is reported once, a fast one is not.
func TestNotice(t *testing.T) {
	before := patience
	t.Cleanup(func() { patience = before })
	l := fakecuda.Open(t)
	lines := make(chan string, 2)
	o := Options{Library: l.Path, Notice: func(line string) { lines <- line }}
	patience = 50 * time.Millisecond
	load := func(major, took int) {
		l.Set(t, "major", major)
		l.Set(t, "compile", took)
		b, err := New(o)
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
	// Both times pass while a busy machine lets nothing run, so a longer one may be needed.
	for took := 500; len(lines) == 0 && took < 60_000; took *= 4 {
		load(8, took)
	}
	require.Len(t, lines, 1)
	require.Equal(t, "cuda: the driver is compiling kernels for Fake GPU; it keeps them for the "+
		"next start", <-lines)
	load(9, 500)
	require.Empty(t, lines)
}

// TestMostThreads: a block never has more threads than its kernel was compiled for, or than there
// are registers for.
func TestMostThreads(t *testing.T) {
	b, _ := open(t)
	x := b.New(64)
	for threads, want := range map[int]string{
		288: "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1): unmask_activate: invalid argument",
		256: "",
	} {
		b.mu.Lock()
		b.begin(activateTwice, grid{x: 1}, threads, 0).tensor(x).long(64).int(1).end()
		b.mu.Unlock()
		err := failing(func() { read(b, x) })
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	b.mu.Lock() // 66 registers per thread, and no limit
	b.begin(headStatsKernel, grid{x: 1}, maxThreads, 0)
	for range 17 {
		b.call.long(0)
	}
	b.call.end()
	b.mu.Unlock()
	require.EqualError(t, failing(func() { read(b, x) }),
		"cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): unmask_head_stats: too many "+
			"resources requested for launch")
}
