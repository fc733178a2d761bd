//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// host is Go memory in gorgonia's form.
type host []float32

func (h host) Uintptr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(h))) }
func (h host) MemSize() uintptr { return uintptr(4 * len(h)) }

func TestEngine(t *testing.T) {
	b, l := open(t)
	require.False(t, b.AllocAccessible())
	before := l.Live()["allocations"]
	x := tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float32), tensor.WithEngine(b))
	require.False(t, x.IsNativelyAccessible())
	require.Equal(t, make([]float32, 6), read(b, x))
	require.NoError(t, b.Memset(x, float32(2.5)))
	require.Error(t, b.Memset(x, 2.5))
	require.Equal(t, []float32{2.5, 2.5, 2.5, 2.5, 2.5, 2.5}, read(b, x))

	values := host{1, 2, 3, 4, 5, 6}
	require.NoError(t, b.Memcpy(x, values))
	y := b.New(2, 3)
	require.NoError(t, b.Memcpy(y, x))
	b.Memclr(x)
	back := make(host, 4)
	require.NoError(t, b.Memcpy(back, y))
	require.Equal(t, values[:4], back)
	got, err := b.Accessible(y)
	require.NoError(t, err)
	at := got.Uintptr()
	require.Equal(t, []float32(values), unsafe.Slice(*(**float32)(unsafe.Pointer(&at)), 6))
	require.Equal(t, make([]float32, 6), read(b, x))

	m, err := b.Alloc(1000)
	require.NoError(t, err)
	require.EqualValues(t, 1000, m.MemSize())
	require.NoError(t, b.Free(m, 1000))
	require.ErrorContains(t, b.Free(m, 1000), "was not allocated")
	_, err = b.Alloc(1 << 50)
	require.ErrorContains(t, err, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)")
	_, err = b.Alloc(-1)
	require.Error(t, err)
	require.LessOrEqual(t, l.Live()["allocations"], before+4)
}
