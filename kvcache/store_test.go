package kvcache_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/kvcache"
)

// sums fills a place of a cache with values that depend, as keys and values do, on the layer, the
// head, the position, and all tokens up to the end of its block.
func sums(c *kvcache.Cache, place int, tokens []int32, block int) {
	for layer := range c.K {
		for which, t := range [][]float32{c.K[layer].Float32s(), c.V[layer].Float32s()} {
			s := c.K[layer].Shape()
			heads, width := s[1], backend.Width(c.K[layer])
			for head := range heads {
				for at := range tokens {
					sum := float32(1000*layer + 100*which + 10*head)
					for i, token := range tokens[:min(len(tokens), (at/block+1)*block)] {
						sum += float32(i+1) * float32(token)
					}
					for j := range width {
						t[((place*heads+head)*c.Length+at)*width+j] = sum + float32(j)/16
					}
				}
			}
		}
	}
}

// rowsAt returns all keys and values of the first positions at a place.
func rowsAt(c *kvcache.Cache, place, n int) (all []float32) {
	for layer := range c.K {
		heads, width := c.K[layer].Shape()[1], backend.Width(c.K[layer])
		for _, t := range [][]float32{c.K[layer].Float32s(), c.V[layer].Float32s()} {
			for head := range heads {
				all = append(all, t[(place*heads+head)*c.Length*width:][:n*width]...)
			}
		}
	}
	return all
}

// Whatever was kept and dropped, a found beginning has the keys and values of its tokens, and the
// store stays within its bytes.
func TestStore(t *testing.T) {
	layers := []kvcache.Layer{{Heads: 2, HeadDim: 4}, {Heads: 1, HeadDim: 2}}
	const length, piece = 200, 32 * 4 * (2*2*4 + 2*1*2)
	for _, room := range []int64{0, piece - 1, piece, 3*piece + 5, 1 << 20} {
		r := rand.New(rand.NewPCG(uint64(room), 1))
		s := kvcache.NewStore(room)
		c := kvcache.New(plain.New(), 3, length, layers)
		var texts [][]int32
		found := 0
		for range 120 {
			var tokens []int32
			if len(texts) > 0 && r.IntN(3) > 0 { // goes on with another
				tokens = slices.Clone(texts[len(texts)-1-r.IntN(min(2, len(texts)))])
				tokens = tokens[:r.IntN(len(tokens)+1)]
			}
			for len(tokens) < length && r.IntN(60) > 0 {
				tokens = append(tokens, int32(r.IntN(3)))
			}
			block := []int{1, 4, 64}[r.IntN(3)]
			p := s.Find(tokens, block)
			require.LessOrEqual(t, p.Length, len(tokens))
			require.Zero(t, p.Length%max(32, block))
			sums(c, 0, tokens, block)
			p.CopyTo(c, 2)
			require.Equal(t, rowsAt(c, 0, p.Length), rowsAt(c, 2, p.Length))
			found += p.Length
			s.Keep(c, 0, tokens, block)
			require.LessOrEqual(t, s.Bytes(), room)
			if again := s.Find(tokens, block); room == 1<<20 {
				require.Equal(t, len(tokens)/max(32, block)*max(32, block), again.Length)
			}
			texts = append(texts, tokens)
		}
		require.Equal(t, room >= piece, found > 0, "%d bytes", room)
	}
}

// What was not used for longest is dropped first, the end of a text before its beginning.
func TestStoreDropsTheOldest(t *testing.T) {
	layers := []kvcache.Layer{{Heads: 1, HeadDim: 2}}
	const piece = 32 * 4 * 2 * 2
	s, c := kvcache.NewStore(4*piece), kvcache.New(plain.New(), 1, 96, layers)
	text := func(first int32, n int) []int32 { return slices.Repeat([]int32{first}, n) }
	s.Keep(c, 0, text(1, 64), 1)
	s.Keep(c, 0, text(2, 64), 1)
	require.EqualValues(t, 4*piece, s.Bytes())
	require.Equal(t, 64, s.Find(text(1, 64), 1).Length)
	s.Keep(c, 0, text(3, 40), 1)
	require.Equal(t, []int{64, 32, 32}, []int{s.Find(text(1, 64), 1).Length,
		s.Find(text(2, 64), 1).Length, s.Find(text(3, 64), 1).Length})
	require.Zero(t, s.Find(text(1, 64), 4).Length, "another size of blocks")
	s.Keep(c, 0, text(4, 96), 1)
	require.EqualValues(t, 4*piece, s.Bytes())
	require.Equal(t, 96, s.Find(text(4, 96), 1).Length)
}
