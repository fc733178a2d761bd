package bench

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/philox"
)

// kernelMeasurements returns the kernels that take most of a pass, each by itself.
func kernelMeasurements() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		for _, h := range heads {
			out = append(out, Measurement{"head/" + h.name + "/" + p.String(), func(s *Suite) (work, error) {
				return s.measureHead(p, h.run), nil
			}})
		}
	}
	for _, a := range []struct{ length, heads, dim int }{{1024, 12, 64}, {257, 16, 48}} {
		out = append(out, Measurement{fmt.Sprintf("attention/%d", a.length),
			func(s *Suite) (work, error) {
				return s.measureAttention(a.length, a.heads, a.dim), nil
			}})
	}
	for _, c := range []struct{ side, channels int }{{256, 128}, {128, 256}} {
		out = append(out, Measurement{fmt.Sprintf("conv/%d", c.side), func(s *Suite) (work, error) {
			return s.measureConv(c.side, c.channels), nil
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
	{"top2", headStats(&backend.HeadStats{
		P1:  make([]float64, headRows),
		P2:  make([]float64, headRows),
		Arg: make([]int32, headRows),
	})},
	{"sample", func(s *Suite, x *tensor.Dense, h backend.Head) func() {
		draw := &backend.HeadDraw{
			Power:   1,
			Uniform: make([]float64, headRows),
			Token:   make([]int32, headRows),
			LogP:    make([]float64, headRows),
		}
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

// measureHead measures one use of LM12's output head.
func (s *Suite) measureHead(p backend.Precision,
	prepare func(*Suite, *tensor.Dense, backend.Head) func()) work {
	s.dropNetwork()
	w := s.Device.Pack(headOut, headIn, p,
		func(i int, dst []float32) { fillNoise(dst, i*headIn, 0.1) })
	h := backend.Head{W: w, Bias: s.randomTensor(0.1, headOut), Outcomes: headOut - 1}
	run := prepare(s, s.randomTensor(1, headRows, headIn), h)
	call := func() error {
		run()
		return nil
	}
	return work{run: call,
		cost: cost{ops: 2 * headRows * headIn * headOut, precision: p}}
}

// measureAttention measures the attention of one layer with given keys and values.
func (s *Suite) measureAttention(length, heads, dim int) work {
	dst := s.Device.New(length, heads*dim)
	q := s.randomTensor(1, length, heads*dim)
	k := s.randomTensor(1, 1, heads, length, dim)
	v := s.randomTensor(1, 1, heads, length, dim)
	segs := []backend.Segment{{Rows: length}}
	h := backend.Heads{Heads: heads, HeadDim: dim, Keys: length}
	run := func() error {
		s.Device.Attention(dst, q, k, v, segs, h)
		return nil
	}
	return work{run: run,
		cost: cost{ops: 4 * float64(length) * float64(length) * float64(heads*dim)}}
}

// measureConv measures a 3x3 convolution over a square image that keeps its number of channels,
// with the map of a group norm and swish applied while it reads, as in VQGAN's decoder.
func (s *Suite) measureConv(side, channels int) work {
	c := backend.ConvShape{
		Batch:  1,
		Height: side,
		Width:  side,
		In:     channels,
		Out:    channels,
		KH:     3,
		KW:     3,
		PadH:   1,
		PadW:   1,
	}
	depth := 9 * channels
	w := s.Device.Pack(channels, depth, backend.F32,
		func(i int, dst []float32) { fillNoise(dst, i*depth, 0.1) })
	x := s.randomTensor(1, side, side, channels)
	dst := s.Device.New(side, side, channels)
	in := backend.ConvInput{
		Scale: s.randomTensor(1, 1, channels),
		Shift: s.randomTensor(1, 1, channels),
		SiLU:  true,
	}
	run := func() error {
		s.Device.Conv(dst, x, c, w, in, backend.Epilogue{})
		return nil
	}
	return work{run: run,
		cost: cost{ops: 2 * float64(side*side) * float64(depth*channels)}}
}

// randomTensor returns a tensor of random numbers from -scale to scale.
func (s *Suite) randomTensor(scale float32, shape ...int) *tensor.Dense {
	t := s.Device.New(shape...)
	v := make([]float32, t.DataSize())
	fillNoise(v, 0, scale)
	s.Device.Write(t, 0, v)
	return t
}

// fillNoise writes the numbers from index `first` on of one fixed sequence of random ones.
func fillNoise(dst []float32, first int, scale float32) {
	for i := range dst {
		dst[i] = scale * noise[(first+i)%len(noise)]
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
