package backendtest

import (
	"math"

	"unmask/backend"
)

var convShapes = []backend.ConvShape{
	{Batch: 1, Height: 1, Width: 1, In: 1, Out: 1, KH: 1, KW: 1},
	{Batch: 2, Height: 5, Width: 7, In: 3, Out: 9, KH: 3, KW: 3, PadH: 1, PadW: 1},
	{Batch: 1, Height: 8, Width: 8, In: 16, Out: 48, KH: 3, KW: 3, PadH: 1, PadW: 1},
	{Batch: 1, Height: 9, Width: 6, In: 20, Out: 33, KH: 3, KW: 3, PadH: 1, PadW: 1, Stride: 2},
	{Batch: 2, Height: 6, Width: 5, In: 32, Out: 16, KH: 3, KW: 3, PadH: 1, PadW: 1, Upsample: true},
	{Batch: 3, Height: 4, Width: 5, In: 64, Out: 65, KH: 1, KW: 1},
	{Batch: 1, Height: 20, Width: 18, In: 3, Out: 12, KH: 7, KW: 5, PadH: 3, PadW: 2, DstStride: 20,
		DstOffset: 5},
	{Batch: 1, Height: 12, Width: 12, In: 8, Out: 6, KH: 1, KW: 7, PadW: 3},
	{Batch: 1, Height: 7, Width: 7, In: 10, Out: 4, KH: 3, KW: 3, Stride: 2},
	{Batch: 1, Height: 1, Width: 300, In: 12, Out: 6, KH: 1, KW: 7},
}

// inputs makes a convolution's x, input map and target.
func (s *suite) inputs(c backend.ConvShape, affine, swish bool) (x, dst twin, dev,
	ref backend.ConvInput) {
	stride, _ := backend.ConvTarget(c)
	x = s.random(c.Batch, c.Height, c.Width, c.In)
	dst = s.random(c.Batch, c.OutHeight(), c.OutWidth(), stride)
	dev.SiLU, ref.SiLU = swish, swish
	if affine {
		a, b := s.random(c.Batch, c.In), s.random(c.Batch, c.In)
		dev.Scale, dev.Shift, ref.Scale, ref.Shift = a.dev, b.dev, a.ref, b.ref
	}
	return x, dst, dev, ref
}

func conv(s *suite) {
	for i, c := range convShapes {
		for j, as := range precisions {
			x, dst, dev, ref := s.inputs(c, (i+j)%2 == 0, (i+j)%3 == 0)
			w, bias := s.weights(c.Out, c.KH*c.KW*c.In, as), s.random(c.Out)
			act := []backend.Activation{backend.Identity, backend.ReLU, backend.SiLU}[(i+2*j)%3]
			s.dev.Conv(dst.dev, x.dev, c, w.dev, dev,
				backend.Epilogue{Bias: bias.dev, Act: act, Add: i%2 == 1})
			s.ref.Conv(dst.ref, x.ref, c, w.ref, ref,
				backend.Epilogue{Bias: bias.ref, Act: act, Add: i%2 == 1})
			bound := 0.0 // for any window: its norm is at most sqrt(taps) times the largest pixel's
			window := make([]float32, c.KH*c.KW*c.In)
			for i := range window {
				window[i] = float32(2 + top(x.want())*5)
			}
			for o := range c.Out {
				bound = max(bound, w.error(o, window))
			}
			// an input near a rounding boundary may be rounded to the other side
			if as == backend.BF16 {
				bound += math.Exp2(-8) * 20 * top(w.w)
			}
			dst.near(name("%v %+v", as, c),
				func(i int) float64 { return bound + 8*eps*(1+math.Abs(float64(dst.want()[i]))) })
		}
	}
}

// convDoubled compares a Doubler's products of folded weights with a Conv that doubles the image,
// and checks that an image has the same bits alone and in a batch.
func convDoubled(s *suite) {
	d, ok := s.dev.(backend.Doubler)
	if !ok {
		s.Skip("the device is no Doubler")
	}
	for i, c := range []backend.ConvShape{
		{Batch: 1, Height: 1, Width: 1, In: 1, Out: 1},
		{Batch: 2, Height: 5, Width: 1, In: 4, Out: 3, DstStride: 7, DstOffset: 2},
		{Batch: 2, Height: 6, Width: 5, In: 32, Out: 16},
		{Batch: 1, Height: 19, Width: 33, In: 12, Out: 50},
		{Batch: 1, Height: 3, Width: 40, In: 6, Out: 33},
	} {
		c.KH, c.KW, c.PadH, c.PadW, c.Upsample = 3, 3, 1, 1, true
		x, dst, dev, ref := s.inputs(c, i%2 == 0, i%3 == 0)
		w, bias := s.weights(c.Out, 9*c.In, backend.F32), s.random(c.Out)
		var folded [4]backend.Matrix
		for phase := range folded {
			folded[phase] = s.dev.Pack(c.Out, 4*c.In, backend.F32, func(o int, dst []float32) {
				backend.FoldDoubled(dst, w.w[o*9*c.In:][:9*c.In], c.In, phase)
			})
		}
		e := backend.Epilogue{Bias: bias.dev, Act: backend.ReLU, Add: i%2 == 1}
		before := dst.got()
		d.ConvDoubled(dst.dev, x.dev, c, &folded, dev, e)
		s.ref.Conv(dst.ref, x.ref, c, w.ref, ref,
			backend.Epilogue{Bias: bias.ref, Act: e.Act, Add: e.Add})
		bound := 0.0
		for _, v := range w.w {
			bound = max(bound, math.Abs(float64(v)))
		}
		bound *= 16 * eps * 9 * float64(c.In) * (2 + 5*top(x.want()))
		dst.near(name("%+v", c), func(int) float64 { return bound })

		all, last := dst.got(), c.Batch-1
		image := c.Height * c.Width * c.In
		result := len(all) / c.Batch
		c.Batch = 1
		one, alone := s.blank(c.Height, c.Width, c.In), s.blank(result)
		one.write(x.want()[last*image:][:image])
		alone.write(before[last*result:][:result])
		if dev.Scale != nil {
			a, b := s.blank(1, c.In), s.blank(1, c.In)
			a.write(ref.Scale.Float32s()[last*c.In:][:c.In])
			b.write(ref.Shift.Float32s()[last*c.In:][:c.In])
			dev.Scale, dev.Shift = a.dev, b.dev
		}
		d.ConvDoubled(alone.dev, one.dev, c, &folded, dev, e)
		same(s, name("the last image of %+v", c), alone.got(), all[last*result:])
	}
}

// convAlone checks that an image has the same bits alone and in a batch.
func convAlone(s *suite) {
	c := backend.ConvShape{Batch: 5, Height: 9, Width: 11, In: 12, Out: 20, KH: 3, KW: 3, PadH: 1,
		PadW: 1}
	x, all, in, _ := s.inputs(c, false, true)
	w := s.weights(c.Out, 9*c.In, backend.F32)
	s.dev.Conv(all.dev, x.dev, c, w.dev, in, backend.Epilogue{})
	want, image, result := all.got(), c.Height*c.Width*c.In, c.Height*c.Width*c.Out
	c.Batch = 1
	for b := range 5 {
		one, dst, in, _ := s.inputs(c, false, true)
		one.write(x.want()[b*image : (b+1)*image])
		s.dev.Conv(dst.dev, one.dev, c, w.dev, in, backend.Epilogue{})
		same(s, name("image %d", b), dst.got(), want[b*result:(b+1)*result])
	}
}

func pool(s *suite) {
	for _, c := range []backend.ConvShape{
		{Batch: 1, Height: 3, Width: 3, In: 1, Out: 1, KH: 3, KW: 3},
		{Batch: 2, Height: 7, Width: 6, In: 5, Out: 5, KH: 3, KW: 3, PadH: 1, PadW: 1},
		{Batch: 1, Height: 8, Width: 9, In: 40, Out: 40, KH: 3, KW: 3, Stride: 2},
		{Batch: 2, Height: 4, Width: 4, In: 17, Out: 17, KH: 2, KW: 2, Stride: 2, DstStride: 30,
			DstOffset: 6},
		{Batch: 3, Height: 8, Width: 8, In: 33, Out: 33, KH: 8, KW: 8},
	} {
		for kind := backend.Mean; kind <= backend.Max; kind++ {
			x, dst, _, _ := s.inputs(c, false, false)
			s.dev.Pool(dst.dev, x.dev, c, kind)
			s.ref.Pool(dst.ref, x.ref, c, kind)
			dst.near(name("kind %d %+v", kind, c), func(int) float64 { return 64 * eps * float64(kind^1) })
		}
	}
}
