package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// A model's fingerprint is that of its bytes, wherever they are: of a folder with the tokenizer and
// the networks in its subfolders, and of a GGUF file.
func TestFingerprint(t *testing.T) {
	const packs = "../testdata/packs/"
	for file, from := range map[string]string{
		"model.safetensors": packs + "sdar-tiny",
		"vocab.txt":         packs + "bert-tiny",
		"vqvae/diffusion_pytorch_model.fp16.safetensors": packs + "amused-256-tiny",
		"llada-tiny.gguf": "../weights/gguf/testdata",
	} {
		t.Run(file, func(t *testing.T) {
			fingerprint := func(flip byte) string { // of the model with bits of the file's last byte flipped
				dir := t.TempDir()
				require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
				name := filepath.Join(dir, file)
				data, err := os.ReadFile(name)
				require.NoError(t, err)
				data[len(data)-1] ^= flip
				require.NoError(t, os.WriteFile(name, data, 0o600))
				if filepath.Ext(name) == ".gguf" {
					dir = name
				}
				src, err := model.Open(dir)
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
