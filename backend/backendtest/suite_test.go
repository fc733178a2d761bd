// Package backendtest compares every kernel of each device with the reference device (package
// plain). A new device is complete when it has a test here (devices_test.go) that passes.
//
// Shapes are odd on purpose: one row, one column, sizes near and beyond any tile, ragged segments.
// Rows outside a call hold NaN before it, and must after it. Tolerances are derived from the norms
// of the factors and the float32 epsilon. A row must have the same bits alone and in any batch.
package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/plain"
)

// testDevice tests all kernels of the device that open returns. Each test opens its own.
func testDevice(t *testing.T, open func() backend.Backend) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"Memory", memory}, {"Engine", engine}, {"Misuse", misuse},
		{"Linear", linear}, {"LinearAlone", linearAlone}, {"Blocks", blocks}, {"Gated", gated},
		{"GatedAlone", gatedAlone},
		{"LayerNorm", layerNorm}, {"RMSNorm", rmsNorm}, {"NormHeads", normHeads}, {"Activate", activate},
		{"Snake", snake},
		{"Modulate", modulate}, {"GateAdd", gateAdd},
		{"Rows", rowCopies}, {"AddScaled", addScaled},
		{"SplitHeads", splitHeads}, {"SplitGrouped", splitGrouped}, {"Attention", attention},
		{"AttentionAlone", attentionAlone},
		{"AttentionLocal", local},
		{"HeadStats", headStats}, {"HeadSample", headSample}, {"HeadVisit", headVisit},
		{"HeadAlone", headAlone}, {"HeadExtremes", headExtremes}, {"HeadUndefined", headUndefined},
		{"Conv", conv}, {"ConvAlone", convAlone},
		{"ConvDoubled", convDoubled}, {"GroupNorm", groupNorm}, {"Pool", pool},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(&suite{T: t, dev: open(), ref: plain.New(), rand: rand.New(rand.NewPCG(1, 2))})
		})
	}
}

// eps is the distance from 1 to the next float32.
const eps = 1.0 / (1 << 23)

var nan = float32(math.NaN())

type suite struct {
	*testing.T
	dev, ref backend.Backend
	rand     *rand.Rand
}

// twin is a tensor on both devices.
type twin struct {
	s        *suite
	dev, ref *tensor.Dense
}

// fill returns a tensor of the values of f.
func (s *suite) fill(f func(i int) float32, shape ...int) twin {
	t := twin{s, s.dev.New(shape...), s.ref.New(shape...)}
	data := make([]float32, t.ref.DataSize())
	for i := range data {
		data[i] = f(i)
	}
	t.write(data)
	return t
}

func (s *suite) normal(int) float32 { return float32(s.rand.NormFloat64()) }

// random returns a tensor of normal deviates.
func (s *suite) random(shape ...int) twin { return s.fill(s.normal, shape...) }

// rows returns a matrix of random rows followed by two of NaN.
func (s *suite) rows(rows, width int) twin {
	return s.fill(func(i int) float32 {
		if i >= rows*width {
			return nan
		}
		return s.normal(i)
	}, rows+2, width)
}

// blank returns a tensor full of NaN, to be written.
func (s *suite) blank(shape ...int) twin {
	return s.fill(func(int) float32 { return nan }, shape...)
}

func (t twin) write(data []float32) {
	t.s.dev.Write(t.dev, 0, data)
	t.s.ref.Write(t.ref, 0, data)
}

// got returns the device's values, want those of the reference.
func (t twin) got() []float32 {
	x := make([]float32, t.dev.DataSize())
	t.s.dev.Read(x, t.dev, 0)
	return x
}

func (t twin) want() []float32 { return t.ref.Float32s() }

// row returns a row of the reference.
func (t twin) row(i int) []float32 {
	w := backend.Width(t.ref)
	return t.want()[i*w : (i+1)*w]
}

// near compares all values, including those that no kernel may change; NaN equals NaN.
func (t twin) near(what string, tolerance func(i int) float64) {
	t.s.Helper()
	near(t.s.T, what, t.got(), t.want(), tolerance)
}

func near(t testing.TB, what string, got, want []float32, tolerance func(i int) float64) {
	t.Helper()
	for i, w := range want {
		g := got[i]
		if g == w || g != g && w != w {
			continue
		}
		if d := math.Abs(float64(g) - float64(w)); !(d <= tolerance(i)) {
			require.Failf(t, what, "value %d is %v, the reference %v: off by %.3g, allowed %.3g", i, g, w, d,
				tolerance(i))
		}
	}
}

// same compares bit for bit.
func same(t testing.TB, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			require.Failf(t, what, "value %d is %v, not %v bit for bit", i, got[i], w)
		}
	}
}

func relative(want []float32, ulps float64) func(int) float64 {
	return func(i int) float64 { return ulps * eps * math.Abs(float64(want[i])) }
}

func norm(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// top returns the largest magnitude, ignoring NaN.
func top(x []float32) float64 {
	var m float64
	for _, v := range x {
		if a := math.Abs(float64(v)); a > m {
			m = a
		}
	}
	return m
}

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func memory(s *suite) {
	x := s.dev.New(5, 3)
	got := make([]float32, 15)
	s.dev.Read(got, x, 0)
	require.Equal(s, make([]float32, 15), got, "a new tensor is zero")
	s.dev.Write(x, 2, []float32{1, 2, 3, 4})
	s.dev.Read(got[:6], x, 1)
	require.Equal(s, []float32{0, 0, 0, 1, 2, 3}, got[:6])
	require.Equal(s, tensor.Shape{5, 3}, x.Shape())
	require.NotEmpty(s, s.dev.Name())
}

// engine checks that gorgonia's operations run on tensors of the device.
func engine(s *suite) {
	a, b := s.random(7, 33), s.random(33, 5)
	product, err := tensor.MatMul(a.dev, b.dev)
	require.NoError(s, err)
	want, err := tensor.MatMul(a.ref, b.ref)
	require.NoError(s, err)
	got := make([]float32, 7*5)
	s.dev.Read(got, product.(*tensor.Dense), 0)
	near(s, "MatMul", got, want.Data().([]float32), func(int) float64 { return 64 * eps * 7 })
	if !s.dev.AllocAccessible() {
		return // its other operations need memory that Go can access
	}
	sum, err := tensor.Add(a.dev, a.dev)
	require.NoError(s, err)
	for i, v := range a.want() {
		require.Equal(s, 2*v, sum.Data().([]float32)[i])
	}
}

// misuse checks that shapes that do not fit panic with the kernel's name.
func misuse(s *suite) {
	x, y := s.dev.New(4, 8), s.dev.New(4, 9)
	w := s.dev.Pack(8, 8, backend.F32, func(int, []float32) {})
	for kernel, call := range map[string]func(){
		"Linear":    func() { s.dev.Linear(y, x, 4, w, backend.Epilogue{}) },
		"LayerNorm": func() { s.dev.LayerNorm(x, x, 5, backend.Norm{}) },
		"RMSNorm":   func() { s.dev.RMSNorm(x, x, 4, backend.Norm{Shift: x}) },
		"NormHeads": func() {
			s.dev.NormHeads(x, 4, backend.Heads{Heads: 2, KV: 3, HeadDim: 1}, backend.Norm{}, backend.Norm{})
		},
		"Activate":  func() { s.dev.Activate(x, 5, backend.ReLU) },
		"Modulate":  func() { s.dev.Modulate(x, y, y, nil) },
		"GateAdd":   func() { s.dev.GateAdd(x, x, x, []backend.Segment{{Seq: 4, Rows: 1}}) },
		"Gather":    func() { s.dev.Gather(x, x, []int32{4}) },
		"AddRows":   func() { s.dev.AddRows(x, x, []int32{-1}) },
		"AddScaled": func() { s.dev.AddScaled(x, x, []int32{1}, nil) },
		"Scatter":   func() { s.dev.Scatter(x, y, []int32{1}) },
		"SplitHeads": func() {
			s.dev.SplitHeads(x, x, x, x, nil, nil, backend.Heads{Heads: 1, HeadDim: 8},
				nil)
		},
		"Attention": func() {
			s.dev.Attention(x, x, x, x, nil,
				backend.Heads{Heads: 1, HeadDim: 8, Keys: 1})
		},
		"HeadStats": func() {
			s.dev.HeadStats(x, 4, backend.Head{W: w, Outcomes: 9},
				&backend.HeadStats{})
		},
		"HeadSample": func() {
			s.dev.HeadSample(x, 4, backend.Head{W: w, Outcomes: 8},
				&backend.HeadDraw{})
		},
		"HeadVisit": func() {
			s.dev.HeadVisit(y, 4, backend.Head{W: w, Outcomes: 8},
				func(int, []float32) {})
		},
		"Conv": func() {
			s.dev.Conv(x, x, backend.ConvShape{}, w, backend.ConvInput{},
				backend.Epilogue{})
		},
		"GroupNorm": func() { s.dev.GroupNorm(x, x, x, 1, 4, 8, 3, backend.Norm{}) },
		"Pool":      func() { s.dev.Pool(x, x, backend.ConvShape{}, backend.Max) },
		"Write":     func() { s.dev.Write(x, 3, make([]float32, 9)) },
		"Read":      func() { s.dev.Read(make([]float32, 9), x, 3) },
	} {
		func() {
			defer func() {
				s.Helper()
				require.Contains(s, fmt.Sprint(recover()), kernel)
			}()
			call()
		}()
	}
}
