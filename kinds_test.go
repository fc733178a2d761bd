package unmask_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
)

// published puts a pack with another config.json at a place, as a published model.
func published(t *testing.T, pack, place string, set map[string]any) {
	t.Helper()
	from := filepath.Join("testdata", "packs", pack)
	require.NoError(t, os.MkdirAll(filepath.Dir(place), 0o700))
	require.NoError(t, os.CopyFS(place, os.DirFS(from)))
	name := filepath.Join(place, "config.json")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(data, &config))
	for key, v := range set {
		config[key] = v
	}
	data, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// What only a published name tells is told by the repository's name, which the hub's cache keeps: a
// model from it lies in a folder that is named by a commit. A folder's own name tells nothing, and
// that is said; an option does.
func TestKindsThatNamesTell(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		pack, repo, as string
		set            map[string]any
		plain, told    string // beginnings of the recipes
	}{
		{"dream-tiny", "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", "a2d-bd3lm",
			map[string]any{"model_type": "a2d-qwen3"}, "semi-ar(low-confidence",
			"low-confidence schedule=dllm"},
		{"llada2-moe-tiny", "inclusionAI/LLaDA2.1-mini", "llada2.1", nil, "dynamic(theta=0.95)", "edit"},
		{"esm-tiny", "airkingbd/dplm_150m", "dplm", nil, "", "dplm steps=500"},
		{"llada-moe-tiny", "inclusionAI/LLaDA-MoE-7B-A1B-Instruct-TD", "llada-moe-td", nil,
			"semi-ar(low-confidence)", "semi-ar(greedy(threshold))"},
	} {
		t.Run(c.as, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("HF_HUB_CACHE", cache)
			t.Setenv("HF_HUB_OFFLINE", "1")
			repo := filepath.Join(cache, "models--"+strings.ReplaceAll(c.repo, "/", "--"))
			snapshot := filepath.Join(repo, "snapshots", commit)
			published(t, c.pack, snapshot, c.set)
			require.NoError(t, os.MkdirAll(filepath.Join(repo, "refs"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(repo, "refs", "main"), []byte(commit), 0o600))
			link := filepath.Join(t.TempDir(), "model")
			require.NoError(t, os.Symlink(snapshot, link))
			folder := filepath.Join(t.TempDir(), filepath.Base(c.repo))
			published(t, c.pack, folder, c.set)

			load := func(name, as string) (m *unmask.Model, identity string) {
				m, err := unmask.Load(context.Background(), name, unmask.Options{As: as})
				require.NoError(t, err)
				t.Cleanup(func() { m.Source.Set.Close() })
				identity, err = m.Source.Fingerprint()
				require.NoError(t, err)
				return m, identity
			}
			m, want := load(c.repo, "")
			require.True(t, strings.HasPrefix(m.Recipe, c.told), m.Recipe)
			require.Equal(t, c.as, m.Source.As)
			for _, name := range []string{snapshot, link} {
				other, identity := load(name, "")
				require.Equal(t, []string{m.Recipe, want}, []string{other.Recipe, identity}, name)
			}
			other, identity := load(folder, "")
			require.True(t, strings.HasPrefix(other.Recipe, c.plain), other.Recipe)
			require.NotEqual(t, want, identity)
			require.Contains(t, strings.Join(other.Info.Notes, "; "), "(--as "+c.as+" for the other)")
			other, identity = load(folder, c.as)
			require.Equal(t, []string{m.Recipe, want}, []string{other.Recipe, identity})
			require.Contains(t, strings.Join(other.Info.Notes, "; "), "read as "+c.as+", as asked for")
			_, err := unmask.Load(context.Background(), folder, unmask.Options{As: "nothing"})
			require.ErrorContains(t, err, `as is "nothing", want CoDA, Dream, `)
		})
	}
}

// An adapter without its network is refused as what it is.
func TestAdapterAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte("{}"), 0o600))
	_, err := unmask.Load(context.Background(), dir, unmask.Options{})
	require.ErrorContains(t, err, "there is adapter_config.json: an "+
		"adapter (LoRA) without its network is not read")
}
