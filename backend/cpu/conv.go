package cpu

import (
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// conv is a convolution as a matrix product whose left factor, the windows of the images, is never
// stored as a whole.
//
// An item is a strip of the result, which a worker computes in bands of a few rows. It first
// prepares the rows of x below a band: mapped, activated, enlarged and with their zero margins,
// once for all the windows that share a pixel. A window is then a run of memory for each of its
// rows: the kernel reads it there, or it is packed from there.
type conv struct {
	backend *Backend

	// the arguments of the call
	shape        backend.ConvShape
	x            []float32
	scale, shift []float32 // [batch, in], nil for none
	silu         bool

	// height and width are those of the result, dstWidth the pixels of dst from a row of the result
	// to the next.
	height, width int
	dstWidth      int

	// above and left are the zero rows and columns before the image.
	above, left int

	stride int

	// pitch is the number of values of a prepared row.
	pitch int

	// bandRows are the result's rows of a band, stripHeight those of a strip.
	bandRows       int
	stripHeight    int
	stripsPerImage int

	// targetWords is about how many prepared values a band has that the one before had not. Tests
	// make it small.
	targetWords int

	// inPlace says that the kernel reads windows where they stand.
	inPlace bool

	// direct is x as the left factor, where windows are rows of it.
	direct rowSource

	// computeStripFunc is computeStrip, made once because a method value allocates.
	computeStripFunc func(worker, i int)
}

func (c *conv) init(b *Backend) {
	c.backend = b
	c.targetWords = bandWords
	c.computeStripFunc = c.computeStrip
}

const (
	// bandWords is half a megabyte, so that a band stays in the second-level cache.
	bandWords = 1 << 17

	// stripRows are the rows of a strip where there are enough rows for all threads.
	stripRows = 8
)

// Conv is a convolution in NHWC, without a buffer of windows.
func (b *Backend) Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConv(dst, x, s, w, in, e)
	b.mu.Lock()
	defer b.finishCall()
	if s.Batch == 0 {
		return
	}

	stride, offset := backend.ConvTarget(s)
	c := &b.conv
	p := &b.product
	m := filterOf(w)
	p.setTarget(dst.Float32s()[offset:], stride, e)
	c.setInput(x, s, in)
	c.height = s.OutHeight()
	c.width = s.OutWidth()
	c.stride = max(s.Stride, 1)
	c.dstWidth = c.width
	c.above = s.PadH
	c.left = s.PadW
	c.pitch = (c.shape.UpsampleFactor()*s.Width + 2*s.PadW) * s.In
	if c.isProduct() {
		c.direct = rowSource{c.x, s.In, s.In}
		p.run(&c.direct, s.Batch*c.height*c.width, m)
	} else {
		c.runStrips(p, m)
	}
	c.dropInput()
	runtime.KeepAlive(in)
}

// ConvDoubled computes four convolutions with 2x2 windows. Each gives every second pixel of every
// second row of dst.
func (b *Backend) ConvDoubled(dst, x *tensor.Dense, s backend.ConvShape, w *[4]backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConvDoubled(dst, x, s, w, in, e)
	b.mu.Lock()
	defer b.finishCall()
	if s.Batch == 0 {
		return
	}

	stride, offset := backend.ConvTarget(s)
	c := &b.conv
	p := &b.product
	s.Upsample = false
	s.KH = 2
	s.KW = 2
	c.setInput(x, s, in)
	c.height = s.Height
	c.width = s.Width
	c.stride = 1
	c.dstWidth = 2 * s.Width // in pairs of pixels: a row of the result is every second one of dst
	c.pitch = (s.Width + 1) * s.In
	for phase, m := range w {
		y := phase / 2
		x := phase % 2
		c.above = 1 - y
		c.left = 1 - x
		p.setTarget(dst.Float32s()[offset+(2*y*s.Width+x)*stride:], 2*stride, e)
		c.runStrips(p, filterOf(m))
	}
	c.dropInput()
	runtime.KeepAlive(in)
}

// filterOf returns the weights of a convolution.
func filterOf(w backend.Matrix) *matrix {
	m := w.(*matrix)
	if m.precision == backend.Blocks {
		panic("Conv: weights in block formats are for Linear and heads")
	}
	return m
}

// setInput stores the shape and the input of a call.
func (c *conv) setInput(x *tensor.Dense, s backend.ConvShape, in backend.ConvInput) {
	c.shape = s
	c.x = x.Float32s()
	c.scale = data(in.Scale)
	c.shift = data(in.Shift)
	c.silu = in.SiLU
}

// dropInput forgets the input, so that the backend does not keep its tensors alive.
func (c *conv) dropInput() {
	c.x = nil
	c.scale = nil
	c.shift = nil
}

// isProduct reports whether the windows are runs of memory at equal distances: single pixels, or
// those along the only row of an image. Then x itself is the left factor of a product.
func (c *conv) isProduct() bool {
	s := &c.shape
	return s.KH == 1 && (s.KW == 1 || s.Batch*s.Height == 1) && c.stride == 1 && s.PadH == 0 &&
		s.PadW == 0 && !s.Upsample && c.scale == nil && !c.silu
}

// runStrips computes the result strip by strip. Strips are as high as an even share among threads
// allows, because the rows above a strip are prepared a second time for it.
func (c *conv) runStrips(p *product, m *matrix) {
	p.setFactors(nil, m)
	rows := c.shape.Batch * c.height
	threads := c.backend.pool.Threads()
	c.stripHeight = min(c.height, max(1, rows/(itemsEach*threads), min(stripRows, rows/(2*threads))))
	c.stripsPerImage = (c.height + c.stripHeight - 1) / c.stripHeight
	c.bandRows = max(1, min(c.targetWords/(c.pitch*c.stride), c.stripHeight))
	c.inPlace = c.canReadWindows(m)
	p.panelRanges = 1
	c.backend.pool.For(c.shape.Batch*c.stripsPerImage, c.computeStripFunc)

	p.weights = nil
	p.dst = nil
	p.bias = nil
	runtime.KeepAlive(m)
}

// computeStrip computes strip i of the batch. Prepared rows that a band shares with the next one
// are moved to the next one's beginning.
func (c *conv) computeStrip(worker, i int) {
	w := &c.backend.workers[worker]
	k := c.backend.product.weights.kernel
	image := i / c.stripsPerImage
	top := i % c.stripsPerImage * c.stripHeight
	end := min(top+c.stripHeight, c.height)
	shared := 0 // prepared rows that the band before has left
	rows := w.band.get(((c.bandRows-1)*c.stride+c.shape.KH)*c.pitch + k.Rows*c.shape.In)
	for ; top < end; top += c.bandRows {
		bottom := min(top+c.bandRows, end)
		n := (bottom-top-1)*c.stride + c.shape.KH
		for r := shared; r < n; r++ {
			c.prepareRow(rows[r*c.pitch:(r+1)*c.pitch], image, top*c.stride+r-c.above)
		}
		if c.inPlace {
			c.computeInPlace(w, rows, image*c.height+top, bottom-top)
		} else {
			c.computePacked(w, rows, image*c.height+top, bottom-top)
		}
		shared = max(0, c.shape.KH-c.stride)
		copy(rows, rows[(n-shared)*c.pitch:n*c.pitch])
	}
}

// computePacked computes n rows of the result from packed windows. `above` is the number of the
// batch's rows before them.
func (c *conv) computePacked(w *worker, rows []float32, above, n int) {
	p := &c.backend.product
	pixels := n * c.width
	for first := 0; first < pixels; first += p.blockRows {
		count := min(p.blockRows, pixels-first)
		a := p.weights.newOperand(count, &w.operand)
		c.packWindows(p.weights, a, w, rows, first, count)
		for j := range p.weights.panelCount() {
			c.storeTile(p.computeTile(w, a, count, j), above, first, count, c.width, j)
		}
	}
}

// storeTile stores the tile of panel j and `count` pixels of a band, from pixel first on. The
// band's rows are `pitch` pixels apart; the result has the first c.width of each.
func (c *conv) storeTile(tile []float32, above, first, count, pitch, j int) {
	p := &c.backend.product
	if pitch == c.width && pitch == c.dstWidth { // the pixels are in one piece
		p.storeTile(tile, above*pitch+first, count, j)
		return
	}
	columns := p.weights.kernel.Columns
	end := first + count
	for pixel := first; pixel < end; {
		y := pixel / pitch
		x := pixel % pitch
		n := min(end-pixel, c.width-x)
		if n > 0 {
			p.storeTile(tile[(pixel-first)*columns:][:n*columns], (above+y)*c.dstWidth+x, n, j)
		}
		pixel += min(end-pixel, pitch-x)
	}
}

// prepareRow writes row y of the enlarged image with its margins; rows outside the image are zero.
func (c *conv) prepareRow(dst []float32, image, y int) {
	s := &c.shape
	factor := c.shape.UpsampleFactor()
	if y < 0 || y >= factor*s.Height {
		clear(dst)
		return
	}
	begin := c.left * s.In
	end := (c.left + factor*s.Width) * s.In
	clear(dst[:begin])
	clear(dst[end:])
	inside := dst[begin:end]
	src := c.x[(image*s.Height+y/factor)*s.Width*s.In:][:s.Width*s.In]

	// The pixels are mapped at the right end and then doubled from the left on, so that no pixel is
	// overwritten before it was read.
	mapped := inside[len(inside)-len(src):]
	if c.scale != nil {
		c.backend.ops.Affine(mapped, src, c.scale[image*s.In:][:s.In], c.shift[image*s.In:][:s.In])
	} else {
		copy(mapped, src)
	}
	if c.silu {
		c.backend.ops.SiLU(mapped, mapped)
	}
	if s.Upsample {
		for x := range s.Width {
			pixel := mapped[x*s.In:][:s.In]
			copy(inside[2*x*s.In:], pixel)
			copy(inside[(2*x+1)*s.In:], pixel)
		}
	}
}

// packWindows packs the windows of `count` pixels of a band, from pixel first on.
func (c *conv) packWindows(m *matrix, a operand, w *worker, rows []float32, first, count int) {
	k := m.kernel
	s := &c.shape
	run := s.KW * s.In // values of a window in one row
	aligned := run%k.Values() == 0 && !k.Quantised()
	for row := 0; row < count; {
		h := k.Panel(count - row)
		for r := range h {
			pixel := first + row + r
			start := pixel/c.width*c.stride*c.pitch + pixel%c.width*c.stride*s.In
			dst := a.data[4*(row*m.lines+r):]
			if aligned { // every run is whole lines, and can be packed where it stands
				for t := range s.KH {
					k.PackRun(dst[t*(run/k.Values())*4*h:], 4*h, rows[start+t*c.pitch:][:run], 0)
				}
				continue
			}
			window := w.row.get(m.in)
			for t := range s.KH {
				copy(window[t*run:], rows[start+t*c.pitch:][:run])
			}
			inverse := float32(0)
			if k.Quantised() {
				a.scale[row+r], inverse = k.Levels(window)
			}
			k.PackRun(dst, 4*h, window, inverse)
		}
		row += h
	}
}

// canReadWindows reports whether the kernel can read windows where they stand. It then takes the
// margins between two rows of a band for pixels too, so that all pixels are equally far apart;
// packing costs less than that where rows are short and outputs many.
func (c *conv) canReadWindows(m *matrix) bool {
	s := &c.shape
	return m.kernel.ReadsWindows(s.KW*s.In) && c.stride == 1 &&
		(s.KW-1)*s.Out <= worthwhileWaste*c.width
}

// worthwhileWaste is about what share of its work a kernel spends on packing, times its outputs.
const worthwhileWaste = 12

// computeInPlace computes n rows of the result from windows where they stand in the band. `above`
// is the number of the batch's rows before them.
func (c *conv) computeInPlace(w *worker, rows []float32, above, n int) {
	p := &c.backend.product
	s := &c.shape
	k := p.weights.kernel
	pitch := c.pitch / s.In // in pixels
	tile := w.tile.get(k.Rows * k.Columns)
	for j := range p.weights.panelCount() {
		panel := p.weights.panel(j)
		for first := 0; first < (n-1)*pitch+c.width; first += k.Rows {
			k.Windows(tile, rows[first*s.In:], panel, s.In, s.KW*s.In, s.KH, c.pitch)
			count := min(k.Rows, n*pitch-first)
			c.storeTile(tile[:count*k.Columns], above, first, count, pitch, j)
		}
	}
}
