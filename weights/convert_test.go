package weights

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Elements are read in pairs: a NaN is found in either half, and no other value is taken for one.
func TestEveryNaNIsFound(t *testing.T) {
	near := []uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 1, 0x80000001,
		0x3f800000}
	for n := range 9 {
		src := make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint32(src[4*i:], near[i])
		}
		dst := make([]float32, n)
		require.Equal(t, -1, convertToFloat32(dst, src, F32), n)
		for i := range n {
			require.Equal(t, near[i], math.Float32bits(dst[i]))
		}
		for at := range n {
			for _, nan := range []uint32{0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff} {
				binary.LittleEndian.PutUint32(src[4*at:], nan)
				require.Equal(t, at, convertToFloat32(dst, src, F32), "%d of %d, %x", at, n, nan)
			}
			binary.LittleEndian.PutUint32(src[4*at:], near[at])
		}
	}
}
