//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
)

// A batch with more numbers than a launch can count is computed in parts, with the same bits.
func TestConvInParts(t *testing.T) {
	all := maxConvNumbers
	t.Cleanup(func() { maxConvNumbers = all })
	b, _ := openAny(t)
	for _, up := range []bool{false, true} {
		for _, as := range precisions {
			s := backend.ConvShape{Batch: 5, Height: 4, Width: 3, In: 8, Out: 6, KH: 3, KW: 3, PadH: 1,
				PadW: 1, Upsample: up}
			x := put(b, normal(1, s.Batch*s.Height*s.Width*s.In), s.Batch*s.Height*s.Width, s.In)
			in := backend.ConvInput{Scale: put(b, normal(2, s.Batch*s.In), s.Batch, s.In),
				Shift: put(b, normal(3, s.Batch*s.In), s.Batch, s.In), SiLU: true}
			w := packed(b, normal(4, s.Out*9*s.In), s.Out, 9*s.In, as)
			run := func() []float32 {
				y := b.New(s.Batch*s.OutHeight()*s.OutWidth(), s.Out)
				b.Conv(y, x, s, w, in, backend.Epilogue{Bias: put(b, normal(5, s.Out), s.Out)})
				return read(b, y)
			}
			maxConvNumbers = all
			want := run()
			image := s.Height * s.Width * s.In
			if up {
				image *= 4
			}
			for _, maxConvNumbers = range []int{image + 1, 2*image + 1, 3 * image} {
				require.Equal(t, want, run(), "up %v, %v, %d", up, as, maxConvNumbers)
			}
			maxConvNumbers = image
			require.Panics(t, func() { run() })
		}
	}
}
