package paint_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/weights"
	"unmask/weights/pytorch"
)

const packs = "../testdata/packs"

// copyTo copies files of a parity pack to a new folder.
func copyTo(t *testing.T, from, to string, names ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o777))
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(packs, from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), data, 0o666))
	}
}

// shorten rewrites a safetensors file with fewer rows of one tensor's dimension.
func shorten(t *testing.T, file, tensor string, dim, rows int) {
	t.Helper()
	set, err := weights.Open(file)
	require.NoError(t, err)
	defer set.Close()
	var list []weights.Tensor
	for _, name := range set.Names() {
		v, _ := set.Get(name)
		kept := weights.Tensor{Name: name, DType: v.DType, Shape: slices.Clone(v.Shape),
			Data: slices.Clone(v.Data)}
		if name == tensor { // all dimensions before are 1
			kept.Data = kept.Data[:len(kept.Data)/v.Shape[dim]*rows]
			kept.Shape[dim] = rows
		}
		list = append(list, kept)
	}
	require.NoError(t, weights.WriteFile(file+".new", list, nil))
	require.NoError(t, os.Rename(file+".new", file))
}

// titokFolder returns a generator with its image tokenizer.
func titokFolder(t *testing.T) string {
	dir := t.TempDir()
	copyTo(t, "titok-bert-tiny", dir, "config.json", "model.safetensors")
	copyTo(t, "titok-tokenizer-tiny", filepath.Join(dir, "codec"), "config.json", "model.safetensors")
	// 12 tokens
	shorten(t, filepath.Join(dir, "model.safetensors"), "model.embeddings.position_embeddings.weight",
		0, 13)
	return dir
}

// maskgenFolder returns a generator with its image tokenizer, text encoder and tokenizer.
func maskgenFolder(t *testing.T) string {
	dir := t.TempDir()
	copyTo(t, "maskgen-tiny", dir, "config.json", "model.safetensors")
	copyTo(t, "tatitok-tiny", filepath.Join(dir, "codec"), "config.json", "model.safetensors")
	text := filepath.Join(dir, "text_encoder")
	copyTo(t, "amused-256-tiny/text_encoder", text, "config.json", "model.fp16.safetensors")
	shorten(t, filepath.Join(text, "model.fp16.safetensors"),
		"text_model.embeddings.position_embedding.weight", 0, 11)
	copyTo(t, "amused-256-tiny/tokenizer", filepath.Join(dir, "tokenizer"), "vocab.json", "merges.txt")
	return dir
}

// haltonFolder returns a converted generator with its converted image tokenizer.
func haltonFolder(t *testing.T) string {
	dir := t.TempDir()
	for file, o := range map[string]pytorch.Options{"halton-tiny/ImageNet_256_tiny.pth": {Heads: 5},
		"llamagen-tiny/vq_ds16_c2i.pt": {}} {
		to := dir
		if o.Heads == 0 {
			to = filepath.Join(dir, "codec")
		}
		require.NoError(t, pytorch.Convert(context.Background(), filepath.Join(packs, file), to, o))
	}
	return dir
}

// Each family draws a picture by its published run, and by samplers and partial caching that do not
// depend on the family. The same seed gives the same picture in any batch.
func TestPipelines(t *testing.T) {
	for name, c := range map[string]struct {
		folder string
		prompt bool
	}{
		"titok":   {titokFolder(t), false},
		"halton":  {haltonFolder(t), false},
		"maskgen": {maskgenFolder(t), true},
		"amused":  {filepath.Join(packs, "amused-256-tiny"), true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := unmask.Load(context.Background(), c.folder,
				unmask.Options{Backend: cpu.New(cpu.Options{Threads: 2})})
			require.NoError(t, err)
			condition, err := m.ClassCondition("7")
			if c.prompt {
				require.ErrorContains(t, err, "the model has no classes")
				conditions, err := m.PromptConditions(context.Background(), []string{"a photo of a cat"}, "")
				require.NoError(t, err)
				condition = conditions[0]
			} else {
				require.NoError(t, err)
				_, err := m.PromptConditions(context.Background(), []string{"a cat"}, "")
				require.ErrorContains(t, err, "the model reads no prompts")
			}
			published, err := m.Defaults()
			require.NoError(t, err)
			require.NotZero(t, published.Guidance.Scale)
			published.Steps = min(published.Steps, 6)
			for _, r := range []generate.Recipe{published, recipe(t, "moment cache=1 steps=4 guidance=2"),
				recipe(t, "hybrid cache=2 steps=4"),
				recipe(t, "eb(margin,budget=0.5) steps=6"), recipe(t, "vanilla steps=5 guidance=1.5"),
				recipe(t, "p2 steps=5 guidance=0.5")} {
				o := generate.Options{Request: generate.Request{Recipe: r, Condition: condition, Seed: 5}, N: 3}
				together := tokensOf(t, m, o)
				o.Batch = 1
				require.Equal(t, together, tokensOf(t, m, o), r.String())
				img, err := m.Pictures.ConditionedImage(together[0], condition)
				require.NoError(t, err)
				require.Positive(t, img.Bounds().Dx())
			}
			if c.prompt {
				o := generate.Options{Request: generate.Request{Recipe: published}}
				_, err := m.Pictures.Image(make([]int32, m.Spec().Length()))
				if name == "maskgen" {
					require.ErrorContains(t, err, "the image tokenizer reads the prompt, and there is none")
				}
				for _, err = range generate.Run(context.Background(), m.Denoiser, o) {
					break
				}
				require.ErrorContains(t, err, "there is no prompt, want one")
			}
		})
	}
}

func recipe(t *testing.T, text string) generate.Recipe {
	t.Helper()
	r, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	return r
}

func tokensOf(t *testing.T, m *unmask.Model, o generate.Options) [][]int32 {
	t.Helper()
	out := make([][]int32, o.N)
	for q, err := range generate.Samples(context.Background(), m.Denoiser, o) {
		require.NoError(t, err)
		out[q.Index] = slices.Clone(q.Tokens)
		require.NotContains(t, out[q.Index], m.Spec().Mask)
	}
	return out
}

// Missing or mismatched files give a one-line error.
func TestBadPipelines(t *testing.T) {
	load := func(dir string) (*unmask.Model, error) {
		return unmask.Load(context.Background(), dir,
			unmask.Options{Backend: cpu.New(cpu.Options{}), Precision: backend.F32})
	}
	codec := func(dir string) error {
		m, err := load(dir)
		require.NoError(t, err)
		_, err = m.Pictures.Codec()
		return err
	}
	prompt := func(dir string) error {
		m, err := load(dir)
		require.NoError(t, err)
		_, err = m.PromptConditions(context.Background(), []string{"a"}, "")
		return err
	}
	titok := titokFolder(t)
	require.NoError(t, codec(titok))
	require.NoError(t, os.RemoveAll(filepath.Join(titok, "codec")))
	require.ErrorContains(t, codec(titok),
		"there is no folder codec, want config.json and model.safetensors of the image tokenizer there")
	copyTo(t, "tatitok-tiny", filepath.Join(titok, "codec"), "config.json", "model.safetensors")
	require.ErrorContains(t, codec(titok),
		"the image tokenizer has 24 tokens of 60 codes, want 12 of 60 as the generator")

	gen := maskgenFolder(t)
	require.NoError(t, prompt(gen))
	// 77 rows
	copyTo(t, "amused-256-tiny/text_encoder", filepath.Join(gen, "text_encoder"),
		"model.fp16.safetensors")
	require.ErrorContains(t, prompt(gen),
		"the text encoder makes 77 x 32 and a vector of 32, want 11 x 32 and 32: another CLIP")
	require.NoError(t, os.RemoveAll(filepath.Join(gen, "text_encoder")))
	require.ErrorContains(t, prompt(gen),
		"there is no folder text_encoder, want config.json and the weights of CLIP's text encoder there")

	gen = maskgenFolder(t)
	require.NoError(t, os.Remove(filepath.Join(gen, "tokenizer", "merges.txt")))
	require.ErrorContains(t, prompt(gen), "the tokenizer: vocab.json: there is no merges.txt beside it")
	m, err := load(maskgenFolder(t))
	require.NoError(t, err)
	_, err = m.PromptConditions(context.Background(), []string{string(make([]byte, 9000))}, "")
	require.ErrorContains(t, err, "prompt 1: the prompt is 9000 bytes, want 0 to 8192")
	long, err := m.PromptConditions(context.Background(),
		[]string{"the sun is shining, is it not? the thin thing"}, "")
	require.NoError(t, err)
	require.True(t, long[0].Prompt.Truncated)
}
