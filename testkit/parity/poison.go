package parity

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Poison returns a copy of a pack's folder in which all numbers of the tensors whose names match a
// pattern are value. With infinite or very large ones its network computes no finite numbers.
func Poison(t testing.TB, pack, pattern string, value float32) (dir string) {
	dir = t.TempDir()
	original := os.DirFS(filepath.Join(moduleRoot(), "testdata", "packs", pack))
	require.NoError(t, os.CopyFS(dir, original))
	file := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	start := 8 + binary.LittleEndian.Uint64(data)
	var tensors map[string]struct {
		DType   string    `json:"dtype"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	require.NoError(t, json.Unmarshal(data[8:start], &tensors))
	changed := 0
	for name, tensor := range tensors {
		if tensor.DType != "F32" || !regexp.MustCompile(pattern).MatchString(name) {
			continue
		}
		changed++
		for offset := start + tensor.Offsets[0]; offset < start+tensor.Offsets[1]; offset += 4 {
			binary.LittleEndian.PutUint32(data[offset:], math.Float32bits(value))
		}
	}
	require.NotZero(t, changed, "no tensor of %s matches %s", pack, pattern)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return dir
}
