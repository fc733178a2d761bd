package philox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/simd"
)

// Blocks are Words with the kernels of every instruction set here, and write no further.
func TestBlocksAreWords(t *testing.T) {
	for _, level := range simd.Available() {
		t.Run(level.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := Stream{Seed: rapid.Uint64().Draw(t, "seed"), Sequence: rapid.Uint32().Draw(t, "sequence"),
					Step: rapid.Uint32().Draw(t, "step")}
				position, use := int(rapid.Uint32().Draw(t, "position")),
					Use(rapid.Uint32Range(0, 255).Draw(t, "use"))
				first := rapid.IntRange(0, 1<<24-1).Draw(t, "first")
				n := rapid.IntRange(0, 3*32+1).Draw(t, "blocks")
				words := make([][4]uint32, n+1)
				b := s.Blocks(position, use)
				b.isa = level.ISA
				b.Fill(words[:n], first)
				for i := range n {
					block := uint32(first + i)
					require.Equal(t, Block([4]uint32{uint32(position), s.Step, s.Sequence, uint32(use) | block<<8},
						[2]uint32{uint32(s.Seed), uint32(s.Seed >> 32)}), words[i])
				}
				require.Zero(t, words[n])
			})
		})
	}
}

// The blocks of 1024 outcomes, as vanilla(bits=32) makes them.
func BenchmarkBlocks(b *testing.B) {
	var words [256][4]uint32
	for _, level := range simd.Available() {
		b.Run(level.String(), func(b *testing.B) {
			b.SetBytes(int64(len(words) * 16))
			for position := range b.N {
				s := Stream{Seed: 1}.Blocks(position, Token)
				s.isa = level.ISA
				s.Fill(words[:], 0)
			}
		})
	}
}
