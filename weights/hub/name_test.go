package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for in, want := range map[string][2]string{
		"jdeschena/sdtt": {"jdeschena/sdtt", "main"},
		"jdeschena/sdtt@baselines_kld_step_70000": {"jdeschena/sdtt", "baselines_kld_step_70000"},
		"openai-community/gpt2-xl@refs/pr/1":      {"openai-community/gpt2-xl", "refs/pr/1"},
		"a/b@v1.0":                                {"a/b", "v1.0"},
	} {
		repo, revision, _, err := ParseModelName(in)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{repo, revision})
	}
	for _, in := range []string{"", "gpt2", "a/", "/b", "a/b/c", "../b", "a/..", "a/b..c", "a/b--c",
		"a/-b", ".a/b", "a/b.git", "a b/c",
		"a/b@", "a/b@..", "a/b@x/../y", "a/b@/x", "a/b@x/", "a/b@x//y", "a/b@-x", "a/b@.x", "a/b@x.lock",
		"a/b@x.", "a/b@a b", "a/b@x\x00", "a/b@x?y#z",
		`a/b@x\y`, "a/b@x:y", "a/b@@{u}", "a/" + strings.Repeat("b", 100), "a/b@" +
			strings.Repeat("b", 201), "http://x/y"} {
		_, _, _, err := ParseModelName(in)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestPullChecksNames(t *testing.T) {
	c := &Client{Cache: t.TempDir(), Endpoint: "http://127.0.0.1:1"}
	for _, file := range []string{"", "/x", "../x", "a/../../x", "a//b", "./a", `a\b`, "a\x00",
		"C:x", strings.Repeat("a", 300)} {
		_, err := c.Pull(t.Context(), "a/b", "", []string{file}, nil)
		require.ErrorContains(t, err, "file ", file)
	}
	_, err := c.PullModel(t.Context(), "a/..", "..", nil)
	require.ErrorContains(t, err, `repository is "a/..", want`)
	_, err = c.Find("a/b", "../../x")
	require.ErrorContains(t, err, `revision is "../../x", want`)
	entries, err := os.ReadDir(c.Cache)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestFileURL(t *testing.T) {
	c := &Client{Endpoint: "https://h"}
	require.Equal(t, "https://h/a/b/resolve/refs%2Fpr%2F1/d%20e/f%23.json",
		c.fileURL("a/b", "refs/pr/1", "d e/f#.json"))
}

func FuzzParse(f *testing.F) {
	f.Add("jdeschena/sdtt@baselines_kld_step_70000")
	f.Add("a/b@refs/pr/1")
	f.Add("../..@../../x")
	f.Fuzz(func(t *testing.T, s string) {
		repo, revision, _, err := ParseModelName(s)
		if err != nil {
			return
		}
		c := Client{Cache: "/cache"}
		for name, root := range map[string]string{
			c.refPath(repo, revision): "/cache/models--" + strings.Replace(repo, "/", "--", 1) +
				"/refs/",
			c.snapshotDir(repo, revision): "/cache/models--" + strings.Replace(repo, "/", "--", 1) +
				"/snapshots/",
		} {
			if !strings.HasPrefix(filepath.ToSlash(name), root) {
				t.Fatalf("%q leads to %q", s, name)
			}
		}
	})
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HF_HOME", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
		"HF_ENDPOINT", "HF_TOKEN",
		"HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_OFFLINE"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	get := func() Client {
		c, err := FromEnv()
		require.NoError(t, err)
		return *c
	}
	require.Equal(t, Client{Cache: filepath.Join(home, ".cache/huggingface/hub"),
		Endpoint: DefaultEndpoint}, get())
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	require.Equal(t, "/xdg/huggingface/hub", get().Cache)
	t.Setenv("HF_HOME", "~/hf")
	require.Equal(t, filepath.Join(home, "hf/hub"), get().Cache)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "hf"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "hf/token"), []byte("hf_file\n"), 0o600))
	require.Equal(t, "hf_file", get().Token)
	t.Setenv("HF_TOKEN", " hf_env\n")
	require.Equal(t, "hf_env", get().Token)
	t.Setenv("HF_HUB_CACHE", "/cache")
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:8080/")
	t.Setenv("HF_HUB_OFFLINE", "yes")
	require.Equal(t, Client{Cache: "/cache", Endpoint: "http://127.0.0.1:8080", Token: "hf_env",
		Offline: true}, get())
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	require.Empty(t, get().Token)

	t.Setenv("HF_ENDPOINT", "ftp://x")
	_, err := FromEnv()
	require.ErrorContains(t, err, `HF_ENDPOINT: endpoint is "ftp://x", want`)
	t.Setenv("HF_ENDPOINT", "")
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "")
	t.Setenv("HF_TOKEN", "two words")
	_, err = FromEnv()
	require.ErrorContains(t, err, "HF_TOKEN: the token has characters")
	require.NotContains(t, err.Error(), "two words")
}

func TestFunctionsUseTheEnvironment(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	for name, value := range map[string]string{"HF_HUB_CACHE": cache, "HF_ENDPOINT": h.URL,
		"HF_TOKEN": "hf_x", "HF_HUB_OFFLINE": ""} {
		t.Setenv(name, value)
	}
	c, err := FromEnv()
	require.NoError(t, err)
	dir, err := c.Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dir, cache))
	found, err := c.Find(repo, commitA)
	require.NoError(t, err)
	require.Equal(t, dir, found)
	all, err := List()
	require.NoError(t, err)
	require.Len(t, all, 1)

	t.Setenv("HF_ENDPOINT", "nonsense")
	_, err = FromEnv()
	require.ErrorContains(t, err, "HF_ENDPOINT")
	_, err = List()
	require.ErrorContains(t, err, "HF_ENDPOINT")
}

func TestListSkipsWhatIsNoModel(t *testing.T) {
	c := &Client{Cache: filepath.Join(t.TempDir(), "none")}
	all, err := c.List()
	require.NoError(t, err)
	require.Empty(t, all)
	for _, dir := range []string{"datasets--a--b/snapshots/" + commitA,
		"models--gpt2/snapshots/" + commitA, "models--a--b/snapshots/junk",
		"models--c--d/snapshots/" + commitA, "models--e--f", "models--a--../snapshots/" + commitA} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.Cache, dir), 0o755))
	}
	broken := c.refPath("c/d", "broken")
	require.NoError(t, os.MkdirAll(filepath.Dir(broken), 0o755))
	require.NoError(t, os.WriteFile(broken, []byte("../../etc"), 0o644))
	require.NoError(t, os.Symlink("../../blobs/gone",
		filepath.Join(c.snapshotDir("c/d", commitA), "model.safetensors")))
	all, err = c.List()
	require.NoError(t, err)
	require.Equal(t, []Snapshot{{Repo: "c/d", Commit: commitA, Dir: c.snapshotDir("c/d", commitA)}},
		all)
	_, err = c.Find("c/d", "broken")
	require.ErrorContains(t, err, `is "../../etc", want a commit of 40 hex digits`)
}

// A place within a cache tells its repository, also through links; others tell none.
func TestRepoFromPath(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	cache := t.TempDir()
	snapshot := filepath.Join(cache, "models--org--name-v0.1", "snapshots", commit)
	require.NoError(t, os.MkdirAll(filepath.Join(snapshot, "part"), 0o700))
	blob := filepath.Join(cache, "models--org--name-v0.1", "blob")
	require.NoError(t, os.WriteFile(blob, nil, 0o600))
	require.NoError(t, os.Symlink(blob, filepath.Join(snapshot, "m.gguf")))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(snapshot, link))
	for _, c := range []struct{ name, place, want string }{
		{"snapshot", snapshot, "org/name-v0.1"},
		{"part of a pipeline", filepath.Join(snapshot, "part"), "org/name-v0.1"},
		{"file", filepath.Join(snapshot, "m.gguf"), "org/name-v0.1"},
		{"link", link, "org/name-v0.1"},
		{"cache", cache, ""},
		{"no commit", filepath.Join(cache, "models--org--name", "snapshots", "main"), ""},
		{"folder", filepath.Join(cache, "org--name"), ""},
		{"bad name", filepath.Join(cache, "models--..", "snapshots", commit), ""},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, RepoFromPath(c.place)) })
	}
}
