package unmask_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/catalog"
	"unmask/demo"
	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/prompt"
	"unmask/research/metrics/gpt2"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
	"unmask/weights/pytorch"
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
			require.Equal(t, c.as, m.Source.KindOverride)
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

// merge adds the keys of an object that another lacks, in objects inside of it too.
func merge(to, from map[string]any) {
	for key, v := range from {
		own, ok := to[key].(map[string]any)
		if inner, is := v.(map[string]any); ok && is {
			merge(own, inner)
		} else if _, ok := to[key]; !ok {
			to[key] = v
		}
	}
}

// set sets a key at a path of objects.
func set(to map[string]any, path string, v any) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		to[name] = v
		return
	}
	inner, ok := to[name].(map[string]any)
	if !ok {
		inner = map[string]any{}
		to[name] = inner
	}
	set(inner, rest, v)
}

// Every key of a config.json, as its class or its authors write it, is read, refused at another
// value than the one that is computed, or known to change no arithmetic. Others are said. Packages
// llama and encoders have such tests of their own.
func TestConfigKeysOfOthers(t *testing.T) {
	data, err := os.ReadFile("model/testdata/config_keys.json")
	require.NoError(t, err)
	o := model.Options{Backend: plain.New()}
	network := func(src *model.Source) ([]string, error) {
		m, err := model.Load(src, o)
		if err != nil {
			return nil, err
		}
		return m.Info.Notes, nil
	}
	codec := func(src *model.Source) ([]string, error) {
		_, err := model.LoadCodec(src, o)
		return src.Notes, err
	}
	encoder := func(src *model.Source) ([]string, error) {
		_, err := clip.Load(src, o)
		return src.Notes, err
	}
	judge := func(src *model.Source) ([]string, error) {
		m, err := gpt2.Load(src, o)
		if err != nil {
			return nil, err
		}
		return m.Info().Notes, nil
	}
	opened := func(t testing.TB, pack string) *model.Source {
		switch folder, name, _ := strings.Cut(pack, "/"); {
		case name != "":
			return parity.OpenFolder(t, folder, name).Source
		case folder == "halton-tiny":
			return parity.OpenConverted(t, folder, "ImageNet_256_tiny.pth", pytorch.Options{Heads: 5}).Source
		case folder == "llamagen-tiny":
			return parity.OpenConverted(t, folder, "vq_ds16_c2i.pt", pytorch.Options{Grid: 4}).Source
		}
		return parity.Open(t, pack).Source
	}
	for _, c := range []struct {
		pack, class string
		load        func(*model.Source) ([]string, error)
		objects     string         // that have keys of the network
		refused     map[string]any // key: a value that is not computed
	}{
		{"sdtt-tiny", "sdtt", network, " model", map[string]any{"causal": true,
			"parameterization": map[string]any{"name": "ar"}, "model.type": "ar_orig"}},
		{"sdtt-tiny", "mdlm", network, " model", map[string]any{"diffusion": "uniform",
			"backbone": "dimamba"}},
		{"sdtt-tiny", "mdlm-flat", network, "", map[string]any{"cfg": true, "shift_logits": true}},
		{"mage-tiny", "mage", network, "", nil},
		{"mage-tiny", "mage", codec, "vqgan", map[string]any{"vqgan.double_z": true,
			"vqgan.in_channels": 4}},
		{"titok-bert-tiny", "titok", network, " model model.vq_model model.generator", map[string]any{
			"model.generator.model_type": "UViT", "model.generator.guidance_decay": "cosine",
			"model.vq_model.quantize_mode": "vae"}},
		{"titok-uvit-tiny", "titok", network, "", map[string]any{"model.generator.model_type": "ViT"}},
		{"titok-tokenizer-tiny", "titok-tokenizer", codec, " model.vq_model", map[string]any{
			"model.vq_model.quantize_mode": "vae", "model.vq_model.vit_enc_model_size": "huge"}},
		{"tatitok-tiny", "titok-tokenizer", codec, " model.vq_model", nil},
		{"maskgen-tiny", "maskgen", network, " model model.maskgen", map[string]any{
			"model.maskgen.micro_condition": false, "model.maskgen.mask_schedule_strategy": "cosine"}},
		{"halton-tiny", "halton", network, "", map[string]any{"num_attention_heads": 7}},
		{"amused-512-tiny/transformer", "uvit2d", network, "", map[string]any{"use_bias": true,
			"ln_elementwise_affine": false, "layer_norm_eps": 1e-5}},
		{"amused-256-tiny/vqvae", "vqmodel", codec, "", map[string]any{"act_fn": "relu",
			"norm_num_groups": 16, "norm_type": "spatial"}},
		{"llamagen-tiny", "llamagen", codec, "", map[string]any{"codebook_l2_norm": false}},
		{"gpt2-tiny", "gpt2", judge, "", map[string]any{"scale_attn_weights": false,
			"tie_word_embeddings": false, "scale_attn_by_inverse_layer_idx": true,
			"add_cross_attention": true}},
		{"clip-text-tiny", "clip-text", encoder, "", map[string]any{"layer_norm_eps": 1e-6,
			"hidden_act": "relu"}},
		{"clip-text-tiny", "clip", encoder, " text_config", map[string]any{
			"text_config.layer_norm_eps": 1e-6}},
	} {
		t.Run(c.pack+"/"+c.class, func(t *testing.T) {
			with := func(path string, v any) ([]string, error) {
				src := opened(t, c.pack)
				var config map[string]any
				var classes map[string]map[string]any
				require.NoError(t, json.Unmarshal(src.Config, &config))
				require.NoError(t, json.Unmarshal(data, &classes))
				if c.class == "clip" { // a file with both sides
					config = map[string]any{"text_config": config}
				}
				require.NotEmpty(t, classes[c.class])
				merge(config, classes[c.class])
				if path != "" {
					set(config, path, v)
				}
				src.Config, err = json.Marshal(config)
				require.NoError(t, err)
				return c.load(src)
			}
			notes, err := with("", nil)
			require.NoError(t, err)
			require.NotContains(t, strings.Join(notes, "; "), "not known, and without effect")
			for _, object := range strings.Split(c.objects, " ") {
				key := strings.TrimPrefix(object+".logit_bend", ".")
				notes, err := with(key, 0.5)
				require.NoError(t, err)
				require.Contains(t, notes, "config.json: "+key+" not known, and without effect")
			}
			for path, v := range c.refused {
				_, err := with(path, v)
				require.ErrorContains(t, err, path[strings.LastIndex(path, ".")+1:], path)
			}
		})
	}
}

// Options that are out of range, and models that are not there, are errors that a program can tell
// apart.
func TestLoadRefuses(t *testing.T) {
	_, err := unmask.Load(t.Context(), "./none", unmask.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, catalog.ErrName)
	for want, o := range map[string]unmask.Options{"threads is -5": {Threads: -5},
		"threads is 1073741824": {Threads: 1 << 30},
		"precision is 99, want F32, BF16 or Int8 of package backend": {Precision: 99}} {
		_, err := unmask.LoadFS(demo.Text(), "demo", o)
		refusal.RequireText(t, err, want)
	}
}

// Models that decode from left to right, or change the length of a text, follow a grammar with
// another run than their own; asked for their own with a grammar, they refuse.
func TestGrammarsOfAllModels(t *testing.T) {
	const regex = `((2[0-9]|1(3[0-9]|40)) ){8}`
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-7b-tiny", "wedlm-8b-tiny",
		"dreamon-tiny", "sdar-tiny", "llada-tiny"} {
		m, err := unmask.LoadFS(os.DirFS("testdata/packs/"+pack), pack,
			unmask.Options{Backend: plain.New()})
		require.NoError(t, err)
		r := unmask.Request{Infill: "12[8]13", Seed: 1}
		r.Regex = regex
		for _, made := range tokens(t, m, samples{Request: r, N: 2}) {
			require.Regexp(t, "12 "+regex+"13", m.Text.Decode(made), pack)
		}
		if own, _ := m.Defaults(); own.Reuse.String() == "causal" {
			r.Overrides = unmask.Overrides{"reuse": "causal"}
			_, err = m.Prepare(t.Context(), r)
			require.Contains(t, refusal.Require(t, err, "regex", "given").Want, "reuse causal", pack)
		}
		if m.Spec().Growth != nil {
			_, err = m.Prepare(t.Context(), unmask.Request{Infill: "12[?]13",
				Constraints: prompt.Constraints{Grammar: prompt.Grammar{Regex: "(20 )*"}}})
			refusal.Require(t, err, "regex", "given")
		}
	}
}

// Six calls at once on one model give what each gives alone, with and without partial caching.
func TestGenerateAtOnce(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	picture, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m *unmask.Model
		n int
		o unmask.Overrides
	}{
		"text":  {text, 2, unmask.Overrides{"sampler": "moment", "steps": "4"}},
		"image": {picture, 1, unmask.Overrides{"steps": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(i int) (tokens [][]int32) {
				r := samples{N: c.n, Request: unmask.Request{Seed: uint64(i), Overrides: maps.Clone(c.o)}}
				if r.Overrides["cache"] = strconv.Itoa(i % 2); c.m.Text != nil {
					r.Length = 24
				}
				for step, err := range generateSamples(t.Context(), c.m, r) {
					if err != nil {
						t.Error(err)
						return nil
					}
					for _, q := range step.Sequences {
						if q.Finished {
							tokens = append(tokens, slices.Clone(q.Tokens))
						}
					}
				}
				return tokens
			}
			var alone, together [6][][]int32
			for i := range alone {
				alone[i] = run(i)
				require.Len(t, alone[i], c.n)
			}
			var calls sync.WaitGroup
			for i := range together {
				calls.Go(func() { together[i] = run(i) })
			}
			calls.Wait()
			require.Equal(t, alone, together)
		})
	}
}

// A model that cannot be loaded leaves no file mapped.
func TestFailedLoadsCloseTheirFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/packs/llada-tiny")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "x"}`),
		0o600))
	for _, o := range []unmask.Options{{}, {Device: "abacus"}} {
		_, err := unmask.Load(t.Context(), dir, o)
		require.Error(t, err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	require.NotContains(t, string(maps), dir)
}
