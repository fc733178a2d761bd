package screen_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/simd"
	"unmask/internal/simd/screen"
)

var inf = float32(math.Inf(1))

// Every instruction set finds what a plain loop finds, on rows of every length.
func TestScreens(t *testing.T) {
	for _, level := range simd.Available() {
		t.Run(level.String(), func(t *testing.T) {
			o := screen.Ops(level.ISA)
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(0, screen.Size).Draw(t, "n")
				value := rapid.OneOf(rapid.Float32Range(-30, 30),
					rapid.SampledFrom([]float32{0, 1, inf, -inf, float32(math.NaN())}))
				pattern := rapid.SliceOfN(value, 1, 40).Draw(t, "values")
				least := value.Draw(t, "least")
				word := rapid.SliceOfN(rapid.OneOf(rapid.Uint32(),
					rapid.SampledFrom([]uint32{0, 255, 256, math.MaxUint32})), 1, 70).Draw(t, "words")
				x := make([]float32, n)
				var words [screen.Size / 4][4]uint32
				var above, race []int
				for i := range x {
					x[i], words[i/4][i%4] = pattern[i%len(pattern)], word[i%len(word)]
					if x[i] > least {
						above = append(above, i)
					}
					if luck := screen.Luck(words[i/4][i%4]); x[i] > luck+least {
						race = append(race, i)
					}
				}
				s := screen.Set{1, 2, 3}
				o.Above(&s, x, least)
				require.Equal(t, above, slices.Collect(s.All()))
				o.Race(&s, x, &words, least)
				require.Equal(t, race, slices.Collect(s.All()))
			})
		})
	}
}

// Luck is a lower bound of log(1-u), and a close one.
func TestLuck(t *testing.T) {
	check := func(word uint32) {
		exact := math.Log(1 - float64(word>>8)/(1<<24))
		luck := float64(screen.Luck(word))
		require.LessOrEqual(t, luck, exact+2e-6, "%#x", word)
		require.GreaterOrEqual(t, luck, exact-0.0598, "%#x", word)
	}
	for _, word := range []uint32{0, 1, 255, 256, 1 << 31, math.MaxUint32, math.MaxUint32 - 256} {
		check(word)
	}
	rapid.Check(t, func(t *rapid.T) { check(rapid.Uint32().Draw(t, "word")) })
}

func BenchmarkRace(b *testing.B) {
	var x [screen.Size]float32
	var words [screen.Size / 4][4]uint32
	var s screen.Set
	for _, level := range simd.Available() {
		b.Run(level.String(), func(b *testing.B) {
			b.SetBytes(4 * screen.Size)
			for b.Loop() {
				screen.Ops(level.ISA).Race(&s, x[:], &words, 1)
			}
		})
	}
}
