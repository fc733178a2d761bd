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
	b             *Backend
	s             backend.ConvShape
	x             []float32
	scale, shift  []float32
	silu          bool
	height, width int // of the result
	across        int // pixels of dst from a row of the result to the next
	above, left   int // zero rows and columns before the image
	stride        int
	pitch         int // values of a prepared row
	rows          int // of a band
	tall          int // rows of a strip
	strips        int // of an image
	words         int // about how many prepared values a band has that the one before had not
	inPlace       bool
	stripOf       func(worker, i int)
	direct        rowSource
}

func (c *conv) init(b *Backend) {
	c.b = b
	c.words = bandWords
	c.stripOf = c.strip
}

const (
	bandWords = 1 << 17 // half a megabyte, so that a band stays in the second-level cache
	stripRows = 8       // of a strip where there are enough rows for all threads
)

// Conv is a convolution in NHWC, without a buffer of windows.
func (b *Backend) Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConv(dst, x, s, w, in, e)
	b.mu.Lock()
	defer b.done()
	if s.Batch == 0 {
		return
	}
	stride, offset := backend.ConvTarget(s)
	c, p, m := &b.conv, &b.product, filter(w)
	p.target(dst.Float32s()[offset:], stride, e)
	c.read(x, s, in)
	c.height, c.width, c.stride = s.OutHeight(), s.OutWidth(), max(s.Stride, 1)
	c.across, c.above, c.left = c.width, s.PadH, s.PadW
	c.pitch = (c.s.UpsampleFactor()*s.Width + 2*s.PadW) * s.In
	if c.plain() {
		c.direct = rowSource{c.x, s.In, s.In}
		p.run(&c.direct, s.Batch*c.height*c.width, m)
	} else {
		c.run(p, m)
	}
	c.x, c.scale, c.shift = nil, nil, nil
	runtime.KeepAlive(in)
}

// ConvDoubled computes four convolutions with 2x2 windows. Each gives every second pixel of every
// second row of dst.
func (b *Backend) ConvDoubled(dst, x *tensor.Dense, s backend.ConvShape, w *[4]backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConvDoubled(dst, x, s, w, in, e)
	b.mu.Lock()
	defer b.done()
	if s.Batch == 0 {
		return
	}
	stride, offset := backend.ConvTarget(s)
	c, p := &b.conv, &b.product
	s.Upsample, s.KH, s.KW = false, 2, 2
	c.read(x, s, in)
	c.height, c.width, c.stride = s.Height, s.Width, 1
	c.across = 2 * s.Width // of pairs of pixels: two rows of dst
	c.pitch = (s.Width + 1) * s.In
	for phase, m := range w {
		y, x := phase/2, phase%2
		c.above, c.left = 1-y, 1-x
		p.target(dst.Float32s()[offset+(2*y*s.Width+x)*stride:], 2*stride, e)
		c.run(p, filter(m))
	}
	c.x, c.scale, c.shift = nil, nil, nil
	runtime.KeepAlive(in)
}

// filter returns the weights of a convolution.
func filter(w backend.Matrix) *matrix {
	m := w.(*matrix)
	if m.as == backend.Blocks {
		panic("Conv: weights in block formats are for Linear and heads")
	}
	return m
}

// read takes the input.
func (c *conv) read(x *tensor.Dense, s backend.ConvShape, in backend.ConvInput) {
	c.s, c.x, c.scale, c.shift, c.silu = s, x.Float32s(), data(in.Scale), data(in.Shift), in.SiLU
}

// plain reports whether the windows are runs of memory at equal distances: single pixels, or those
// along the only row of an image.
func (c *conv) plain() bool {
	s := &c.s
	return s.KH == 1 && (s.KW == 1 || s.Batch*s.Height == 1) && c.stride == 1 && s.PadH == 0 &&
		s.PadW == 0 && !s.Upsample && c.scale == nil && !c.silu
}

func (c *conv) run(p *product, m *matrix) {
	p.prepare(nil, m)
	rows, threads := c.s.Batch*c.height, c.b.pool.Threads()
	c.tall = min(c.height, max(1, rows/(itemsEach*threads), min(stripRows, rows/(2*threads))))
	c.strips = (c.height + c.tall - 1) / c.tall
	c.rows = max(1, min(c.words/(c.pitch*c.stride), c.tall))
	c.inPlace = c.windowed(m)
	p.items = 1
	c.b.pool.For(c.s.Batch*c.strips, c.stripOf)
	p.w, p.dst, p.bias = nil, nil, nil
	runtime.KeepAlive(m)
}

// strip computes the strip i of the batch. Rows that a band shares with the next one stay.
func (c *conv) strip(worker, i int) {
	w, k := &c.b.workers[worker], c.b.product.w.k
	image, top := i/c.strips, i%c.strips*c.tall
	end, kept := min(top+c.tall, c.height), 0
	rows := w.band.get(((c.rows-1)*c.stride+c.s.KH)*c.pitch + k.Rows*c.s.In)
	for ; top < end; top += c.rows {
		bottom := min(top+c.rows, end)
		n := (bottom-top-1)*c.stride + c.s.KH
		for r := kept; r < n; r++ {
			c.prepare(rows[r*c.pitch:(r+1)*c.pitch], image, top*c.stride+r-c.above)
		}
		if c.inPlace {
			c.windows(w, rows, image*c.height+top, bottom-top)
		} else {
			c.packed(w, rows, image*c.height+top, bottom-top)
		}
		kept = max(0, c.s.KH-c.stride)
		copy(rows, rows[(n-kept)*c.pitch:n*c.pitch])
	}
}

// packed computes rows of the result from packed windows. `above` is the number of the batch's rows
// before them.
func (c *conv) packed(w *worker, rows []float32, above, n int) {
	p := &c.b.product
	pixels := n * c.width
	for first := 0; first < pixels; first += p.block {
		count := min(p.block, pixels-first)
		a := p.w.operand(count, &w.a)
		c.pack(p.w, a, w, rows, first, count)
		for j := range p.w.panels() {
			c.put(p.tile(w, a, count, j), above, first, count, c.width, j)
		}
	}
}

// put stores the tile of panel j and `count` pixels of a band, from pixel first on. The band's rows
// are `wide` pixels apart; the result has the first c.width of each.
func (c *conv) put(tile []float32, above, first, count, wide, j int) {
	p := &c.b.product
	if wide == c.width && wide == c.across { // the pixels are in one piece
		p.put(tile, above*wide+first, count, j)
		return
	}
	k := p.w.k
	for at, end := first, first+count; at < end; {
		y, x := at/wide, at%wide
		if n := min(end-at, c.width-x); n > 0 {
			p.put(tile[(at-first)*k.Columns:][:n*k.Columns], (above+y)*c.across+x, n, j)
		}
		at += min(end-at, wide-x)
	}
}

// prepare writes row y of the enlarged image with its margins; rows outside the image are zero.
func (c *conv) prepare(dst []float32, image, y int) {
	s, up := &c.s, c.s.UpsampleFactor()
	if y < 0 || y >= up*s.Height {
		clear(dst)
		return
	}
	from, to := c.left*s.In, (c.left+up*s.Width)*s.In
	clear(dst[:from])
	clear(dst[to:])
	inside := dst[from:to]
	src := c.x[(image*s.Height+y/up)*s.Width*s.In:][:s.Width*s.In]
	// the enlarged pixels are then spread from here to the left
	mapped := inside[len(inside)-len(src):]
	if c.scale != nil {
		c.b.ops.Affine(mapped, src, c.scale[image*s.In:][:s.In], c.shift[image*s.In:][:s.In])
	} else {
		copy(mapped, src)
	}
	if c.silu {
		c.b.ops.SiLU(mapped, mapped)
	}
	if s.Upsample {
		for x := range s.Width {
			pixel := mapped[x*s.In:][:s.In]
			copy(inside[2*x*s.In:], pixel)
			copy(inside[(2*x+1)*s.In:], pixel)
		}
	}
}

// pack packs the windows of `count` pixels of a band, from pixel first on.
func (c *conv) pack(m *matrix, a operand, w *worker, rows []float32, first, count int) {
	k, s := m.k, &c.s
	run := s.KW * s.In
	aligned := run%k.Values() == 0 && !k.Quantised()
	for row := 0; row < count; {
		h := k.Panel(count - row)
		for r := range h {
			pixel := first + row + r
			at := pixel/c.width*c.stride*c.pitch + pixel%c.width*c.stride*s.In
			dst := a.data[4*(row*m.lines+r):]
			if aligned {
				for t := range s.KH {
					k.PackRun(dst[t*(run/k.Values())*4*h:], 4*h, rows[at+t*c.pitch:][:run], 0)
				}
				continue
			}
			whole, inverse := w.row.get(m.in), float32(0)
			for t := range s.KH {
				copy(whole[t*run:], rows[at+t*c.pitch:][:run])
			}
			if k.Quantised() {
				a.scale[row+r], inverse = k.Levels(whole)
			}
			k.PackRun(dst, 4*h, whole, inverse)
		}
		row += h
	}
}

// windowed reports whether the kernel can read windows where they stand. It then takes the
// margins between two rows of a band for pixels too, so that all pixels are equally far apart;
// packing costs less than that where rows are short and outputs many.
func (c *conv) windowed(m *matrix) bool {
	s := &c.s
	return m.k.ReadsWindows(s.KW*s.In) && c.stride == 1 && (s.KW-1)*s.Out <= worthWaste*c.width
}

// worthWaste is about what share of its work a kernel spends on packing, times its outputs.
const worthWaste = 12

// windows computes rows of the result from the band. `above` is the number of the batch's rows
// before them.
func (c *conv) windows(w *worker, rows []float32, above, n int) {
	p, s := &c.b.product, &c.s
	k, wide := p.w.k, c.pitch/s.In
	tile := w.tile.get(k.Rows * k.Columns)
	for j := range p.w.panels() {
		panel := p.w.panel(j)
		for first := 0; first < (n-1)*wide+c.width; first += k.Rows {
			k.Windows(tile, rows[first*s.In:], panel, s.In, s.KW*s.In, s.KH, c.pitch)
			count := min(k.Rows, n*wide-first)
			c.put(tile[:count*k.Columns], above, first, count, wide, j)
		}
	}
}
