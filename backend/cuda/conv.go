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
	// convTiles are tiles of Linear that gather the rows of windows from the image.
	convTiles = [...][]tile{
		backend.F32: {
			linearTiles[backend.F32][0].withKernel("unmask_conv_f32_large"),
			linearTiles[backend.F32][1].withKernel("unmask_conv_f32_small"),
		},
		backend.BF16: {
			linearTiles[backend.BF16][1].withKernel("unmask_conv_bf16_medium"),
			linearTiles[backend.BF16][2].withKernel("unmask_conv_bf16_small"),
		},
	}
	// unalignedConvTiles is for float32 images whose number of channels is not a multiple of 4.
	unalignedConvTiles = []tile{linearTiles[backend.F32][1].withKernel("unmask_conv_f32_any")}
)

// withKernel returns the tile of the same shape for another kernel.
func (t tile) withKernel(kernel string) tile {
	t.kernel = register(kernel)
	return t
}

// images is working memory for images.
type images struct {
	// sums are a group norm's sums over the pixels of chunks.
	sums scratchMemory

	// input is the input of a convolution after its map.
	input scratchMemory

	// windows are some of the windows, as rows of a product.
	windows scratchMemory

	// shape is the latest convolution in the layout of the kernels' Windows.
	shape [15]int32
}

// maxWindowBytes is the most memory for windows as rows. It bounds memory; more rows at once would
// not be faster.
const maxWindowBytes = 64 << 20

// describeWindows describes a convolution to the kernels, in the layout of their Windows.
func (m *images) describeWindows(s backend.ConvShape) []int32 {
	stride, offset := backend.ConvTarget(s)
	fields := [...]int{
		s.Batch, s.Height, s.Width, s.In, s.Out, s.OutHeight(), s.OutWidth(), s.KH, s.KW,
		max(s.Stride, 1), s.PadH, s.PadW, s.UpsampleFactor(), stride, offset,
	}
	for i, v := range fields {
		m.shape[i] = int32(v)
	}
	return m.shape[:]
}

// maxConvNumbers is the most numbers of an input, after doubling, for one launch, because the
// kernels count in 32 bits. Tests make it small.
var maxConvNumbers = 1 << 32

// Conv is a convolution: a Linear over windows, which are zero outside the image.
func (b *Backend) Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConv(dst, x, s, w, in, e)
	if s.Batch == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	weights := w.(*matrix)
	c := convolution{
		ConvShape: s,
		weights:   weights,
		dst:       b.addressOf(dst),
		x:         b.addressOf(x),
		scale:     b.addressOf(in.Scale),
		shift:     b.addressOf(in.Shift),
		bias:      b.addressOf(e.Bias),
		silu:      in.SiLU,
		epilogue:  e,
	}
	images := c.maxImages()
	for first := 0; first < s.Batch; first += images {
		b.enqueueConv(c.selectImages(first, min(images, s.Batch-first)))
	}
	keepAlive(dst, x, weights, in, e.Bias)
}

// convolution is a call of Conv with addresses in place of its tensors.
type convolution struct {
	backend.ConvShape
	weights *matrix

	dst   devicePtr
	x     devicePtr
	scale devicePtr // 0 for none, as shift and bias
	shift devicePtr
	bias  devicePtr

	silu     bool
	epilogue backend.Epilogue
}

// maxImages returns the number of images whose numbers and pixels the kernels can count.
func (c *convolution) maxImages() int {
	image := c.UpsampleFactor() * c.Height * c.UpsampleFactor() * c.Width * c.In
	if image >= maxConvNumbers {
		panic(fmt.Sprintf("Conv: an image has %d numbers, want less than %d", image, maxConvNumbers))
	}
	return min((maxConvNumbers-1)/image, math.MaxInt32/(c.OutHeight()*c.OutWidth()), maxGridY)
}

// selectImages returns the convolution of n images from image first on.
func (c *convolution) selectImages(first, n int) convolution {
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

// enqueueConv enqueues a convolution of images that one launch can count.
func (b *Backend) enqueueConv(c convolution) {
	s := c.ConvShape
	m := c.weights
	e := c.epilogue

	// Most products gather their windows from the image. Rows of bfloat16 windows are loaded in
	// pieces of 8 numbers, and those of int8 have a scale each, so the others are written out.
	gathered := m.precision == backend.F32 || m.precision == backend.BF16 && s.In%8 == 0
	source := b.prepareConvInput(c, m.precision == backend.BF16 && gathered)
	if s.Upsample { // the input has been doubled
		s.Upsample = false
		s.Height *= 2
		s.Width *= 2
	}
	pixels := s.Batch * s.OutHeight() * s.OutWidth()
	if gathered {
		tiles := convTiles[m.precision]
		if s.In%4 != 0 {
			tiles = unalignedConvTiles
		}
		t := b.fastestTile(tiles, pixels, m)
		b.begin(t.kernel, grid{x: t.blockCount(pixels, m.out)}, t.threads, t.shared).
			pointer(c.dst).pointer(source).pointer(m.data).pointer(c.bias).
			ints(b.images.describeWindows(s)).int(m.stride / strideUnit[m.precision]).
			int(int(e.Act)).int(flagOf(e.Add)).end()
		return
	}

	pitch, offset := backend.ConvTarget(s)
	dst := c.dst + devicePtr(4*offset)
	group := min(max(1, maxWindowBytes/(4*m.in)), pixels)
	rows := b.scratch(&b.images.windows, 4*group*m.in)
	for first := 0; first < pixels; first += group {
		n := min(group, pixels-first)
		b.begin(windowsKernel, grid{x: n, y: ceilDiv(m.in, 256)}, 256, 0).
			pointer(rows).pointer(source).ints(b.images.describeWindows(s)).int(first).end()
		b.beginLinear(rows, n, m, pitch, c.bias, e.Act, e.Add, 1).
			pointer(dst + devicePtr(4*first*pitch)).pointer(0).end()
	}
}

// strideUnit converts a stride in bytes to the unit of the kernels' tiles: numbers or bytes.
var strideUnit = [...]int{backend.F32: 4, backend.BF16: 1}

// prepareConvInput maps a convolution's input, and doubles it or rounds it to bfloat16 if needed.
// It returns the address of what the products read, the input itself if there is nothing to do.
// The map is done once here, because neighbouring windows read each pixel several times.
// It returns the address of what the products read, the input itself if there is nothing to do.
// The map is done once here, because neighbouring windows read each pixel several times.
func (b *Backend) prepareConvInput(c convolution, round bool) devicePtr {
	if c.scale == 0 && !c.silu && !c.Upsample && !round {
		return c.x
	}
	precision := backend.F32
	if round {
		precision = backend.BF16
	}
	numbersPerThread := 1
	if c.In%4 == 0 {
		numbersPerThread = 4
	}
	factor := c.UpsampleFactor()
	n := factor * factor * c.Height * c.Width * c.In
	mapped := b.scratch(&b.images.input, c.Batch*n*numberBytes[precision])
	const threads = 256
	g := grid{x: ceilDiv(n, threads*numbersPerThread), y: c.Batch}
	b.begin(convInputKernels[precision], g, threads, 0).
		pointer(mapped).pointer(c.x).pointer(c.scale).pointer(c.shift).
		int(c.Height).int(c.Width).int(c.In).int(factor).int(flagOf(c.silu)).end()
	return mapped
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (b *Backend) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	if s.Batch == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	pixels := s.Batch * s.OutHeight() * s.OutWidth()
	b.begin(poolKernel, grid{x: pixels}, min(roundUp(s.In, 32), 256), 0).
		tensor(dst).tensor(x).ints(b.images.describeWindows(s)).int(flagOf(kind == backend.Max)).end()
	keepAlive(dst, x)
}
