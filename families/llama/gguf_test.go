package llama_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/internal/fakecuda"
	"unmask/internal/simd"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/gguf"
)

// valued hides that a device multiplies block formats: it gets the values of the weights.
type valued struct{ backend.Backend }

// A file in the form of llama.cpp's converter, with Q and K interleaved, gives the reference's
// logits for the values of its blocks: closely if the device gets these values, and within the
// error of 8-bit activations if it multiplies the blocks. In the second case the bits are the same
// on all instruction sets.
func TestGGUF(t *testing.T) {
	const file = "../../weights/gguf/testdata/llada-tiny"
	cases, err := weights.Open(file + ".safetensors")
	require.NoError(t, err)
	defer cases.Close()
	shown, _ := cases.Get("tokens")
	ids, err := shown.Int64s()
	require.NoError(t, err)
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		tokens[i] = int32(id)
	}
	expected, _ := cases.Get("logits")
	want, err := expected.Floats()
	require.NoError(t, err)
	logits := func(b backend.Backend) []float32 {
		src, err := model.Open(file + ".gguf")
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: b})
		require.NoError(t, err)
		require.Equal(t, "llama", m.Info.Architecture)
		require.Equal(t, 82240, m.Info.Parameters)
		got, err := m.Denoiser.Forward(context.Background(), parity.Batch(tokens, shown.Shape))
		require.NoError(t, err)
		return parity.Logits(t, got, parity.Count(len(tokens)), expected.Shape[2])
	}
	parity.RequireClose(t, want, logits(valued{cpu.New(cpu.Options{})}), 1e-4)
	if cuda.Supported { // unpacked to bfloat16, in half of the memory of float32
		b, err := cuda.New(cuda.Options{Library: fakecuda.DriverPath(t)})
		require.NoError(t, err)
		parity.RequireClose(t, want, logits(b), 5e-2)
		require.NotEqual(t, logits(valued{b}), logits(b))
	}
	var first []float32
	for _, level := range simd.Available() {
		got := logits(cpu.New(cpu.Options{ISA: level.String()}))
		parity.RequireClose(t, want, got, 5e-2)
		switch {
		case level.ISA == simd.Generic: // computes functions in float64
		case first == nil:
			first = got
		default:
			require.Equal(t, first, got, level)
		}
	}
}

// A file in the form of llama.cpp's converter whose tensors have all experts of a block.
func TestGGUFOfExperts(t *testing.T) {
	const folder = "../../testdata/packs/llada-moe-tiny-gguf/"
	cases, err := weights.Open(folder + "cases.safetensors")
	require.NoError(t, err)
	defer cases.Close()
	shown, _ := cases.Get("tokens")
	ids, err := shown.Int64s()
	require.NoError(t, err)
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		tokens[i] = int32(id)
	}
	expected, _ := cases.Get("logits")
	want, err := expected.Floats()
	require.NoError(t, err)
	src, err := model.Open(folder + "model.gguf")
	require.NoError(t, err)
	defer src.Set.Close()
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	require.Equal(t, 8, m.Info.Sizes["experts"])
	got, err := m.Denoiser.Forward(context.Background(), parity.Batch(tokens, shown.Shape))
	require.NoError(t, err)
	parity.RequireClose(t, want, parity.Logits(t, got, parity.Count(len(tokens)),
		expected.Shape[2]), 1e-5)
}

// Files in the form of llama.cpp's converter for LFM2's encoders, and of nurllama for LLaDA2, give
// the reference's logits for the values of their blocks.
func TestGGUFOfEncodersAndGroups(t *testing.T) {
	for _, pack := range []string{"lfm2-tiny-gguf", "llada2-tiny-gguf", "llada2-q4k-tiny-gguf",
		"llada2-q4k-gguf"} {
		t.Run(pack, func(t *testing.T) {
			p := parity.OpenCases(t, pack)
			tokens, shape := p.Ints("tokens")
			want, wantShape := p.Floats("logits")
			src, err := model.Open(p.Dir("model.gguf"))
			require.NoError(t, err)
			defer src.Set.Close()
			m, err := model.Load(src, model.Options{Backend: valued{cpu.New(cpu.Options{})}})
			require.NoError(t, err)
			d := m.Denoiser
			if p.Has("block") {
				block, _ := p.Ints("block")
				d, err = d.(model.Blockwise).WithBlock(int(block[0]))
				require.NoError(t, err)
			}
			got, err := d.Forward(t.Context(), parity.Batch(tokens, shape))
			require.NoError(t, err)
			logits := parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2])
			parity.RequireClose(t, want, logits, 1e-5)
		})
	}
}

// A file that does not say that it sees both sides is one that writes from left to right.
func TestGGUFOfCausalLFM2(t *testing.T) {
	p := parity.OpenCases(t, "lfm2-tiny-gguf")
	data, err := os.ReadFile(p.Dir("model.gguf"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "m.gguf")
	for _, name := range []string{"lfm2.attention.casual", "lfm2.attention.causal"} {
		other := strings.Replace(string(data), "lfm2.attention.causal", name, 1)
		if name == "lfm2.attention.causal" {
			at := strings.Index(other, name) + len(name) + 4 // the value follows its type
			other = other[:at] + "\x01" + other[at+1:]
		}
		require.NoError(t, os.WriteFile(file, []byte(other), 0o600))
		_, err = model.Open(file)
		require.ErrorContains(t, err, "other models of this architecture write from left to right")
	}
}

// A number of experts that no file has is refused before anything is made of it.
func TestGGUFOfTooManyExperts(t *testing.T) {
	p := parity.Open(t, "llada-moe-tiny")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(p.Folder())))
	config := strings.Replace(string(p.Config), `"num_experts": 8`, `"num_experts": 1000000000`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	err := gguf.Convert(context.Background(), dir, filepath.Join(t.TempDir(), "m.gguf"), "q8_0")
	require.ErrorContains(t, err, "num_experts is 1000000000, want 1 to 4096 in a GGUF file")
}

// A folder and the GGUF file made from it, in the names of llama.cpp, are the same model: what it
// says of itself, its runs, and its logits, up to the rounding to float16 and 8 bits.
func TestGGUFOfFolders(t *testing.T) {
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-7b-tiny", "wedlm-8b-tiny",
		"dreamon-tiny", "dream-tiny", "llada-moe-tiny", "rnd1-tiny", "lfm2-diffusion-tiny",
		"lfm2-encoder-tiny", "llada2-moe-tiny-bf16", "sdar-tiny", "sdar-moe-tiny"} {
		t.Run(pack, func(t *testing.T) {
			p := parity.Open(t, pack)
			want, err := model.Load(p.Source, model.Options{Backend: valued{cpu.New(cpu.Options{})}})
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, gguf.Convert(context.Background(), p.Folder(), file, "q8_0"))
			src, err := model.Open(file)
			require.NoError(t, err)
			defer src.Set.Close()
			got, err := model.Load(src, model.Options{Backend: valued{cpu.New(cpu.Options{})}})
			require.NoError(t, err)
			require.Equal(t, want.Denoiser.Spec(), got.Denoiser.Spec())
			require.Equal(t, []any{want.Recipe, want.Presets, want.Info.Sizes, want.Info.Parameters},
				[]any{got.Recipe, got.Presets, got.Info.Sizes, got.Info.Parameters})
			tolerance := 5e-2 // as for bfloat16
			if strings.HasPrefix(pack, "lfm2") {
				tolerance = 0.1 // 8 bits change these random weights more
			}
			f := &feeding{t: t, p: p, tolerance: tolerance, plain: true}
			switch f.m, _ = got.Denoiser.(model.Feeder); got.Denoiser.Spec().Causal {
			case model.NextToken:
				f.nemotron()
			case model.MasksLast:
				f.wedlm()
			default:
				parity.CheckFullPass(t, p, blocks(t, p, got.Denoiser.(model.Refiner)), "", tolerance)
			}
		})
	}
}

// dLLM's conversions of models that wrote from left to right are written with the architecture of
// these and a key that says what they are now, and come back with the same logits, with blocks or
// without. Other programs would run such a file as what it was made from, which a note says.
func TestGGUFOfConversions(t *testing.T) {
	for _, c := range []struct{ pack, kind, arch, block string }{
		{"sdar-tiny", "a2d-qwen3", "qwen3", "null"},
		{"sdar-tiny", "a2d-qwen3", "qwen3", "4"},
		{"dream-tiny", "a2d-qwen2", "qwen2", "null"},
		{"dream-tiny", "a2d-qwen2", "qwen2", "8"},
		{"stable-diffcoder-tiny", "a2d-llama", "llama", "null"},
	} {
		t.Run(c.kind+"/"+c.block, func(t *testing.T) {
			p := parity.Open(t, c.pack)
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(p.Folder())))
			var config map[string]any
			require.NoError(t, json.Unmarshal(p.Config, &config))
			config["model_type"] = c.kind
			config["block_size"] = json.RawMessage(c.block)
			config["mask_token_id"] = 5
			delete(config, "architectures")
			delete(config, "auto_map")
			data, err := json.Marshal(config)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
			file := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, gguf.Convert(t.Context(), dir, file, "q8_0"))

			f, err := gguf.Open(file)
			require.NoError(t, err)
			require.Equal(t, "llama.cpp would run this file as a "+c.arch+
				" that writes from left to right: it does not read diffusion.model_type",
				f.NoteForReaders())
			f.Set.Close()
			load := func(name string) (*model.Loaded, []float32) {
				src, err := model.Open(name)
				require.NoError(t, err)
				t.Cleanup(func() { src.Set.Close() })
				m, err := model.Load(src, model.Options{Backend: valued{cpu.New(cpu.Options{})}})
				require.NoError(t, err)
				tokens, shape := p.Ints("tokens")
				got, err := m.Forward(t.Context(), parity.Batch(tokens, shape))
				require.NoError(t, err)
				return m, parity.Logits(t, got, parity.Count(len(tokens)), m.Spec().Outcomes)
			}
			want, wantLogits := load(dir)
			got, logits := load(file)
			require.Equal(t, want.Spec(), got.Spec())
			require.Equal(t, []any{want.Recipe, want.Info.Sizes, want.Info.Parameters},
				[]any{got.Recipe, got.Info.Sizes, got.Info.Parameters})
			parity.RequireClose(t, wantLogits, logits, 5e-2)
		})
	}
}
