package llama_test

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/families/llama"
	"unmask/testkit/parity"
)

// Frequencies and factors are transformers'; testdata/rope.py wrote them.
func TestScaledRotary(t *testing.T) {
	data, err := os.ReadFile("testdata/rope.json")
	require.NoError(t, err)
	var cases map[string]struct {
		Config json.RawMessage
		Freq   []float64
		Scale  float64
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.Len(t, cases, 14)
	for name, c := range cases {
		got, err := llama.ScaledOf(c.Config)
		require.NoError(t, err, name)
		require.InDelta(t, c.Scale, got.Scale, 1e-7, name)
		require.Len(t, got.Freq, len(c.Freq))
		for i, want := range c.Freq {
			require.InEpsilon(t, want, got.Freq[i], 1.0/(1<<22), "%s, pair %d", name, i)
		}
	}
}

// Cosines, sines and factors on queries below and beyond the original length. Far out one unit in
// the last place of a frequency moves the angle, so the bound grows with the angle.
func TestYaRNTables(t *testing.T) {
	p := parity.OpenCases(t, "yarn-tables")
	data, err := fs.ReadFile(os.DirFS(p.Dir("")), "tables.json")
	require.NoError(t, err)
	var cases map[string]struct {
		HeadDim int            `json:"head_dim"`
		Rope    map[string]any `json:"rope_parameters"`
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.Len(t, cases, 6)
	for name, c := range cases {
		config, err := json.Marshal(map[string]any{"head_dim": c.HeadDim, "rope_parameters": c.Rope,
			"max_position_embeddings": 1 << 18})
		require.NoError(t, err)
		got, err := llama.ScaledOf(config)
		require.NoError(t, err, name)
		scale, _ := p.Floats(name + "_scale")
		require.InDelta(t, scale[0], got.Scale, 1e-7, name)
		at, _ := p.Ints(name + "_positions")
		cos, shape := p.Floats(name + "_cos")
		sin, _ := p.Floats(name + "_sin")
		query, _ := p.Floats(name + "_query")
		half := shape[1]
		for i, pos := range at {
			require.InDelta(t, query[i], got.Query(int(pos)), 1e-6, "%s, query at %d", name, pos)
			gotCos, gotSin := got.Turn(int(pos))
			for j := range half {
				angle := float64(pos) * float64(got.Freq[j])
				bound := (math.Abs(angle)/(1<<22) + 1e-6) * max(1, float64(scale[0]))
				require.InDelta(t, cos[i*half+j], gotCos[j], bound, "%s at %d", name, pos)
				require.InDelta(t, sin[i*half+j], gotSin[j], bound, "%s at %d", name, pos)
			}
		}
	}
}
