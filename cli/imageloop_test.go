package cli

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// --sampler maskgit --schedule mage generates the tokens of MAGE's own loop (gen_img_uncond.py of
// Li et al. 2023), which this test writes out as published: there a position stays masked if its
// confidence is below the one whose rank is the number of masks.
func TestMAGEsOwnLoop(t *testing.T) {
	const steps, temperature, seed = 6, 4.5, 3
	m, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{})
	require.NoError(t, err)

	var f samplingFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(flags, m.Spec())
	require.NoError(t, flags.Parse([]string{"--sampler=maskgit", "--schedule=mage", "--alpha=4.5",
		"--steps=6", "--seed=3"}))
	over, err := f.readOverrides(flags)
	require.NoError(t, err)
	q, err := m.Prepare(t.Context(), unmask.Request{Seed: f.seed, Overrides: over})
	require.NoError(t, err)
	var got [][]int32
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
		slices.Values([]generate.Request{q})) {
		require.NoError(t, err)
		got = append(got, slices.Clone(step.Sequences[0].Tokens))
	}
	require.Len(t, got, steps)

	length, mask := m.Spec().Length(), m.Spec().Mask
	tokens := slices.Repeat([]int32{mask}, length)
	for n := 1; n <= steps; n++ {
		noise := philox.Stream{Seed: seed, Step: uint32(n)}
		sampled, logP := sampleMasked(t, m, tokens, noise)
		if n == steps {
			require.Equal(t, sampled, got[n-1])
			return
		}
		unknown := 0
		confidence := make([]float64, length)
		for p := range tokens {
			if tokens[p] != mask {
				confidence[p] = math.Inf(1)
				continue
			}
			unknown++
			confidence[p] = logP[p] +
				temperature*(1-float64(n)/steps)*samplers.Gumbel(noise.Uniform(p, philox.Order))
		}
		maskLength := int(math.Floor(float64(length) * math.Cos(math.Pi/2*float64(n)/steps)))
		maskLength = max(1, min(unknown-1, maskLength))
		cut := slices.Sorted(slices.Values(confidence))[maskLength]
		for p := range tokens {
			if tokens[p] = sampled[p]; confidence[p] < cut {
				tokens[p] = mask
			}
		}
		require.Equal(t, tokens, got[n-1], "step %d", n)
	}
}

// sampleMasked draws a token at every masked position; it also returns its log-probability.
func sampleMasked(t *testing.T, m *unmask.Model, tokens []int32,
	noise philox.Stream) (sampled []int32, logP []float64) {
	got, err := m.Forward(context.Background(),
		&model.Batch{Size: 1, Length: len(tokens), Tokens: tokens,
			Time: []float64{float64(m.Spec().CountMasked(tokens)) / float64(len(tokens))}})
	require.NoError(t, err)
	var rows []int32
	d := model.Draw{Power: 1}
	for p, token := range tokens {
		if token == m.Spec().Mask {
			rows = append(rows, int32(p))
			d.Uniform = append(d.Uniform, noise.Uniform(p, philox.Token))
		}
	}
	d.Token, d.LogP = make([]int32, len(rows)), make([]float64, len(rows))
	require.NoError(t, got.Sample(rows, &d))
	sampled, logP = slices.Clone(tokens), make([]float64, len(tokens))
	err = got.Visit(rows, func(i int, logits []float32) {
		sum := 0.0
		for _, x := range logits[:m.Spec().Outcomes] {
			sum += math.Exp(float64(x))
		}
		sampled[rows[i]], logP[rows[i]] = d.Token[i], float64(logits[d.Token[i]])-math.Log(sum)
	})
	require.NoError(t, err)
	return sampled, logP
}
