package philox_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/philox"
)

var update = flag.Bool("update", false, "rewrite the golden streams")

// The known answers are those of Random123's kat_vectors for philox4x32 with 10 rounds.
func TestKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		require.Equal(t, c.want, philox.Block(c.counter, c.key))
	}
}

// Streams are frozen: a change here changes every sample ever drawn.
func TestGoldenStreams(t *testing.T) {
	var b strings.Builder
	for _, s := range []philox.Stream{{}, {Seed: 1}, {Seed: 1 << 40, Sequence: 7, Step: 3},
		{Seed: math.MaxUint64, Sequence: math.MaxUint32, Step: math.MaxUint32}} {
		for use := philox.Order; use <= philox.Setup; use++ {
			for _, position := range []int{0, 1, 1023} {
				fmt.Fprintf(&b, "%+v use %d position %d: %08x %08x %.17g\n", s, use, position,
					s.Bits(position, use), s.Words(position, use, 5), s.Uniform(position, use))
			}
		}
	}
	const file = "testdata/streams.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestUniformIsOpenAndEven(t *testing.T) {
	s, bins := philox.Stream{Seed: 5}, [16]int{}
	sum := 0.0
	const n = 1 << 16
	for i := range n {
		u := s.Uniform(i, philox.Token)
		require.True(t, u > 0 && u < 1)
		bins[int(u*16)]++
		sum += u
	}
	require.InDelta(t, 0.5, sum/n, 0.005)
	chi := 0.0
	for _, c := range bins {
		chi += math.Pow(float64(c)-n/16, 2) / (n / 16)
	}
	require.Less(t, chi, 37.7) // 0.999 quantile, 15 degrees
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[[4]uint32]bool{}
	for _, s := range []philox.Stream{{}, {Seed: 1}, {Seed: 1 << 32}, {Sequence: 1}, {Step: 1}} {
		for position := range 4 {
			for block := range 4 {
				seen[s.Words(position, philox.Token, block)] = true
			}
			seen[s.Bits(position, philox.Order)] = true
		}
	}
	require.Len(t, seen, 5*4*5)
	require.Equal(t, philox.Stream{Step: 3}.Bits(1, philox.Token),
		philox.Stream{}.At(3).Words(1, philox.Token, 0))
}
