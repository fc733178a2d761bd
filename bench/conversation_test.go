package bench

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/kvcache"
	"unmask/model"
	"unmask/weights"
)

// BenchmarkConversation times ten turns of a conversation, each a message of 64 tokens and an
// answer of 16 decoded from left to right, by two layers of Nemotron-Labs-Diffusion-3B's shapes in
// Q4_K: without and with the keys and values of earlier turns, which give the same tokens.
func BenchmarkConversation(b *testing.B) {
	const turns, vocab = 10, 4096
	sizes := Nemotron3B
	sizes.Layers, sizes.Vocab, sizes.Length = 2, vocab, 4096
	src, err := RandomSource("mistral3", sizes, weights.Q4_K)
	require.NoError(b, err)
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(b, err)
	var first []int32
	for _, name := range []string{"alone", "kept"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var store *kvcache.Store
				if name == "kept" {
					store = kvcache.NewStore(1 << 32)
				}
				var said []int32
				for turn := range turns {
					for i := range 64 {
						said = append(said, int32(200+(i*61+turn)%(vocab-200)))
					}
					said = answered(b, m.Denoiser, store, said)
				}
				if first == nil {
					first = said
				}
				require.Equal(b, first, said)
			}
		})
	}
}

// answered returns what was said with 16 tokens more.
func answered(b *testing.B, m model.Denoiser, store *kvcache.Store, said []int32) []int32 {
	r, err := generate.ParseRecipe("low-confidence reuse=causal block-size=1")
	require.NoError(b, err)
	of := generate.Request{Recipe: r,
		Known: append(slices.Clone(said), slices.Repeat([]int32{m.Spec().Mask}, 16)...)}
	pool, err := generate.NewPool(m,
		generate.PoolOptions{Size: 1, Length: len(of.Known), Store: store})
	require.NoError(b, err)
	q, err := pool.Add(of)
	require.NoError(b, err)
	for !q.Done {
		_, err := pool.Step(context.Background())
		require.NoError(b, err)
	}
	require.NoError(b, q.Err)
	return slices.Clone(q.Tokens)
}
