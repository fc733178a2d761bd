package export_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/model"
	"unmask/research/export"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// given are the names of cases that are inputs; made by the tests of loops are those of whole runs
// and of their orders.
var (
	given = []string{"tokens", "partial_tokens", "partial_rows", "labels", "micro", "codes", "pixels",
		"ids", "text_ids", "null_ids", "inpaint_start"}
	madeByLoops = []string{"loop_tokens", "inpaint_loop_tokens", "halton_loop_tokens",
		"confidence_loop_tokens", "halton_order", "halton_counts_32_of_256", "halton_counts_32_of_576",
		"confidence_counts_12_of_256"}
	// of other networks of the pack, and so inputs of this one
	statesOfTexts = []string{"text_before_last", "text_pooled", "null_before_last", "null_pooled",
		"text_last"}
)

// All that the packs of image models hold is written under its name: logits and their guidance,
// partial passes, codes and pictures, states and ids of texts.
func TestPacksAreWrittenUnderTheirNames(t *testing.T) {
	ctx := context.Background()
	options := unmask.Options{Backend: cpu.New(cpu.Options{Threads: 2})}
	logits := func(t *testing.T, dir, cases, out string) {
		m, err := unmask.Load(ctx, dir, options)
		require.NoError(t, err)
		require.NoError(t, export.WriteLogits(ctx, m, cases, out))
	}
	codec := func(t *testing.T, dir string) model.Codec {
		p, err := export.LoadPictures(ctx, dir, options)
		require.NoError(t, err)
		c, err := p.Codec()
		require.NoError(t, err)
		return c
	}
	images := func(t *testing.T, dir, cases, out string) {
		require.NoError(t, export.DecodePictures(ctx, codec(t, dir), cases, out))
	}
	codes := func(t *testing.T, dir, cases, out string) {
		require.NoError(t, export.WritePixelCodes(codec(t, dir), cases, out))
	}
	texts := func(t *testing.T, dir, cases, out string) {
		e, err := export.LoadTextEncoder(ctx, dir, options)
		require.NoError(t, err)
		require.NoError(t, export.WriteTextStates(ctx, e, cases, out))
	}
	type writer func(t *testing.T, dir, cases, out string)
	for _, c := range []struct {
		pack    string
		folder  string // of it
		convert string // a checkpoint that is converted first
		o       pytorch.Options
		writers []writer
		inputs  []string
	}{
		{pack: "titok-bert-tiny", writers: []writer{logits}},
		{pack: "titok-uvit-tiny", writers: []writer{logits}},
		{pack: "halton-tiny", convert: "ImageNet_256_tiny.pth", o: pytorch.Options{Heads: 5},
			writers: []writer{logits}},
		{pack: "maskgen-tiny", writers: []writer{logits}, inputs: statesOfTexts},
		{pack: "amused-256-tiny", writers: []writer{logits, images, codes, texts}},
		{pack: "amused-512-tiny", folder: "transformer", writers: []writer{logits},
			inputs: statesOfTexts},
		{pack: "mage-tiny", writers: []writer{logits, images, codes}},
		{pack: "titok-tokenizer-tiny", writers: []writer{images, codes}},
		{pack: "tatitok-tiny", writers: []writer{images, codes}, inputs: statesOfTexts},
		{pack: "llamagen-tiny", convert: "vq_ds16_c2i.pt", o: pytorch.Options{Grid: 6},
			writers: []writer{images, codes}},
		{pack: "clip-text-tiny", writers: []writer{texts}},
	} {
		t.Run(c.pack, func(t *testing.T) {
			dir := filepath.Join("..", "..", "testdata", "packs", c.pack)
			cases := filepath.Join(dir, "cases.safetensors")
			dir = filepath.Join(dir, c.folder)
			if c.convert != "" {
				to := t.TempDir()
				require.NoError(t, pytorch.Convert(ctx, filepath.Join(dir, c.convert), to, c.o))
				dir = to
			}
			written := map[string]*weights.Tensor{}
			for i, write := range c.writers {
				out := filepath.Join(t.TempDir(), "out.safetensors")
				write(t, dir, cases, out)
				set, err := weights.Open(out)
				require.NoError(t, err, i)
				defer set.Close()
				for _, name := range set.Names() {
					written[name], _ = set.Get(name)
				}
			}
			want, err := weights.Open(cases)
			require.NoError(t, err)
			defer want.Close()
			for _, name := range want.Names() {
				if slices.Contains(given, name) || slices.Contains(madeByLoops, name) ||
					slices.Contains(c.inputs, name) {
					continue
				}
				compare(t, name, want, written[name])
			}
		})
	}
}

// compare requires the same integers, or numbers within 1e-4 of the largest.
func compare(t *testing.T, name string, set *weights.Set, got *weights.Tensor) {
	t.Helper()
	want, _ := set.Get(name)
	require.NotNil(t, got, "%s is not written", name)
	require.Equal(t, want.Shape, got.Shape, name)
	if !want.DType.IsFloat() {
		a, err := want.Int64s()
		require.NoError(t, err)
		b, err := got.Int64s()
		require.NoError(t, err)
		require.Equal(t, a, b, name)
		return
	}
	a, b := make([]float32, want.Numel()), make([]float32, got.Numel())
	require.NoError(t, want.Float32s(a))
	require.NoError(t, got.Float32s(b))
	t.Log(name)
	parity.RequireClose(t, a, b, 1e-4)
}

func TestBadTexts(t *testing.T) {
	ctx, packs := context.Background(), filepath.Join("..", "..", "testdata", "packs")
	options := unmask.Options{Backend: cpu.New(cpu.Options{})}
	e, err := export.LoadTextEncoder(ctx, filepath.Join(packs, "clip-text-tiny"), options)
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out.safetensors")
	file := func(pack string) string { return filepath.Join(packs, pack, "cases.safetensors") }
	require.ErrorContains(t, export.WriteTextStates(ctx, e, file("titok-bert-tiny"), out),
		"there are neither ids, text_ids, null_ids nor prompts, want one of them")
	require.ErrorContains(t, export.WriteTextStates(ctx, e, file("amused-256-tiny"), out),
		"text_ids: id ")
	_, err = export.LoadTextEncoder(ctx, filepath.Join(packs, "titok-bert-tiny"), options)
	require.ErrorContains(t, err, "there is no folder text_encoder")
	require.False(t, strings.Contains(err.Error(), "\n"))
}
