package unmask_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/weights"
)

// packFiles returns a pack's files, its weights replaced by those that change makes of them.
func packFiles(t *testing.T, folder string,
	change func(w weights.Tensor) []weights.Tensor) fstest.MapFS {
	files := fstest.MapFS{}
	pack := os.DirFS(folder)
	require.NoError(t, fs.WalkDir(pack, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(pack, name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	}))
	set, err := weights.Parse(files["model.safetensors"].Data, "model.safetensors")
	require.NoError(t, err)
	var list []weights.Tensor
	for _, name := range set.Names() {
		tensor, _ := set.Get(name)
		list = append(list, change(*tensor)...)
	}
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, list, nil))
	files["model.safetensors"] = &fstest.MapFile{Data: file.Bytes()}
	return files
}

// withSecondSet returns a pack's files with every tensor a second time, under another name.
func withSecondSet(t *testing.T, folder string, rename func(name string) string) fstest.MapFS {
	return packFiles(t, folder, func(w weights.Tensor) []weights.Tensor {
		second := w
		second.Name = rename(w.Name)
		second.Data = make([]byte, len(w.Data))
		return []weights.Tensor{w, second}
	})
}

// renamedTensors returns a pack's files with other names of the tensors.
func renamedTensors(t *testing.T, folder string, rename func(name string) string) fstest.MapFS {
	return packFiles(t, folder, func(w weights.Tensor) []weights.Tensor {
		w.Name = rename(w.Name)
		return []weights.Tensor{w}
	})
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

// The files of a network that torch.compile wrapped, in whole or in every block, are those of the
// network.
func TestCompiledNetworks(t *testing.T) {
	files, err := filepath.Glob("testdata/packs/*/model.safetensors")
	require.NoError(t, err)
	loaded := 0
	for _, file := range files {
		folder := filepath.Dir(file)
		want, err := unmask.LoadFS(os.DirFS(folder), folder, unmask.Options{Threads: 1})
		if err != nil {
			continue // a part of a model, or a judge
		}
		loaded++
		for _, rename := range []func(name string) string{
			func(name string) string { return "_orig_mod." + name },
			func(name string) string {
				return numberedModule.ReplaceAllString(name, ".$1._orig_mod.")
			},
		} {
			got, err := unmask.LoadFS(renamedTensors(t, folder, rename), folder,
				unmask.Options{Threads: 1})
			if assert.NoError(t, err, folder) {
				assert.Equal(t, want.Info.Parameters, got.Info.Parameters, folder)
			}
		}
	}
	require.Greater(t, loaded, 25)
}

// numberedModule matches a block's number in a tensor's name.
var numberedModule = regexp.MustCompile(`\.([0-9]+)\.`)
