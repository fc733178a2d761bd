package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/weights"
)

// The default precision of a model that is larger than memory is the largest that fits, one that
// was asked for stays, and what is needed, free and would fit is said.
func TestChoosePrecision(t *testing.T) {
	set, err := weights.NewSet([]*weights.Tensor{
		{Name: "a", DType: weights.BF16, Shape: []int{40_000, 50_000}},
		{Name: "b", DType: weights.Q4_K, Shape: []int{1000, 256}},
		{Name: "c", DType: weights.F32, Shape: []int{4}, Data: make([]byte, 16)}}, nil)
	require.NoError(t, err)
	need := WeightBytes(set)
	require.EqualValues(t, 8e9+144_016, need(backend.F32))
	require.EqualValues(t, 2e9+144_016, need(backend.Int8))
	for _, c := range []struct {
		free       int64
		as, want   backend.Precision
		replace    bool
		note, fail string
	}{
		{9e9, backend.F32, backend.F32, true, "", ""},
		{5e9, backend.F32, backend.BF16, true, "weights take 8.0 GB in f32 and 4.0 GB in bf16, and 5.0 " +
			"GB are free: computed in bf16", ""},
		{3e9, backend.F32, backend.Int8, true, "weights take 8.0 GB in f32 and 2.0 GB in int8, and 3.0 " +
			"GB are free: computed in int8", ""},
		{5e9, backend.F32, backend.F32, false, "", "weights take 8.0 GB in f32, 4.0 GB in bf16, 2.0 GB " +
			"in int8, and 5.0 GB are free, want --precision bf16 (4.0 GB) or --precision int8 (2.0 GB) or " +
			"a GGUF file of it in Q4_K"},
		{3e9, backend.BF16, backend.BF16, false, "", "weights take 8.0 GB in f32, 4.0 GB in bf16, 2.0 " +
			"GB in int8, and 3.0 GB are free, want --precision int8 (2.0 GB) or a GGUF file of it in Q4_K"},
		{1e9, backend.F32, backend.F32, true, "", "weights take 8.0 GB in f32, 4.0 GB in bf16, 2.0 GB " +
			"in int8, and 1.0 GB are free, want a GGUF file of it in Q4_K"},
	} {
		p, note, err := choosePrecision(need, c.free, c.as, c.replace)
		require.Equal(t, c.want, p)
		require.Equal(t, c.note, note)
		if c.fail != "" {
			require.EqualError(t, err, c.fail)
			continue
		}
		require.NoError(t, err)
	}
}
