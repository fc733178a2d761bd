package unmask_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/weights"
)

// withSecondSet returns a pack's files with every tensor a second time, under another name.
func withSecondSet(t *testing.T, folder string, rename func(name string) string) fstest.MapFS {
	files := fstest.MapFS{}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = &fstest.MapFile{Data: data}
	}
	set, err := weights.Parse(files["model.safetensors"].Data, "model.safetensors")
	require.NoError(t, err)
	var list []weights.Tensor
	for _, name := range set.Names() {
		tensor, _ := set.Get(name)
		second := *tensor
		second.Name = rename(name)
		second.Data = make([]byte, len(tensor.Data))
		list = append(list, *tensor, second)
	}
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, list, nil))
	files["model.safetensors"] = &fstest.MapFile{Data: file.Bytes()}
	return files
}

// A safetensors file with two sets of weights says nothing of which is meant: every network
// refuses it, however the second set is named.
func TestSecondSetOfWeightsIsRefused(t *testing.T) {
	renames := map[string]func(name string) string{
		"CompVis": func(name string) string {
			return "model_ema." + strings.ReplaceAll(name, ".", "")
		},
	}
	for _, module := range []string{"ema.", "model_ema.", "ema_model.module.", "shadow.", "module.",
		"_orig_mod.", "net.ema."} {
		renames[module] = func(name string) string { return module + name }
	}
	files, err := filepath.Glob("testdata/packs/*/model.safetensors")
	require.NoError(t, err)
	loaded := 0
	for _, file := range files {
		folder := filepath.Dir(file)
		if _, err := unmask.LoadFS(os.DirFS(folder), folder, unmask.Options{Threads: 1}); err != nil {
			continue // a part of a model, or a judge
		}
		loaded++
		for name, rename := range renames {
			_, err := unmask.LoadFS(withSecondSet(t, folder, rename), folder, unmask.Options{Threads: 1})
			require.Error(t, err, "%s with %s", folder, name)
		}
	}
	require.Greater(t, loaded, 25)
}
