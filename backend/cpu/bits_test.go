package cpu

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd"
)

// bits are checksums of the float32 results of every kernel, on AVX2, AVX-512 and NEON.
var bits = map[string]uint32{"linear": 0x5784372c, "layer norm": 0x39a6c6ba,
	"split heads": 0x836e1439, "attention": 0x6e83a436, "head stats": 0x61e817e3,
	"head sample": 0x707de88f, "group norm": 0xb6cb7cb5, "conv": 0xb66f5222}

// float32 results have the same bits on every instruction set, and must not change. Plain Go may
// differ: it rounds products and computes functions in float64.
func TestBits(t *testing.T) {
	for _, level := range simd.Available() {
		if level.ISA == simd.Generic {
			continue
		}
		b := New(Options{ISA: level.String(), Threads: 3})
		r := rand.New(rand.NewPCG(7, 7))
		random := func(shape ...int) *tensor.Dense {
			x := b.New(shape...)
			for i := range x.Float32s() {
				x.Float32s()[i] = float32(r.NormFloat64())
			}
			return x
		}
		sum := func(name string, values ...any) {
			h := crc32.NewIEEE()
			for _, v := range values {
				if d, ok := v.(*tensor.Dense); ok {
					v = d.Float32s()
				}
				require.NoError(t, binary.Write(h, binary.LittleEndian, v))
			}
			require.Equal(t, bits[name], h.Sum32(), "%s on %v", name, level)
		}

		const rows, width, heads, dim, length = 37, 80, 3, 40, 131
		x, dst := random(rows, width), b.New(rows, 3*heads*dim)
		pack := func(out, in int) backend.Matrix {
			return b.Pack(out, in, backend.F32, func(i int, dst []float32) {
				s := rand.New(rand.NewPCG(1, uint64(i)))
				for j := range dst {
					dst[j] = float32(s.NormFloat64() / math.Sqrt(float64(in)))
				}
			})
		}
		w := pack(3*heads*dim, width)
		for act := backend.Identity; act <= backend.ReLU; act++ {
			b.Linear(dst, x, rows, w, backend.Epilogue{Bias: random(3 * heads * dim), Act: act, Add: true})
		}
		sum("linear", dst)
		y := random(rows, width)
		b.LayerNorm(y, x, rows, backend.Norm{Scale: random(width), Shift: random(width), Eps: 1e-5})
		sum("layer norm", y)

		segs := []backend.Segment{{Seq: 0, Rows: 20}, {Seq: 1, Row: 20, Rows: 17}}
		q, k, v := b.New(rows, heads*dim), random(2, heads, length, dim), random(2, heads, length, dim)
		pos := make([]int32, rows)
		for i := range pos {
			pos[i] = int32(3 * i % length)
		}
		h := backend.Heads{Heads: heads, HeadDim: dim, Keys: length}
		b.SplitHeads(q, k, v, dst, segs, pos, h,
			&backend.Rotary{Cos: random(length, dim/2), Sin: random(length, dim/2)})
		sum("split heads", q, k, v)
		out := b.New(rows, heads*dim)
		b.Attention(out, q, k, v, segs, h)
		sum("attention", out)

		head := backend.Head{W: pack(500, width), Bias: random(500), Outcomes: 499, Scale: 1.25}
		values := func() []float64 { return make([]float64, rows) }
		s := &backend.HeadStats{Beta: 1.5, LogMoment: values(), Entropy: values(), P1: values(),
			P2: values(), Arg: make([]int32, rows), LogSum: values()}
		b.HeadStats(y, rows, head, s)
		for _, v := range [][]float64{s.LogMoment, s.Entropy, s.P1, s.P2, s.LogSum} {
			for i := range v { // Go's own logarithm may differ in the last place between processors
				v[i] = math.Round(v[i] * 1e9)
			}
		}
		sum("head stats", s.LogMoment, s.Entropy, s.P1, s.P2, s.Arg, s.LogSum)
		d := &backend.HeadDraw{Power: 0.8, Uniform: values(), Token: make([]int32, rows)}
		for i := range d.Uniform {
			d.Uniform[i] = r.Float64()
		}
		b.HeadSample(y, rows, head, d)
		sum("head sample", d.Token)

		shape := backend.ConvShape{Batch: 1, Height: 9, Width: 7, In: 32, Out: 48, KH: 3, KW: 3, PadH: 1,
			PadW: 1, Upsample: true}
		image, scale, shift := random(1, 9, 7, 32), b.New(1, 32), b.New(1, 32)
		b.GroupNorm(scale, shift, image, 1, 63, 32, 8,
			backend.Norm{Scale: random(32), Shift: random(32), Eps: 1e-6})
		sum("group norm", scale, shift)
		big := b.New(1, 18, 14, 48)
		b.Conv(big, image, shape, pack(48, 9*32),
			backend.ConvInput{Scale: scale, Shift: shift, SiLU: true}, backend.Epilogue{Bias: random(48)})
		sum("conv", big)
	}
}
