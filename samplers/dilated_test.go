package samplers_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/samplers"
	"unmask/testkit/parity"
)

// Levels are those of the authors' program.
func TestLevelsAreTheReferences(t *testing.T) {
	data, err := fs.ReadFile(parity.Open(t, "samplers-2026-1").Files, "golden.json")
	require.NoError(t, err)
	var golden struct {
		Levels map[string][][]int `json:"levels"`
	}
	require.NoError(t, json.Unmarshal(data, &golden))
	require.Len(t, golden.Levels, 7)
	for name, want := range golden.Levels {
		var length, base, skip int
		_, err := fmt.Sscanf(name, "%d,%d,%d", &length, &base, &skip)
		require.NoError(t, err)
		require.Equal(t, want, samplers.Dilated{Base: base, Skip: skip}.Levels(length), name)
	}
}

// Levels hold each offset of a block once. Positions of a level are at least its stride apart, but
// in the last one, which may have taken in the leftovers; and no level but the last is smaller than
// the one before it.
func TestLevelsCoverABlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 200).Draw(t, "length")
		d := samplers.Dilated{
			Base: rapid.IntRange(2, 9).Draw(t, "base"),
			Skip: rapid.IntRange(1, 4).Draw(t, "skip"),
		}
		levels := d.Levels(length)
		stride := length
		for range d.Skip {
			stride /= d.Base
		}
		seen := make([]bool, length)
		for n, level := range levels {
			require.NotEmpty(t, level)
			for i, offset := range level {
				require.False(t, seen[offset], "offset %d opens twice", offset)
				seen[offset] = true
				if n < len(levels)-1 && i > 0 {
					require.GreaterOrEqual(t, offset-level[i-1], stride)
				}
			}
			stride /= d.Base
		}
		require.NotContains(t, seen, false)
		if n := len(levels); n > 1 {
			require.GreaterOrEqual(t, len(levels[n-1]), len(levels[n-2]))
		}
	})
}
