//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

var (
	poolKernel    = register("unmask_pool")
	windowsKernel = register("unmask_windows")

	convInputKernels = [...]*kernel{
		backend.F32:  register("unmask_conv_input_f32"),
		backend.BF16: register("unmask_conv_input_bf16"),
	}
	// convTiles are tiles of Linear with gathered rows.
	convTiles = [...][]tile{
		backend.F32: {
			linearTiles[backend.F32][0].as("unmask_conv_f32_large"),
			linearTiles[backend.F32][1].as("unmask_conv_f32_small"),
		},
		backend.BF16: {
			linearTiles[backend.BF16][1].as("unmask_conv_bf16_medium"),
			linearTiles[backend.BF16][2].as("unmask_conv_bf16_small"),
		},
	}
	// anyConv is for float32 images whose number of channels is not a multiple of 4.
	anyConv = []tile{linearTiles[backend.F32][1].as("unmask_conv_f32_any")}
)

// as returns the tile of the same shape for another kernel.
func (t tile) as(kernel string) tile {
	t.kernel = register(kernel)
	return t
}

// images is working memory for images.
type images struct {
	sums    memory    // sums over channels
	input   memory    // mapped input of a convolution
	windows memory    // some of the windows, as rows
	shape   [15]int32 // in the layout of the kernels' Windows
}

// windowBytes is the most memory for windows as rows.
const windowBytes = 64 << 20

// describe describes a convolution to the kernels, in the layout of their Windows.
func (m *images) describe(s backend.ConvShape) []int32 {
	stride, offset := backend.ConvTarget(s)
	for i, v := range [...]int{s.Batch, s.Height, s.Width, s.In, s.Out, s.OutHeight(), s.OutWidth(),
		s.KH, s.KW,
		max(s.Stride, 1), s.PadH, s.PadW, s.UpsampleFactor(), stride, offset} {
		m.shape[i] = int32(v)
	}
	return m.shape[:]
}

// convNumbers is the most numbers of an input, after doubling, for one launch, because the kernels
// count in 32 bits.
var convNumbers = 1 << 32

// Conv is a convolution: a Linear over windows, which are zero outside the image.
func (b *Backend) Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConv(dst, x, s, w, in, e)
	if s.Batch == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := w.(*matrix)
	c := convolution{s, m, b.address(dst), b.address(x), b.address(in.Scale), b.address(in.Shift),
		b.address(e.Bias), in.SiLU, e}
	each := c.most()
	for first := 0; first < s.Batch; first += each {
		b.convolve(c.part(first, min(each, s.Batch-first)))
	}
	keep(dst, x, m, in, e.Bias)
}

// convolution is a call of Conv with addresses for its tensors.
type convolution struct {
	backend.ConvShape
	m                          *matrix
	dst, x, scale, shift, bias devicePtr
	silu                       bool
	e                          backend.Epilogue
}

// most returns the number of images whose numbers and pixels the kernels can count.
func (c *convolution) most() int {
	image := c.UpsampleFactor() * c.Height * c.UpsampleFactor() * c.Width * c.In
	if image >= convNumbers {
		panic(fmt.Sprintf("Conv: an image has %d numbers, want less than %d", image, convNumbers))
	}
	return min((convNumbers-1)/image, math.MaxInt32/(c.OutHeight()*c.OutWidth()), maxGridY)
}

// part returns the convolution of n images from image first on.
func (c *convolution) part(first, n int) convolution {
	p := *c
	pitch, _ := backend.ConvTarget(c.ConvShape)
	p.Batch = n
	p.dst += devicePtr(4 * first * c.OutHeight() * c.OutWidth() * pitch)
	p.x += devicePtr(4 * first * c.Height * c.Width * c.In)
	if p.scale != 0 {
		p.scale += devicePtr(4 * first * c.In)
		p.shift += devicePtr(4 * first * c.In)
	}
	return p
}

// maxGridY is the largest height of a grid in blocks.
const maxGridY = 65535

// convolve enqueues a convolution.
func (b *Backend) convolve(c convolution) {
	s, m, e := c.ConvShape, c.m, c.e
	// Rows of bfloat16 windows are loaded in pieces of 8 numbers; those of int8 have a scale each.
	gathered := m.as == backend.F32 || m.as == backend.BF16 && s.In%8 == 0
	source := b.convInput(c, m.as == backend.BF16 && gathered)
	if s.Upsample {
		s.Upsample, s.Height, s.Width = false, 2*s.Height, 2*s.Width
	}
	pitch, offset := backend.ConvTarget(s)
	pixels := s.Batch * s.OutHeight() * s.OutWidth()
	if gathered {
		tiles := convTiles[m.as]
		if s.In%4 != 0 {
			tiles = anyConv
		}
		t := b.best(tiles, pixels, m)
		b.begin(t.kernel, grid{x: t.blocks(pixels, m.out)}, t.threads, t.shared).
			pointer(c.dst).pointer(source).pointer(m.data).pointer(c.bias).ints(b.images.describe(s)).
			int(m.stride / strideUnit[m.as]).int(int(e.Act)).int(flag(e.Add)).end()
		return
	}
	to := c.dst + devicePtr(4*offset)
	group := min(max(1, windowBytes/(4*m.in)), pixels)
	rows := b.scratch(&b.images.windows, 4*group*m.in)
	for first := 0; first < pixels; first += group {
		n := min(group, pixels-first)
		b.begin(windowsKernel, grid{x: n, y: ceilDiv(m.in, 256)}, 256, 0).
			pointer(rows).pointer(source).ints(b.images.describe(s)).int(first).end()
		b.linear(rows, n, m, pitch, c.bias, e.Act, e.Add, 1).pointer(to + devicePtr(4*first*pitch)).
			pointer(0).end()
	}
}

// strideUnit converts a stride to the unit of the kernels' tiles: numbers or bytes.
var strideUnit = [...]int{backend.F32: 4, backend.BF16: 1}

// convInput maps a convolution's input, and doubles it or rounds it to bfloat16 if needed.
func (b *Backend) convInput(c convolution, round bool) devicePtr {
	if c.scale == 0 && !c.silu && !c.Upsample && !round {
		return c.x
	}
	as, up, each := backend.F32, c.UpsampleFactor(), 1 // each: numbers per thread
	if round {
		as = backend.BF16
	}
	if c.In%4 == 0 {
		each = 4
	}
	n := up * up * c.Height * c.Width * c.In
	to := b.scratch(&b.images.input, c.Batch*n*numberBytes[as])
	const threads = 256
	b.begin(convInputKernels[as], grid{x: ceilDiv(n, threads*each), y: c.Batch}, threads, 0).
		pointer(to).pointer(c.x).pointer(c.scale).pointer(c.shift).
		int(c.Height).int(c.Width).int(c.In).int(up).int(flag(c.silu)).end()
	return to
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (b *Backend) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	if s.Batch == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(poolKernel, grid{x: s.Batch * s.OutHeight() * s.OutWidth()}, min(roundUp(s.In, 32), 256),
		0).
		tensor(dst).tensor(x).ints(b.images.describe(s)).int(flag(kind == backend.Max)).end()
	keep(dst, x)
}
