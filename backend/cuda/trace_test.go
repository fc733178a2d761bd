//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/fakecuda"
)

// TestTrace: a trace has every command of the lists, none of them becomes a graph, and no number
// changes.
func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	plainly := newLayer(t)
	t.Setenv(TraceVariable, path)
	l := newLayer(t)
	for range 3 {
		l.run(func() {})
		plainly.run(func() {})
		require.Equal(t, read(plainly.b, plainly.y), read(l.b, l.y))
	}
	require.Empty(t, l.b.graphs.byHash)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitN(string(data), "\n", 3)
	require.Contains(t, lines[0], "# cuda:0 ")
	require.Regexp(t, `^# ceilings: f32 [0-9.e+-]+, bf16 [0-9.e+-]+, int8 [0-9.e+-]+ TFLOP/s, memory [0-9.e+-]+ GB/s; an empty pair of events takes [0-9.e+-]+ us$`, lines[1])
	rows, err := csv.NewReader(strings.NewReader(lines[2])).ReadAll()
	require.NoError(t, err)
	calls, units := map[string]int{}, map[string]string{}
	for _, r := range rows[1:] {
		require.Len(t, r, 9)
		n, err := strconv.Atoi(r[3])
		require.NoError(t, err)
		calls[r[0]] += n
		units[r[0]] = r[7]
		if r[8] != "" {
			share, err := strconv.ParseFloat(r[8], 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, share, 0.0)
		}
	}
	require.Equal(t, []int{3, 3, 3, 9},
		[]int{calls["unmask_layer_norm"], calls["unmask_split_heads"],
			calls["unmask_attention_narrow_32"],
			calls["unmask_linear_bf16_small"] + calls["unmask_linear_bf16_tiny"]})
	require.Equal(t, []string{"GB/s", "TFLOP/s", "TFLOP/s"},
		[]string{units["unmask_layer_norm"], units["unmask_attention_narrow_32"],
			units["unmask_linear_bf16_small"]})
	for _, ceiling := range []string{"unmask_ceiling_f32", "unmask_ceiling_bf16_wgmma"} {
		require.NotContains(t, calls, ceiling, "the table is of what was asked for")
	}
}

// TestTraceCloses: a trace frees everything, and a file that cannot be written is an error.
func TestTraceCloses(t *testing.T) {
	l := fakecuda.Open(t)
	t.Setenv(TraceVariable, filepath.Join(t.TempDir(), "trace.csv"))
	b, err := New(Options{Library: l.Path})
	require.NoError(t, err)
	read(b, b.New(3))
	require.NoError(t, b.Close())
	require.Empty(t, l.Live())
	t.Setenv(TraceVariable, "/nowhere/trace.csv")
	_, err = New(Options{Library: l.Path})
	require.ErrorContains(t, err, "cuda: trace: open /nowhere/trace.csv: no such file or directory")
	require.Empty(t, l.Live())
}
