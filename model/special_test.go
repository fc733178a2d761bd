//go:build unix

package model_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"unmask/demo"
	"unmask/model"
	"unmask/tokenizers"
)

// A pipe in a model's folder is an error, not a wait for someone who writes.
func TestPipesInFolders(t *testing.T) {
	for _, pipe := range []string{"tokenizer.json", "config.json", "model.safetensors"} {
		dir := t.TempDir()
		for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
			data, err := fs.ReadFile(demo.Text(), name)
			require.NoError(t, err)
			if name == pipe {
				require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o666))
				continue
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
		}
		ended := make(chan error, 1)
		go func() {
			src, err := model.Open(dir)
			if err == nil {
				_, _, err = tokenizers.ParseFS(src.Files)
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			require.Regexp(t, "special file|regular file", err.Error(), pipe)
		case <-time.After(time.Minute):
			require.Fail(t, "it waits", pipe)
		}
	}
}
