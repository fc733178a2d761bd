package inception

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/media/images"
	"unmask/model"
	"unmask/nn"
	"unmask/testkit/parity"
	"unmask/weights"
)

// pictures returns the pack's images, stored as [image, channel, height, width].
func pictures(p *parity.Pack) []*images.Image {
	v, shape := p.Ints("images")
	pixels := shape[2] * shape[3]
	var list []*images.Image
	for i := range shape[0] {
		m := &images.Image{Width: shape[3], Height: shape[2], Pix: make([]byte, 3*pixels)}
		for j := range m.Pix {
			m.Pix[j] = byte(v[(i*3+j%3)*pixels+j/3])
		}
		list = append(list, m)
	}
	return list
}

func run(t *testing.T, m *Model, list []*images.Image) (features, logits []float32) {
	next := 0
	require.NoError(t, m.Features(context.Background(), list, func(i int, f, l []float32) error {
		require.Equal(t, next, i)
		require.Len(t, f, m.Width())
		require.Len(t, l, Classes)
		features, logits = append(features, f...), append(logits, l...)
		next++
		return nil
	}))
	return features, logits
}

func TestFeatures(t *testing.T) {
	for _, name := range []string{"inception-thin", "inception"} {
		for _, d := range parity.Devices {
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := parity.Open(t, name)
				if d.Slow() && p.Full() {
					t.Skip("minutes a pass")
				}
				m, err := Load(p.Set, model.Options{Backend: d.New(t), Precision: d.Precision})
				require.NoError(t, err)
				list := pictures(p)
				if d.Slow() {
					list = list[:1] // slow
				}
				n := len(list)
				wantFeatures, _ := p.Floats("features")
				wantLogits, _ := p.Floats("logits_unbiased")
				f, l := run(t, m, append(list, list[0])) // the pack's 8 and another group
				parity.RequireClose(t, wantFeatures[:n*m.Width()], f[:n*m.Width()], d.Tolerance)
				parity.RequireClose(t, wantLogits[:n*Classes], l[:n*Classes], d.Tolerance)
				require.Equal(t, f[:m.Width()], f[n*m.Width():], "an image alone and among others")
				require.Equal(t, l[:Classes], l[n*Classes:])
			})
		}
	}
}

// A convolution with its batch norm and ReLU equals the definition, in a corner and inside.
func TestConvFoldsTheNorm(t *testing.T) {
	const in, out, h, w = 2, 3, 4, 5
	tensors := map[string]weights.Tensor{}
	value := func(name string, shape ...int) []float32 {
		n := 1
		for _, s := range shape {
			n *= s
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32((i*7+len(name)*3)%11)/4 - 1
			if name == "bn.running_var" {
				v[i] = 0.5 + float32(i)
			}
		}
		tensors[name] = weights.Tensor{Name: name, DType: weights.F32, Shape: shape,
			Data: littleEndian(v)}
		return v
	}
	weight := value("conv.weight", out, in, 1, 3)
	gamma, beta := value("bn.weight", out), value("bn.bias", out)
	mean, variance := value("bn.running_mean", out), value("bn.running_var", out)
	c := newConv(out, in, layer{height: 1, width: 3})
	bind(t, c, tensors)
	b := plain.New()
	l := &nn.Loader{Backend: b}
	c.loadWeights(l)
	require.NoError(t, l.Err())

	x := b.New(1, h, w, in)
	input := make([]float32, h*w*in)
	for i := range input {
		input[i] = float32(i%5) - 2
	}
	b.Write(x, 0, input)
	const stride, offset = out + 2, 1
	dst := b.New(1, h, w, stride)
	y := c.apply(b, dst, frame{x, h, w, in}, 1, stride, offset)
	require.Equal(t, [3]int{h, w, stride}, [3]int{y.height, y.width, y.channels})
	got := make([]float32, h*w*stride)
	b.Read(got, dst, 0)
	want := make([]float32, len(got))
	for pixel := range h * w {
		for o := range out {
			var sum float64
			for k := range 3 {
				if at := pixel%w + k - 1; at >= 0 && at < w {
					for i := range in {
						sum += float64(weight[(o*in+i)*3+k]) * float64(input[(pixel/w*w+at)*in+i])
					}
				}
			}
			v := (sum-float64(mean[o]))/math.Sqrt(float64(variance[o])+1e-3)*float64(gamma[o]) +
				float64(beta[o])
			want[pixel*stride+offset+o] = float32(max(v, 0))
		}
	}
	require.InDeltaSlice(t, want, got, 1e-5)
}

func TestResize(t *testing.T) {
	flat := &images.Image{Width: 7, Height: 3, Pix: bytes.Repeat([]byte{128, 0, 255}, 21)}
	v := make([]float32, inputSide*inputSide*3)
	resize(v, flat)
	for i := range inputSide * inputSide {
		require.Equal(t, []float32{0, -1, 127.0 / 128}, v[i*3:i*3+3])
	}
	// An image of the network's size stays as it is.
	same := &images.Image{Width: inputSide, Height: inputSide, Pix: make([]byte,
		inputSide*inputSide*3)}
	for i := range same.Pix {
		same.Pix[i] = byte(i * 31)
	}
	resize(v, same)
	for i, p := range same.Pix {
		require.Equal(t, (float32(p)-128)/128, v[i])
	}
	// A ramp stays a ramp, and the last pixel repeats at the far edge.
	ramp := &images.Image{Width: 2, Height: 1, Pix: []byte{0, 0, 0, 200, 200, 200}}
	resize(v, ramp)
	require.InDelta(t, 200*100*2.0/299-128, v[100*3]*128, 1e-3)
	require.InDelta(t, 200-128, v[298*3]*128, 1e-3)
}

func TestRefused(t *testing.T) {
	p := parity.Open(t, "inception-thin")
	for _, c := range []struct {
		name   string
		change func(v *weights.Tensor) bool
		want   string
	}{
		{"another network", func(v *weights.Tensor) bool { return v.Name != "Conv2d_1a_3x3.conv.weight" },
			"not the Inception-v3"},
		{"odd width", func(v *weights.Tensor) bool {
			if v.Name == "Conv2d_1a_3x3.conv.weight" {
				v.Shape = []int{3, 2, 3, 3}
			}
			return true
		}, "has shape [3 2 3 3], want [32 3 3 3]"},
		{"missing", func(v *weights.Tensor) bool { return v.Name != "Mixed_7c.branch_pool.bn.bias" },
			`1 missing: "Mixed_7c.branch_pool.bn.bias"`},
		{"variance", func(v *weights.Tensor) bool {
			if v.Name == "Mixed_6a.branch3x3.bn.running_var" {
				v.Data = littleEndian(slices.Repeat([]float32{-1}, v.Numel()))
			}
			return true
		}, `tensor "Mixed_6a.branch3x3.bn.running_var": element 0 is -1, want variances from 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var some []weights.Tensor
			for _, name := range p.Set.Names() {
				v, _ := p.Set.Get(name)
				some = append(some, *v)
			}
			var keep []weights.Tensor
			for _, v := range some {
				if c.change(&v) {
					keep = append(keep, v)
				}
			}
			_, err := Load(set(t, keep), model.Options{Backend: plain.New()})
			require.ErrorContains(t, err, c.want)
		})
	}
	m, err := Load(p.Set, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	err = m.Features(context.Background(),
		[]*images.Image{{Width: 2, Height: 2, Pix: make([]byte, 5)}}, nil)
	require.EqualError(t, err, "image 0: 5 bytes for 2 x 2 pixels of 3")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, m.Features(ctx, pictures(p), nil), context.Canceled)
	stop := errors.New("stop")
	require.ErrorIs(t, m.Features(context.Background(), pictures(p)[:1],
		func(int, []float32, []float32) error { return stop }), stop)
}
