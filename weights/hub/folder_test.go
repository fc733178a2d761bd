package hub

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// models are the files of models of each kind that a repository or a folder of it may have.
var models = map[string]map[string]string{
	"parts": {
		"config.json": "{}", "tokenizer.json": "{}", "part-1.safetensors": "one",
		"model.safetensors.index.json": `{"weight_map":{"a":"part-1.safetensors"}}`,
	},
	"decisions": {
		"rl_agent_config.json": "{}", "encoder/config.json": "{}", "tokenizer/tokenizer.json": "{}",
		"model.safetensors": "weights",
	},
	"pipeline": {
		"model_index.json":        `{"transformer":["diffusers","UVit2DModel"]}`,
		"transformer/config.json": "{}", "transformer/diffusion_pytorch_model.safetensors": "t",
	},
	"vectors": {
		"config.json": "{}", "model.safetensors": "w",
		"modules.json": `[{"path":""},{"path":"01_pooling"},{"path":"2_Dense_1024"},` +
			`{"path":"3_Normalize"}]`,
		"01_pooling/config.json": "{}", "2_Dense_1024/config.json": "{}",
		"2_Dense_1024/model.safetensors": "d",
	},
}

// A folder is pulled as a repository of its own would be, to its place in the snapshot, and nothing
// else of the repository with it; the repository's own model is pulled without the folder's files.
// Both are there offline, and a list names the folder.
func TestPullFolder(t *testing.T) {
	for rootKind, rootFiles := range models {
		for kind, ownFiles := range models {
			for _, folder := range []string{"typed-decisions", "models/multilingual"} {
				t.Run(rootKind+" with "+kind+" in "+folder, func(t *testing.T) {
					h := newHub(t)
					files := map[string]string{"README.md": "long", folder + "/README.md": "long"}
					maps.Copy(files, rootFiles)
					var want []string
					for name, data := range ownFiles {
						files[folder+"/"+name] = data
						want = append(want, folder+"/"+name)
					}
					slices.Sort(want)
					h.trees[commitA] = files

					c := h.client(t)
					dir, err := c.PullFolder(t.Context(), repo, "", folder, nil)
					require.NoError(t, err)
					snapshot := c.snapshotDir(repo, commitA)
					require.Equal(t, filepath.Join(snapshot, filepath.FromSlash(folder)), dir)
					have, _, err := listFiles(snapshot)
					require.NoError(t, err)
					require.Equal(t, want, have)
					require.Equal(t, repo, RepoFromPath(dir))
					_, err = c.FindModel(repo, "")
					require.ErrorIs(t, err, ErrNotCached, "the root is another model")
					list, err := c.List()
					require.NoError(t, err)
					require.Equal(t, []string{folder}, list[0].Folders)
					require.Contains(t, list[0].String(), ":"+folder+"/")

					offline := *c
					offline.Offline = true
					again, err := offline.PullFolder(t.Context(), repo, "", folder, nil)
					require.NoError(t, err)
					require.Equal(t, dir, again)

					c = h.client(t)
					dir, err = c.PullModel(t.Context(), repo, "", nil)
					require.NoError(t, err)
					have, _, err = listFiles(dir)
					require.NoError(t, err)
					require.Equal(t, slices.Sorted(maps.Keys(rootFiles)), have)
					offline.Cache = c.Cache
					_, err = offline.PullFolder(t.Context(), repo, "", folder, nil)
					require.ErrorIs(t, err, ErrNotCached)
				})
			}
		}
	}
}

// Names of folders end in a slash. A folder without a model is refused before anything is fetched,
// and a repository that has its models in folders says so.
func TestFolderNames(t *testing.T) {
	_, revision, folder, err := ParseModelName("org/name@v1:a/b/")
	require.NoError(t, err)
	require.Equal(t, []string{"v1", "a/b/"}, []string{revision, folder})
	for _, bad := range []string{"org/name:/", "org/name:../", "org/name:a/../b/", "org/name:a//",
		"org/name:/a/", "org/name:a"} {
		_, _, _, err := ParseModelName(bad)
		require.ErrorContains(t, err, "want a GGUF file of the repository, or a folder and /", bad)
	}

	h := newHub(t)
	h.trees[commitA] = map[string]string{"a/config.json": "{}", "a/model.safetensors": "x",
		"b/readme": ""}
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Setenv("HF_ENDPOINT", h.URL)
	_, err = PullModel(t.Context(), repo+":b/", nil)
	require.ErrorContains(t, err, `the repository's folder "b" has no config.json`)
	_, err = PullModel(t.Context(), repo, nil)
	require.ErrorContains(t, err, "or one of its folders, such as "+repo+":a/")
	require.Zero(t, h.count("/resolve/"))
	dir, err := PullModel(t.Context(), repo+":a/", nil)
	require.NoError(t, err)
	require.Equal(t, "x", read(t, path.Join(filepath.ToSlash(dir), "model.safetensors")))
	require.True(t, strings.HasSuffix(filepath.ToSlash(dir), "/snapshots/"+commitA+"/a"))
}

// Folders of modules are inside the model's, and not too many.
func TestModulesOutside(t *testing.T) {
	for list, want := range map[string]string{
		`[{"path":"../x"}]`: `path is "../x"`,
		`[{"path":"/x"}]`:   `path is "/x"`,
		`[{"path":"."}]`:    `path is "."`,
		`{"path":"x"}`:      "modules.json: ",
		"[" + strings.Repeat(`{"path":"x"},`, 300) + `{"path":"x"}]`: "301 modules, want at most 64",
	} {
		h := newHub(t)
		h.trees[commitA]["modules.json"] = list
		_, err := h.client(t).PullModel(t.Context(), repo, "", nil)
		require.ErrorContains(t, err, want)
	}
}

// A repository that has a PyTorch file of ESM-C and no config.json is pulled with that file, and is
// there offline.
func TestPullCheckpoint(t *testing.T) {
	h := newHub(t)
	const file = "data/weights/esmc_300m_2024_12_v0.pth"
	h.trees[commitA] = map[string]string{"README.md": "long", file: "weights", "data/other.csv": "x"}
	c := h.client(t)
	dir, err := c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	have, _, err := listFiles(dir)
	require.NoError(t, err)
	require.Equal(t, []string{file}, have)
	offline := *c
	offline.Offline = true
	again, err := offline.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.Equal(t, dir, again)

	// Any of the files is enough.
	h.trees[commitA] = map[string]string{"model_v2.ckpt": "weights", "other.ckpt": "x"}
	dir, err = h.client(t).PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	have, _, err = listFiles(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"model_v2.ckpt"}, have)
	delete(h.trees[commitA], "model_v2.ckpt")
	h.trees[commitA][file] = "weights"

	// Beside a config.json it is a file like any other.
	h.trees[commitA]["config.json"] = "{}"
	c = h.client(t)
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "has no model.safetensors, but "+file)
}

// Von's weights are in a file of their own, and what its folder has as model.safetensors is not
// fetched.
func TestPullVon(t *testing.T) {
	h := newHub(t)
	h.trees[commitA] = map[string]string{"config.json": "{}", "model.safetensors": "seed",
		"option_marker.pt": "weights", "marker_calibration.json": "{}", "tokenizer.json": "{}"}
	c := h.client(t)
	dir, err := c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	have, _, err := listFiles(dir)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"config.json", "marker_calibration.json", "option_marker.pt",
		"tokenizer.json"}, have)
	offline := *c
	offline.Offline = true
	again, err := offline.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.Equal(t, dir, again)
}

// Of a split GGUF file every part is fetched, whichever of them is named.
func TestPullPartsOfAFile(t *testing.T) {
	h := newHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	tree := map[string]string{}
	h.trees[commitA] = tree
	for i := range 3 {
		tree[fmt.Sprintf("q4/m-%05d-of-00003.gguf", i+1)] = fmt.Sprint("part ", i)
	}
	file, err := PullModel(t.Context(), repo+":q4/m-00002-of-00003.gguf", nil)
	require.NoError(t, err)
	require.Equal(t, "part 1", read(t, file))
	parts, place := weights.PartNames(file)
	require.Equal(t, 1, place)
	require.Len(t, parts, 3)
	for i, part := range parts {
		require.Equal(t, fmt.Sprint("part ", i), read(t, part))
	}
	for _, name := range []string{"m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf",
		"m-00001-of-99999.gguf", "m-1-of-3.gguf"} {
		parts, _ := weights.PartNames(name)
		require.Nil(t, parts, name)
	}
}
