//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/internal/fakecuda"
)

// openWithLt opens a backend with the tests' version of cuBLASLt.
func openWithLt(t *testing.T) (*Backend, *fakecuda.Library) {
	l := fakecuda.Open(t)
	b, err := New(Options{Library: l.Path, CuBLASLt: l.Path, exact: true})
	require.NoError(t, err)
	return b, l
}

// The library computes what it should and nothing else, and both are right.
func TestCuBLASLt(t *testing.T) {
	const rows, in, out = 37, 50, 70
	b, l := openWithLt(t)
	ref := plain.New()
	x, w, bias, old := normal(1, rows*in), normal(2, out*in), normal(3, out), normal(4, rows*out)
	for _, c := range []struct {
		as    backend.Precision
		act   backend.Activation
		add   bool
		calls int
	}{
		{backend.BF16, backend.Identity, false, 1}, {backend.BF16, backend.Identity, true, 1},
		{backend.BF16, backend.GELUTanh, false, 1},
		{backend.BF16, backend.ReLU, false, 1}, {backend.BF16, backend.GELUErf, false, 0},
		{backend.BF16, backend.SiLU, false, 0},
		{backend.BF16, backend.ReLU, true, 0}, {backend.F32, backend.Identity, false, 0},
		{backend.Int8, backend.Identity, false, 0},
	} {
		for _, biased := range []bool{true, false} {
			name := fmt.Sprintf("%+v, bias %v", c, biased)
			run := func(b backend.Backend, rows int) []float32 {
				e := backend.Epilogue{Act: c.act, Add: c.add}
				if biased {
					e.Bias = put(b, bias, out)
				}
				y := put(b, old[:rows*out], rows, out)
				b.Linear(y, put(b, x[:rows*in], rows, in), rows, packed(b, w, out, in, c.as), e)
				got := make([]float32, rows*out)
				b.Read(got, y, 0)
				return got
			}
			before := l.Calls("cublasLtMatmul")
			got := run(b, rows)
			require.Equal(t, c.calls, l.Calls("cublasLtMatmul")-before, name)
			near(t, name, run(ref, rows), got, 2e-4)
			require.Equal(t, got[:5*out], run(b, 5), name)
		}
	}
	require.Equal(t, 8, l.Calls("cublasLtMatmulAlgoGetHeuristic"),
		"one algorithm an epilogue, with bias and without")
	require.NoError(t, b.Close())
	require.Empty(t, l.Live())
}

// A list with the library's work becomes a graph like any other.
func TestCuBLASLtInGraph(t *testing.T) {
	b, l := openWithLt(t)
	w := packed(b, normal(1, 64*64), 64, 64, backend.BF16)
	x, y := put(b, normal(2, 9*64), 9, 64), b.New(9, 64)
	var first []float32
	for i := range 4 {
		b.Read(make([]float32, 1), x, 0)
		for range minGraph {
			b.Linear(y, x, 9, w, backend.Epilogue{})
		}
		if got := read(b, y); i == 0 {
			first = got
		} else {
			require.Equal(t, first, got)
		}
	}
	require.Equal(t, 3, l.Calls("cuGraphLaunch"))
	require.Equal(t, 2*minGraph, l.Calls("cublasLtMatmul"), "directly, and while captured")
}

func TestCuBLASLtFailures(t *testing.T) {
	l := fakecuda.Open(t)
	_, err := New(Options{Library: l.Path, CuBLASLt: "/nowhere/libcublasLt.so"})
	require.ErrorContains(t, err,
		"cuda: no cuBLASLt: /nowhere/libcublasLt.so: cannot open shared object file")
	_, err = New(Options{Library: l.Path, CuBLASLt: "libc.so.6"})
	require.EqualError(t, err, "cuda: libc.so.6 has no cublasLtCreate, want cuBLAS 12 or 13")
	l.Fail("cublasLtCreate", 1, 1)
	_, err = New(Options{Library: l.Path, CuBLASLt: l.Path})
	require.EqualError(t, err, "cuda: cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1)")
	require.Empty(t, l.Live())

	for function, want := range map[string]string{
		"cublasLtMatmulDescCreate":       "INTERNAL_ERROR (14)",
		"cublasLtMatrixLayoutCreate":     "INTERNAL_ERROR (14)",
		"cublasLtMatmulPreferenceCreate": "INTERNAL_ERROR (14)",
		"cublasLtMatmulAlgoGetHeuristic": "INTERNAL_ERROR (14)", "cublasLtMatmul": "INTERNAL_ERROR (14)",
		"cublasLtMatmulDescSetAttribute":       "INTERNAL_ERROR (14)",
		"cublasLtMatmulPreferenceSetAttribute": "INTERNAL_ERROR (14)",
	} {
		b, l := openWithLt(t)
		w := packed(b, normal(1, 12), 3, 4, backend.BF16)
		x, y := put(b, normal(2, 8), 2, 4), b.New(2, 3)
		l.Fail(function, 1, 14)
		err := failing(func() {
			b.Linear(y, x, 2, w, backend.Epilogue{})
			read(b, y)
		})
		require.EqualError(t, err, function+": CUBLAS_STATUS_"+want)
		b.Close()
		require.Empty(t, l.Live(), function)
	}
}

// If the library has no algorithm for some number of rows, the package's kernels compute all.
func TestCuBLASLtHasNoAlgorithm(t *testing.T) {
	for _, c := range []struct {
		function string
		nth      int
	}{{"cublasLtMatmulAlgoGetHeuristic", 1}, {"cublasLtMatmulAlgoCheck", 1},
		{"cublasLtMatmulAlgoCheck", 40}} {
		b, l := openWithLt(t)
		w := packed(b, normal(1, 12), 3, 4, backend.BF16)
		x, y := put(b, normal(2, 8), 2, 4), b.New(2, 3)
		l.Fail(c.function, c.nth, ltNotSupported)
		for rows := 1; rows <= 2; rows++ {
			b.Linear(y, x, rows, w, backend.Epilogue{})
		}
		read(b, y)
		require.Zero(t, l.Calls("cublasLtMatmul"))
		require.NoError(t, b.Close())
		require.Empty(t, l.Live())
	}
}

// The library is not used unless it was named.
func TestCuBLASLtIsAsked(t *testing.T) {
	l := fakecuda.Open(t)
	for _, c := range []struct {
		option, variable string
		want             bool
	}{{"", "", false}, {l.Path, "", true}, {"", l.Path, true}, {"none", l.Path, false},
		{"", "none", false}} {
		t.Setenv(CuBLASLtVariable, c.variable)
		b, err := New(Options{Library: l.Path, CuBLASLt: c.option})
		require.NoError(t, err)
		packed(b, normal(1, 12), 3, 4, backend.BF16)
		require.Equal(t, c.want, b.products.lt != nil, "%+v", c)
		require.NoError(t, b.Close())
	}
}
