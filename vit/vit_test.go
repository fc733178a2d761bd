package vit_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/internal/parity"
	"unmask/model"
	_ "unmask/vit"
)

var packs = []string{"mage-tiny", "mage-base"}

// bf16 rounds this pack's answers by 6 % of the largest: 64 channels average little out.
const bf16Tolerance = 8e-2

func within(tolerance float64) float64 {
	if tolerance > 1e-3 {
		return bf16Tolerance
	}
	return tolerance
}

func batch(tokens []int32, shape []int) *model.Batch {
	return &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens}
}

func TestFullPass(t *testing.T) {
	parity.Each(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, wantShape := p.Floats("logits")
		got, err := m.Forward(context.Background(), batch(tokens, shape))
		require.NoError(t, err)
		parity.Close(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]), within(tolerance))
	})
}

func TestPartialPass(t *testing.T) {
	parity.Each(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		rows, _ := p.Ints("partial_rows")
		after, _ := p.Ints("partial_tokens")
		want, wantShape := p.Floats("partial_logits")
		b := batch(tokens[:shape[1]], []int{1, shape[1]})
		b.Cache = m.NewCache(1, shape[1])
		_, err := m.Forward(context.Background(), b)
		require.NoError(t, err)
		b.Tokens = after
		got, err := m.Refine(context.Background(), b, rows)
		require.NoError(t, err)
		parity.Close(t, want, parity.Logits(t, got, rows, wantShape[2]), within(tolerance))
	})
}

// A sequence in a batch is the sequence alone, byte for byte, in full and partial passes.
func TestBatchInvariance(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	for _, d := range parity.Devices {
		l, err := model.Load(p.Source, model.Options{Backend: d.New(), Precision: d.Precision})
		require.NoError(t, err)
		m := l.Denoiser.(model.Refiner)
		tokens, shape := p.Ints("tokens")
		n := shape[1]
		run := func(first, size int) (full, part []float32) {
			b := batch(slices.Clone(tokens[first*n:(first+size)*n]), []int{size, n})
			b.Cache = m.NewCache(size, n)
			got, err := m.Forward(context.Background(), b)
			require.NoError(t, err)
			full = parity.Logits(t, got, parity.Count(size*n), 64)
			var rows []int32
			for s := range size {
				for _, pos := range []int{50, 3, 40} {
					b.Tokens[s*n+pos] = 7
					rows = append(rows, int32(s*n+pos))
				}
			}
			got, err = m.Refine(context.Background(), b, rows)
			require.NoError(t, err)
			return full, parity.Logits(t, got, rows, 64)
		}
		full, part := run(0, 3)
		for s := range 3 {
			f, q := run(s, 1)
			require.Equal(t, full[s*n*64:(s+1)*n*64], f)
			require.Equal(t, part[s*3*64:(s+1)*3*64], q)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"depth": 3`, `"depth": 0`, "depth is 0, allowed are 1..1048576"},
		{`"depth": 3`, `"depth": 1000000`, "depth 1000000 and decoder_depth 2, but there are"},
		{`"embed_dim": 64`, `"embed_dim": -64`, "embed_dim is -64"},
		{`"embed_dim": 64`, `"embed_dim": 2147483648`, "embed_dim is 2147483648"},
		{`"num_heads": 2`, `"num_heads": 5`, "num_heads is 5, allowed are the divisors of the width 64"},
		{`"grid": 8`, `"grid": 16`, "config.json wants [257 64]"},
		{`"codebook_size": 64`, `"codebook_size": 65`, "config.json wants [1066 64]"},
		{`"grid": 8`, `"grid": 8.5`, "config.json: "},
	} {
		p := parity.Open(t, "mage-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
