package pytorch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// Tensors within lists and tuples have their numbers as names, float8 keeps its bytes, and places
// that give no names are told, in both formats of torch.save and by every protocol.
func TestLists(t *testing.T) {
	for _, file := range []string{"lists.pth", "lists4.pth"} {
		t.Run(file, func(t *testing.T) {
			dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
			data, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, folderFile), data, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, configFile), []byte("{}"), 0o600))
			var said string
			require.NoError(t, Convert(context.Background(), dir, out, Options{
				Logf: func(format string, args ...any) { said += fmt.Sprintf(format, args...) }}))
			require.Equal(t, "left out: tensors in [a tuple], set, want them in dictionaries and lists",
				said)
			set, err := weights.Open(out)
			require.NoError(t, err)
			defer set.Close()
			want := map[string][]float32{"a": {1, 1}, "blocks.0": {2, 2}, "blocks.1.w": {3, 3, 3},
				"blocks.2.0": {4}, "blocks.2.2.0": {5}, "eight": nil, "five": nil}
			require.Len(t, set.Names(), len(want))
			for name, values := range want {
				got, ok := set.Get(name)
				require.True(t, ok, name)
				if values == nil {
					continue
				}
				x, err := got.Floats()
				require.NoError(t, err)
				require.Equal(t, values, x, name)
			}
			eight, _ := set.Get("eight")
			require.Equal(t, weights.DType("F8_E4M3"), eight.DType)
			require.Equal(t, []byte{0x4c, 0x4c, 0x4c, 0x4c}, eight.Data) // 6 = 1.5 * 2^2
			five, _ := set.Get("five")
			require.Equal(t, weights.DType("F8_E5M2"), five.DType)
			require.Equal(t, []byte{0x47, 0x47, 0x47, 0x47}, five.Data) // 7 = 1.75 * 2^2
		})
	}
}

// An index may name no tensor that its shards do not have.
func TestIndexWithoutTensor(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/lists.pth")
	require.NoError(t, err)
	for name, text := range map[string]string{"a.bin": string(data), configFile: "{}",
		folderIndex: `{"weight_map":{"a":"a.bin","blocks.0":"a.bin","lost.weight":"a.bin"}}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	err = Convert(context.Background(), dir, filepath.Join(t.TempDir(), "out"), Options{})
	require.ErrorContains(t, err, `pytorch_model.bin.index.json: tensor "lost.weight" is not in a.bin`)
}
