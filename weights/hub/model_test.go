package hub

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chatModel returns the files of a repository with weights in parts, a tokenizer, and files that
// are not needed.
func chatModel(h *fakeHub) map[string]string {
	files := map[string]string{
		"config.json": "{}", "generation_config.json": "{}", "tokenizer_config.json": "{}",
		"vocab.json": "{}",
		"merges.txt": "", "chat_template.jinja": "x", "special_tokens_map.json": "{}",
		"model.safetensors.index.json": `{"weight_map":{"a":"part-1.safetensors","b":"part-2.safetensors","c":"part-1.safetensors"}}`,
		"part-1.safetensors":           "one", "part-2.safetensors": "two",
		"README.md": "long", "pytorch_model.bin": "old", "onnx/model.onnx": "other",
	}
	h.trees[commitA] = files
	return files
}

func TestPullModel(t *testing.T) {
	h := newHub(t)
	files := chatModel(h)
	c := h.client(t)
	dir, err := c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	have, _, err := listFiles(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"chat_template.jinja", "config.json", "generation_config.json",
		"merges.txt",
		"model.safetensors.index.json", "part-1.safetensors", "part-2.safetensors",
		"special_tokens_map.json",
		"tokenizer_config.json", "vocab.json"}, have)
	require.Equal(t, "two", read(t, dir+"/part-2.safetensors"))

	// All of it is there offline.
	c.Offline = true
	again, err := c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.NoError(t, os.Remove(dir+"/part-2.safetensors"))
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.ErrorIs(t, err, ErrNotCached)
	require.ErrorContains(t, err, `file "part-2.safetensors"`)
	c.Offline = false
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.FileExists(t, dir+"/part-2.safetensors")

	files["model.safetensors.index.json"] = `{"weight_map":{"a":"../../../evil"}}`
	_, err = h.client(t).PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, `model.safetensors.index.json: file is "../../../evil"`)
	files["model.safetensors.index.json"] = `{"weight_map":`
	_, err = h.client(t).PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "model.safetensors.index.json: ")
	require.NotContains(t, err.Error(), "\n")
}

func TestPullPipeline(t *testing.T) {
	h := newHub(t)
	h.trees[commitA] = map[string]string{
		"model_index.json": `{"_class_name":"AmusedPipeline","transformer":["diffusers","UVit2DModel"],` +
			`"vqvae":["diffusers","VQModel"],"tokenizer":["transformers","CLIPTokenizer"],"none":[null,null],"flag":true}`,
		"transformer/config.json": "{}", "transformer/diffusion_pytorch_model.safetensors": "t",
		"transformer/diffusion_pytorch_model.fp16.safetensors": "half",
		"vqvae/config.json": "{}", "vqvae/diffusion_pytorch_model.fp16.safetensors": "v",
		"tokenizer/vocab.json": "{}", "tokenizer/merges.txt": "", "other/config.json": "{}",
	}
	c := h.client(t)
	dir, err := c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	have, _, err := listFiles(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"model_index.json", "tokenizer/merges.txt", "tokenizer/vocab.json",
		"transformer/config.json", "transformer/diffusion_pytorch_model.safetensors",
		"vqvae/config.json", "vqvae/diffusion_pytorch_model.fp16.safetensors"}, have)
	c.Offline = true
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	h.trees[commitA]["model_index.json"] = `{"../x":["a","b"]}`
	_, err = h.client(t).PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "model_index.json: part is ")
}

// Files that models of vectors and decisions need beside their weights come with them.
func TestPullFolders(t *testing.T) {
	for _, files := range [][]string{
		{"config.json", "model.safetensors", "modules.json", "vocab.txt", "1_Pooling/config.json",
			"sentence_xlm-roberta_config.json", "2_Dense/config.json", "2_Dense/model.safetensors"},
		{"encoder/config.json", "model.safetensors", "rl_agent_config.json", "tokenizer/tokenizer.json"},
	} {
		h := newHub(t)
		h.trees[commitA] = map[string]string{"README.md": "long"}
		for _, name := range files {
			h.trees[commitA][name] = "{}"
			if name == "modules.json" {
				h.trees[commitA][name] = `[{"path":"1_Pooling"},{"path":"2_Dense"}]`
			}
		}
		c := h.client(t)
		dir, err := c.PullModel(t.Context(), repo, "", nil)
		require.NoError(t, err)
		have, _, err := listFiles(dir)
		require.NoError(t, err)
		require.ElementsMatch(t, files, have)
		c.Offline = true
		_, err = c.PullModel(t.Context(), repo, "", nil)
		require.NoError(t, err)
	}
}

func TestNoModel(t *testing.T) {
	for want, files := range map[string][]string{
		"has GGUF files, want one by name: org/some-model:": {"x-Q4_K_M.gguf", "README.md"},
		"has no config.json":                         {"README.md"},
		"but pytorch_model.bin: download it and see": {"config.json", "pytorch_model.bin"},
		"has no model.safetensors":                   {"config.json"},
	} {
		h := newHub(t)
		h.trees[commitA] = map[string]string{}
		for _, name := range files {
			h.trees[commitA][name] = "x"
		}
		_, err := h.client(t).PullModel(t.Context(), repo, "", nil)
		require.ErrorContains(t, err, "org/some-model@main: ")
		require.ErrorContains(t, err, want)
		require.Len(t, h.seen, 1)
	}
}

// A cached model opens after one short request, whatever the server does, and the reason is
// reported.
func TestCachedModelDoesNotWait(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"500s": func(w http.ResponseWriter,
			_ *http.Request) bool {
			w.WriteHeader(500)
			return true
		},
		"silence": func(w http.ResponseWriter,
			r *http.Request) bool {
			<-r.Context().Done()
			return true
		},
		"no answer": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"a page": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Write([]byte("<html>log in</html>"))
			return true
		},
		"no access": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Error-Code", "GatedRepo")
			w.WriteHeader(403)
			return true
		},
		"no repository": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Error-Code", "RepoNotFound")
			w.WriteHeader(401)
			return true
		},
		"no server": nil,
	} {
		h := newHub(t)
		chatModel(h)
		c := h.client(t)
		c.Backoff = time.Minute
		dir, err := c.PullModel(t.Context(), repo, "", nil)
		require.NoError(t, err)
		before := len(h.seen)
		if h.refuse = refuse; refuse == nil {
			h.Close()
		} else if name == "silence" {
			c.Idle = 50 * time.Millisecond
		}
		var notes []string
		again, err := c.PullModel(t.Context(), repo, "",
			func(p Progress) { notes = append(notes, p.Note) })
		require.NoError(t, err, name)
		require.Equal(t, dir, again)
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "org/some-model@main is from the cache: ")
		require.NotContains(t, notes[0], "\n")
		// Go's client asks again if an open connection is closed without an answer.
		require.LessOrEqual(t, h.count(""), before+2)

		// One that is not cached ends too: after a limit of silence, or after a few attempts.
		c.Cache, c.Backoff = t.TempDir(), time.Millisecond
		before = h.count("")
		_, err = c.PullModel(t.Context(), repo, "", nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
		require.LessOrEqual(t, h.count(""), before+3)
	}
}

// The cache does not stand for a revision that the server says is not there.
func TestRevisionThatIsGone(t *testing.T) {
	h := newHub(t)
	chatModel(h)
	c := h.client(t)
	_, err := c.PullModel(t.Context(), repo, "feature/x", nil)
	require.NoError(t, err)
	h.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Error-Code", "RevisionNotFound")
		w.WriteHeader(404)
		return true
	}
	_, err = c.PullModel(t.Context(), repo, "feature/x", nil)
	require.ErrorContains(t, err, `no revision "feature/x" (404)`)
	h.refuse = nil
	h.trees[commitA] = map[string]string{"README.md": "x"}
	_, err = c.PullModel(t.Context(), repo, "feature/x", nil)
	require.ErrorContains(t, err, "has no config.json")
}

// A server that asks to wait for longer than the request may last is not waited for.
func TestLongRetryAfter(t *testing.T) {
	h := newHub(t)
	h.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3000")
		w.WriteHeader(503)
		return true
	}
	c := h.client(t)
	c.Idle = maxWait / 2
	_, err := c.PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "the server answered 503 Service Unavailable")
	require.Len(t, h.seen, 1)
}

func TestParseModelName(t *testing.T) {
	r, revision, file, err := ParseModelName("org/name@v1:sub/x.gguf")
	require.NoError(t, err)
	require.Equal(t, []string{"org/name", "v1", "sub/x.gguf"}, []string{r, revision, file})
	_, _, file, err = ParseModelName("org/name")
	require.NoError(t, err)
	require.Empty(t, file)
	for _, bad := range []string{"org/name:", "org/name:x.bin", "org/name:../x.gguf", ":x.gguf"} {
		_, _, _, err = ParseModelName(bad)
		require.Error(t, err, bad)
	}
	_, _, _, err = ParseModelName("https://huggingface.co/org/name")
	require.ErrorContains(t, err, `repository is "https://huggingface.co/org/name", want org/name`)
	h := newHub(t)
	h.trees[commitA]["x.gguf"] = "GGUF"
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Setenv("HF_ENDPOINT", h.URL)
	name, err := PullModel(t.Context(), repo+":x.gguf", nil)
	require.NoError(t, err)
	require.Equal(t, "GGUF", read(t, name))
	require.Equal(t, "x.gguf", filepath.Base(name))
}

func TestEnvironmentOfPython(t *testing.T) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH",
		"HF_HUB_OFFLINE", "HF_ENDPOINT"} {
		t.Setenv(name, "")
	}
	t.Setenv("BASE", "/models")
	t.Setenv("HF_HOME", "$BASE/t${BASE}/$NOT_SET/${NOT_SET}")
	t.Setenv("TRANSFORMERS_OFFLINE", "1")
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	c, err := FromEnv()
	require.NoError(t, err)
	require.Equal(t, "/models/t/models/$NOT_SET/${NOT_SET}/hub", c.Cache)
	require.True(t, c.Offline)
	require.True(t, slices.Contains(modelFiles, "tokenizer.json"))
}

// Before weights come, the bytes of all of them and the memory that they will take are said once.
func TestPullSaysWhatItTakes(t *testing.T) {
	defer func(old int64) { announceFrom = old }(announceFrom)
	announceFrom = 40_000
	const begin = "note: downloading %.1f GB, once, to CACHE: the weights take about %.1f GB of " +
		"memory in f32, %.1f in bf16 and %.1f in int8 (--precision)"
	const index = `{"weight_map":{"a":"m-00001-of-00002.safetensors",` +
		`"b":"m-00002-of-00002.safetensors"}`
	for name, c := range map[string]struct {
		config, index string
		want          []string
	}{
		"one file": {`{"torch_dtype":"bfloat16"}`, "", []string{fmt.Sprintf(begin, 0., 0., 0., 0.)}},
		"parts": {`{}`, index + `,"metadata":{"total_size":2e9}}`,
			[]string{fmt.Sprintf(begin, 2., 4., 2., 1.)}},
		"parts in float32": {`{"dtype":"float32"}`, index + `,"metadata":{"total_size":2000000000}}`,
			[]string{fmt.Sprintf(begin, 2., 2., 1., 0.5)}},
		"parts of unknown size": {`{}`, index + `,"metadata":"none"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			files := h.trees[commitA]
			if files["config.json"] = c.config; c.index != "" {
				files["m-00001-of-00002.safetensors"] = files["model.safetensors"]
				files["m-00002-of-00002.safetensors"] = "two"
				files["model.safetensors.index.json"] = c.index
				delete(files, "model.safetensors")
			}
			client := h.client(t)
			var notes []string
			for range 2 { // the second time all is there
				_, err := client.PullModel(t.Context(), repo, "", func(p Progress) {
					if p.Note != "" {
						note, _, _ := strings.Cut(strings.ReplaceAll(p.Note, client.Cache, "CACHE"), ";")
						notes = append(notes, note)
					}
				})
				require.NoError(t, err)
			}
			require.Equal(t, c.want, notes)
		})
	}
}
