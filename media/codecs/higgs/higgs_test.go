package higgs

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
)

// step is one of 16 bit sound.
const step = 1.0 / 32768

// decoded decodes codes [books, frames] of a pack.
func decoded(t testing.TB, c *Codec, codes []int32) (all []float32) {
	books := c.Codebooks()
	frames := len(codes) / books
	turned := make([]int32, len(codes))
	for i, x := range codes {
		turned[i%frames*books+i/frames] = x
	}
	require.NoError(t, c.Decode(t.Context(), turned, func(part []float32) error {
		all = append(all, part...)
		return nil
	}))
	return all
}

func open(t testing.TB, o model.Options) (*parity.Pack, *Codec) {
	p := parity.Open(t, "higgs-codec-tiny")
	c, err := Load(p.Source, o)
	require.NoError(t, err)
	return p, c
}

func TestSound(t *testing.T) {
	for _, d := range parity.Devices {
		t.Run(d.Name+"/"+d.Precision.String(), func(t *testing.T) {
			p, c := open(t, model.Options{Backend: d.New(t), Precision: d.Precision})
			codes, shape := p.Ints("codes")
			want, _ := p.Floats("wave")
			require.Equal(t, 24000, c.SampleRate())
			for i := range shape[0] {
				n := shape[1] * shape[2]
				got := decoded(t, c, codes[i*n:(i+1)*n])
				require.Len(t, got, shape[2]*c.FrameSamples())
				for j, x := range want[i*len(got) : (i+1)*len(got)] {
					require.InDelta(t, x, got[j], step, "sample %d", j)
				}
			}
		})
	}
}

// A sound has the same bytes in windows of any length, and memory does not grow with it.
func TestWindows(t *testing.T) {
	_, c := open(t, model.Options{Backend: cpu.New(cpu.Options{})})
	codes := make([]int32, 8*60)
	for i := range codes {
		codes[i] = int32(i*i+i/7) % 64
	}
	c.window = 1000
	whole := decoded(t, c, codes)
	c.w, c.window = workspace{}, 9
	require.Equal(t, whole, decoded(t, c, codes))
	room := c.w.x.DataSize()
	decoded(t, c, slices.Repeat(codes, 2))
	require.Equal(t, room, c.w.x.DataSize())
	require.LessOrEqual(t, c.w.frames, 9+2*c.margin)
}

func TestBadCodes(t *testing.T) {
	_, c := open(t, model.Options{Backend: cpu.New(cpu.Options{})})
	for name, codes := range map[string][]int32{"codes are 0": nil, "codes are 9": make([]int32, 9),
		"code is 64 at frame 1 of codebook 2, want 0 to 63": {9: 0, 10: 64, 15: 0}} {
		err := c.Decode(t.Context(), codes, func([]float32) error { return nil })
		require.ErrorContains(t, err, name)
	}
}

func TestBadConfigs(t *testing.T) {
	for _, c := range [][3]string{
		{`"sample_rate": 24000`, `"sample_rate": 0`, "sample_rate is 0, want 1 to 262144"},
		{"8,\n   5,\n   4,\n   2,\n   3\n  ]\n }", "8, 5]}", "upsampling_ratios are 2, want 5"},
		{"3\n  ]\n }", "65]}", "upsampling_ratios has 65, want 1 to 64"},
		{"3\n  ]\n }", "2]}", "misshaped"},
	} {
		t.Run(c[2], func(t *testing.T) {
			p := parity.Open(t, "higgs-codec-tiny")
			require.Contains(t, string(p.Config), c[0])
			p.Config = []byte(strings.Replace(string(p.Config), c[0], c[1], 1))
			_, err := Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
			require.ErrorContains(t, err, c[2])
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
