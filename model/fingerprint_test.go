package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// A model's fingerprint is that of its bytes, wherever they are: of a folder and of a GGUF file.
func TestFingerprint(t *testing.T) {
	const pack = "../testdata/packs/sdar-tiny"
	for name, from := range map[string][]string{
		".":               {pack + "/config.json", pack + "/model.safetensors"},
		"llada-tiny.gguf": {"../weights/gguf/testdata/llada-tiny.gguf"},
	} {
		t.Run(name, func(t *testing.T) {
			fingerprint := func(flip byte) string { // of the model with bits of its last byte flipped
				dir := t.TempDir()
				for i, file := range from {
					data, err := os.ReadFile(file)
					require.NoError(t, err)
					if i == len(from)-1 {
						data[len(data)-1] ^= flip
					}
					require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600))
				}
				src, err := model.Open(filepath.Join(dir, name))
				require.NoError(t, err)
				defer src.Set.Close()
				sum, err := src.Fingerprint()
				require.NoError(t, err)
				return sum
			}
			require.Len(t, fingerprint(0), 16)
			require.Equal(t, fingerprint(0), fingerprint(0))
			require.NotEqual(t, fingerprint(0), fingerprint(1))
		})
	}
}
