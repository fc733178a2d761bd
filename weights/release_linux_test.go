package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// resident returns the bytes of mapped files in this process's memory.
func resident(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	total := 0
	for line := range strings.Lines(string(status)) {
		for _, key := range []string{"RssFile:", "RssShmem:"} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				var kb int
				_, err := fmt.Sscan(rest, &kb)
				require.NoError(t, err)
				total += kb << 10
			}
		}
	}
	return total
}

func TestReleaseGivesPagesBack(t *testing.T) {
	const n = 4 << 20
	name := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, WriteFile(name, []Tensor{
		{Name: "a", DType: F32, Shape: []int{n}, Data: make([]byte, 4*n)},
		{Name: "b", DType: F32, Shape: []int{n}, Data: make([]byte, 4*n)},
	}, nil))
	set, err := Open(name)
	require.NoError(t, err)
	defer set.Close()
	dst := make([]float32, n)
	a, _ := set.Get("a")
	b, _ := set.Get("b")
	require.NoError(t, a.Float32s(dst))
	require.NoError(t, b.Float32s(dst))
	full := resident(t)
	require.NoError(t, b.Release())
	half := resident(t)
	require.InDelta(t, 4*n, full-half, 4<<20)
	require.NoError(t, set.ReleaseAll())
	require.InDelta(t, 4*n, half-resident(t), 4<<20)
	require.NoError(t, b.Float32s(dst))
}
