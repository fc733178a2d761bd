package simd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/simd"
)

func TestSelect(t *testing.T) {
	t.Setenv(simd.Variable, "")
	all := simd.Available()
	require.Equal(t, simd.Level{}, all[len(all)-1], "plain Go runs everywhere")

	best, err := simd.Select("")
	require.NoError(t, err)
	require.Equal(t, all[0], best)
	for _, l := range all {
		got, err := simd.Select(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	}

	t.Setenv(simd.Variable, "generic")
	got, err := simd.Select("")
	require.NoError(t, err)
	require.Equal(t, simd.Level{}, got)
}

func TestSelectNamesWhatThereIs(t *testing.T) {
	_, err := simd.Select("mmx")
	require.ErrorContains(t, err, `"mmx"`)
	require.ErrorContains(t, err, "generic")

	t.Setenv(simd.Variable, "sse9")
	_, err = simd.Select("")
	require.ErrorContains(t, err, `UNMASK_ISA is "sse9"`)
}

func TestLevelNames(t *testing.T) {
	for want, l := range map[string]simd.Level{
		"avx512":               {ISA: simd.AVX512, BF16: true, VNNI: true},
		"avx512-nobf16":        {ISA: simd.AVX512, VNNI: true},
		"avx512-nobf16-novnni": {ISA: simd.AVX512}, "avx2": {ISA: simd.AVX2},
		"avx2-vnni": {ISA: simd.AVX2, VNNI: true}, "neon": {ISA: simd.NEON, Dot: true},
		"neon-nodot": {ISA: simd.NEON}, "generic": {},
	} {
		require.Equal(t, want, l.String())
	}
}
