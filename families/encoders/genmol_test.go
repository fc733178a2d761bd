package encoders_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// Every sequence of a batch has the logits that it has alone, and padding has none.
func TestShorterSequencesOfGenMol(t *testing.T) {
	each(t, []string{"genmol-tiny"}, func(t *testing.T, p *parity.Pack, m model.Denoiser,
		tolerance float64) {
		tokens, shape := p.Ints("padded_tokens")
		want, wantShape := p.Floats("padded_logits")
		b := parity.Batch(tokens, shape)
		var rows []int32
		for i := range shape[0] {
			sequence := tokens[i*shape[1] : (i+1)*shape[1]]
			used := len(sequence)
			if end := slices.Index(sequence, 3); end >= 0 {
				used = end
			}
			b.Lengths = append(b.Lengths, used)
			for row := range used {
				rows = append(rows, int32(i*shape[1]+row))
			}
		}
		got, err := m.Forward(t.Context(), b)
		require.NoError(t, err)
		var wanted []float32
		for _, row := range rows {
			wanted = append(wanted, want[int(row)*wantShape[2]:][:wantShape[2]]...)
		}
		parity.RequireClose(t, wanted, parity.Logits(t, got, rows, wantShape[2]), tolerance)
	})
}

// genmolRun returns the tokens after each step of a run from some tokens.
func genmolRun(t *testing.T, m model.Denoiser, recipe string, starts [][]int32) [][][]int32 {
	t.Helper()
	r, err := generate.ParseRecipe(recipe)
	require.NoError(t, err)
	var requests []generate.Request
	for i, start := range starts {
		requests = append(requests, generate.Request{Recipe: r, Index: uint32(i), Known: start})
	}
	steps := make([][][]int32, len(starts))
	for step, err := range generate.Each(context.Background(), m, generate.PoolOptions{Guided: true},
		slices.Values(requests)) {
		require.NoError(t, err)
		for _, q := range step.Sequences {
			steps[q.Number] = append(steps[q.Number], slices.Clone(q.Tokens))
		}
	}
	return steps
}

// The published loop without noise at temperature 0 opens the reference's positions in its order:
// a molecule from nothing, one behind a fragment, and a fragment between others.
func TestLoopsOfGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	for _, name := range []string{"de_novo", "fragment", "remask"} {
		t.Run(name, func(t *testing.T) {
			start, _ := p.Ints("golden_" + name + "_prompt")
			want, _ := p.Ints("golden_" + name)
			order, _ := p.Ints("golden_" + name + "_order")
			recipe := fmt.Sprintf("amused(tokens=likeliest) steps=%d temperature=0", len(order))
			steps := genmolRun(t, m.Denoiser, recipe, [][]int32{start})[0]
			require.Len(t, steps, len(order))
			tokens := slices.Clone(start)
			for i, position := range order {
				tokens[position] = want[position]
				require.Equal(t, tokens, steps[i], "step %d", i)
			}
			require.Equal(t, want, tokens)
		})
	}
}

// A step opens each position with each token as often as the published sampler does, by its exact
// law: a token is drawn everywhere, the noise that is left at this step ranks them by their
// tempered probabilities, and one stays.
func TestLawOfGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	start, _ := p.Ints("law_tokens")
	const runs = 40_000
	starts := slices.Repeat([][]int32{start}, runs)
	for name, law := range map[string]struct{ noise, temperature float64 }{
		"first":  {2, 1.2},    // all of randomness 2
		"middle": {0.25, 0.5}, // half of randomness 0.5
		"last":   {1e-6, 1},   // none of it
	} {
		t.Run(name, func(t *testing.T) {
			recipe := fmt.Sprintf("amused(noise=%g) steps=2 temperature=%g", law.noise, law.temperature)
			want, shape := p.Floats("law_" + name)
			got := make([]float64, len(want))
			for _, steps := range genmolRun(t, m.Denoiser, recipe, starts) {
				for i, position := range []int{3, 6} {
					if token := steps[0][position]; token != m.Spec().Mask {
						got[i*shape[1]+int(token)] += 1. / runs
					}
				}
			}
			distance := 0.0
			for i := range want {
				distance += math.Abs(float64(want[i])-got[i]) / 2
			}
			require.Less(t, distance, 0.02)
		})
	}
}

// genmolTexts are the texts of the pack, with the tokens of SAFE's own program.
type genmolTexts struct {
	Tokenizer []struct {
		Text, Decoded string
		IDs           []int32
	}
}

func openGenMolTexts(t *testing.T, p *parity.Pack) (list genmolTexts) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Folder(), "cases.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &list))
	require.NotEmpty(t, list.Tokenizer)
	return list
}

// Texts have the ids of SAFE's tokenizer. Those of which it drops a part, or has no token, are
// refused, and nothing else is.
func TestTokensOfGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	require.Equal(t, []int32{1}, m.Spec().BeforeText)
	require.Equal(t, []int32{2}, m.Spec().AfterText)
	require.Equal(t, int32(4), m.Spec().Mask)
	refused := 0
	for _, c := range openGenMolTexts(t, p).Tokenizer {
		got, err := m.Tokenizer.Encode(c.Text)
		if c.Text != c.Decoded {
			require.Error(t, err, c.Text)
			refused++
			continue
		}
		require.NoError(t, err, c.Text)
		want := c.IDs[1 : len(c.IDs)-1]
		require.Equal(t, want, append([]int32{}, got...), c.Text)
		require.Equal(t, c.Text, m.Tokenizer.Decode(c.IDs))
	}
	require.Equal(t, 7, refused)

	// Special tokens may be drawn, as by the authors, and are not shown.
	require.Equal(t, "CC", m.Tokenizer.Decode([]int32{1, 20, 0, 3, 20, 2}))
}

// The first version has no < and >, other settings, and is told by a setting of its training.
func TestVersionsOfGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	first, err := loadWith(t, "genmol-tiny", object{"bracket_safe": nil})
	require.NoError(t, err)
	require.Equal(t, "amused(noise=0.5) steps=256 temperature=0.5", first.Recipe)
	require.Equal(t, 42, first.Spec().DefaultLength())
	_, err = first.Tokenizer.Encode("C<1>")
	require.Error(t, err)

	second, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	require.Equal(t, "amused(noise=0.3) steps=256 temperature=1", second.Recipe)
	require.Equal(t, second.Spec().Length(), second.Spec().DefaultLength(), "60 have no room in 48")
	require.Equal(t, []string{"model_v2.ckpt: weights ema, the averaged ones in ema.shadow_params; " +
		"weights raw takes the others"}, second.Info.Notes)
	require.Empty(t, second.Info.Unused)
}

// The averaged weights are what runs, from the checkpoint and from a folder that convert makes of
// it, where the head's matrix is not written twice. Others say that they are not averaged.
func TestConvertedGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	tokens, shape := p.Ints("tokens")
	load := func(src *model.Source) (*model.Loaded, []float32) {
		m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		got, err := m.Forward(t.Context(), parity.Batch(tokens, shape))
		require.NoError(t, err)
		return m, parity.Logits(t, got, parity.Count(len(tokens)), m.Spec().Outcomes)
	}
	convert := func(taken string) (*model.Loaded, []float32) {
		dir := t.TempDir()
		o := pytorch.Options{Weights: taken}
		file := filepath.Join(p.Folder(), "model_v2.ckpt")
		require.NoError(t, pytorch.Convert(t.Context(), file, dir, o))
		src, err := model.Open(dir)
		require.NoError(t, err)
		t.Cleanup(func() { src.Set.Close() })
		return load(src)
	}
	inFile, want := load(p.Source)
	averaged, got := convert("")
	require.Equal(t, want, got)
	require.Equal(t, inFile.Info.Parameters, averaged.Info.Parameters)
	require.Empty(t, averaged.Info.Notes)
	_, err := averaged.Tokenizer.Encode("C124CN3C1")
	require.NoError(t, err)

	raw, other := convert("raw")
	require.NotEqual(t, want, other)
	require.Contains(t, raw.Info.Notes,
		"these are not the averaged weights (EMA), which the authors sample")
}

// Without a tokenizer beside the weights that of the companion is read, and without any tokens are
// numbers.
func TestTokenizerOfGenMolElsewhere(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	data, err := os.ReadFile(filepath.Join(p.Folder(), "model_v2.ckpt"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model_v2.ckpt"), data, 0o600))
	load := func(locate func(string) (string, error)) *model.Loaded {
		src, err := model.Open(dir)
		require.NoError(t, err)
		t.Cleanup(func() { src.Set.Close() })
		src.LocateFolder = locate
		m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		return m
	}
	require.Contains(t, load(nil).Info.Notes,
		"there is neither vocab.txt nor tokenizer.json: tokens are shown as numbers")
	m := load(func(folder string) (string, error) {
		require.Equal(t, model.TokenizerFolder, folder)
		return p.Folder(), nil
	})
	ids, err := m.Tokenizer.Encode("C<1>")
	require.NoError(t, err)
	require.Equal(t, []int32{20, 53, 13, 54}, ids)
}

// Its tokenizer is another repository's, which no file of the model names.
func TestCompanionOfGenMol(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		require.Equal(t, "datamol-io/safe-gpt",
			model.Companion("nvidia/NV-GenMol-89M-"+version, model.TokenizerFolder))
	}
	require.True(t, slices.ContainsFunc(weights.CheckpointPatterns, func(pattern string) bool {
		ok, err := filepath.Match(pattern, "model_v2.ckpt")
		return ok && err == nil
	}))
}

// Guidance with a share of the known tokens: the logits of one step, and the published loop in
// which all tokens known so far are left out.
func TestGuidanceOfGenMol(t *testing.T) {
	p := parity.Open(t, "genmol-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	all, shape := p.Ints("tokens")
	chosen, _ := p.Ints("guided_chosen")
	want, wantShape := p.Floats("guided_logits")
	b := parity.Batch(all[:shape[1]], []int{1, shape[1]})
	b.Conditions = []*model.Condition{{Class: model.NoClass, KnownPositions: chosen}}
	guided := guide.New(m.Denoiser, func(model.Progress) float64 { return 1 })
	got, err := guided.Forward(t.Context(), b)
	require.NoError(t, err)
	// Special tokens have no logits of their own here, because they are never drawn.
	logits := parity.Logits(t, got, parity.Count(shape[1]), wantShape[1])
	for i, x := range logits {
		if math.IsInf(float64(x), -1) {
			logits[i] = want[i]
		}
	}
	parity.RequireClose(t, want, logits, 1e-5)

	start, _ := p.Ints("golden_guided_prompt")
	order, _ := p.Ints("golden_guided_order")
	final, _ := p.Ints("golden_guided")
	recipe := fmt.Sprintf("amused(tokens=likeliest) steps=%d temperature=0 guidance=1 guidance-share=1",
		len(order))
	steps := genmolRun(t, m.Denoiser, recipe, [][]int32{start})[0]
	require.Len(t, steps, len(order))
	tokens := slices.Clone(start)
	for i, position := range order {
		tokens[position] = final[position]
		require.Equal(t, tokens, steps[i], "step %d", i)
	}
}

// The tasks that were published with guidance have it in their presets.
func TestPresetsOfGenMol(t *testing.T) {
	first, err := loadWith(t, "genmol-tiny", object{"bracket_safe": nil})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"de-novo":             "amused(noise=0.5) steps=256 temperature=0.5",
		"linker":              "amused(noise=3) steps=256 temperature=1.2",
		"motif-extension":     "amused(noise=1.2) steps=256 temperature=1.2 guidance=1 guidance-share=0.3",
		"scaffold-decoration": "amused(noise=2) steps=256 temperature=1.2 guidance=1 guidance-share=0.3",
		"superstructure":      "amused(noise=2) steps=256 temperature=1.2 guidance=1 guidance-share=0.4",
	}, first.Presets)
	for name, text := range first.Presets {
		_, err := generate.ParseRecipe(text)
		require.NoError(t, err, name)
	}
}
