package bench

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/philox"
)

// kernels returns the kernels that take most of a pass, each by itself.
func kernels() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		for _, h := range heads {
			out = append(out, Measurement{"head/" + h.name + "/" + p.String(), func(s *Suite) (work, error) {
				return s.head(p, h.run), nil
			}})
		}
	}
	for _, a := range []struct{ length, heads, dim int }{{1024, 12, 64}, {257, 16, 48}} {
		out = append(out, Measurement{fmt.Sprintf("attention/%d", a.length),
			func(s *Suite) (work, error) {
				return s.attention(a.length, a.heads, a.dim), nil
			}})
	}
	for _, c := range []struct{ side, channels int }{{256, 128}, {128, 256}} {
		out = append(out, Measurement{fmt.Sprintf("conv/%d", c.side), func(s *Suite) (work, error) {
			return s.conv(c.side, c.channels), nil
		}})
	}
	return out
}

// LM12's output head with every position masked.
const headRows, headIn, headOut = 1024, 768, 50258

// heads are the uses of the output head. The logits alone, which no sampler writes out, are the
// product that the others are compared with.
var heads = []struct {
	name string
	run  func(s *Suite, x *tensor.Dense, h backend.Head) func()
}{
	{"logits", func(s *Suite, x *tensor.Dense, h backend.Head) func() {
		dst := s.Device.New(headRows, headOut)
		return func() { s.Device.Linear(dst, x, headRows, h.W, backend.Epilogue{Bias: h.Bias}) }
	}},
	{"moment", headStats(&backend.HeadStats{Beta: 1.5, LogMoment: make([]float64, headRows)})},
	{"entropy", headStats(&backend.HeadStats{Entropy: make([]float64, headRows)})},
	{"top2", headStats(&backend.HeadStats{P1: make([]float64, headRows),
		P2: make([]float64, headRows), Arg: make([]int32, headRows)})},
	{"sample", func(s *Suite, x *tensor.Dense, h backend.Head) func() {
		draw := &backend.HeadDraw{Power: 1, Uniform: make([]float64, headRows),
			Token: make([]int32, headRows), LogP: make([]float64, headRows)}
		for i := range draw.Uniform {
			draw.Uniform[i] = philox.Stream{}.Uniform(i, philox.Order)
		}
		return func() { s.Device.HeadSample(x, headRows, h, draw) }
	}},
}

// headStats returns the use of the head that computes some statistics.
func headStats(stats *backend.HeadStats) func(*Suite, *tensor.Dense, backend.Head) func() {
	return func(s *Suite, x *tensor.Dense, h backend.Head) func() {
		return func() { s.Device.HeadStats(x, headRows, h, stats) }
	}
}

func (s *Suite) head(p backend.Precision,
	ask func(*Suite, *tensor.Dense, backend.Head) func()) work {
	s.drop()
	w := s.Device.Pack(headOut, headIn, p, func(i int, dst []float32) { fill(dst, i*headIn, 0.1) })
	h := backend.Head{W: w, Bias: s.random(0.1, headOut), Outcomes: headOut - 1}
	run := ask(s, s.random(1, headRows, headIn), h)
	return work{run: func() error { run(); return nil },
		cost: cost{ops: 2 * headRows * headIn * headOut, as: p}}
}

// attention measures the attention of one layer with given keys and values.
func (s *Suite) attention(length, heads, dim int) work {
	q, dst := s.random(1, length, heads*dim), s.Device.New(length, heads*dim)
	k, v := s.random(1, 1, heads, length, dim), s.random(1, 1, heads, length, dim)
	segs := []backend.Segment{{Rows: length}}
	h := backend.Heads{Heads: heads, HeadDim: dim, Keys: length}
	return work{run: func() error { s.Device.Attention(dst, q, k, v, segs, h); return nil },
		cost: cost{ops: 4 * float64(length) * float64(length) * float64(heads*dim)}}
}

// conv measures a 3x3 convolution over a square image that keeps its number of channels, with the
// map of a group norm and swish applied while it reads, as in VQGAN's decoder.
func (s *Suite) conv(side, channels int) work {
	c := backend.ConvShape{Batch: 1, Height: side, Width: side, In: channels, Out: channels, KH: 3,
		KW: 3, PadH: 1, PadW: 1}
	depth := 9 * channels
	w := s.Device.Pack(channels, depth, backend.F32,
		func(i int, dst []float32) { fill(dst, i*depth, 0.1) })
	x, dst := s.random(1, side, side, channels), s.Device.New(side, side, channels)
	in := backend.ConvInput{Scale: s.random(1, 1, channels), Shift: s.random(1, 1, channels),
		SiLU: true}
	return work{run: func() error { s.Device.Conv(dst, x, c, w, in, backend.Epilogue{}); return nil },
		cost: cost{ops: 2 * float64(side*side) * float64(depth*channels)}}
}

// random returns a tensor of random numbers from -scale to scale.
func (s *Suite) random(scale float32, shape ...int) *tensor.Dense {
	t := s.Device.New(shape...)
	v := make([]float32, t.DataSize())
	fill(v, 0, scale)
	s.Device.Write(t, 0, v)
	return t
}

// fill writes the numbers from index `at` on of one fixed sequence of random ones.
func fill(dst []float32, at int, scale float32) {
	for i := range dst {
		dst[i] = scale * noise[(at+i)%len(noise)]
	}
}

// noise repeats after a prime number.
var noise = func() []float32 {
	x := make([]float32, 8191)
	for i := range x {
		x[i] = float32(2*philox.Stream{Sequence: 1}.Uniform(i, philox.Order) - 1)
	}
	return x
}()
