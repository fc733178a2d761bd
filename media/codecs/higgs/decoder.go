package higgs

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// The rows of the sound lie in the order of time. A convolution reads its windows of a copy that
// Snake makes: with zeros around it and, for a dilated one, in the order of phases, so that the
// rows under a window are neighbours.

// dilations are those of a block's units.
var dilations = [3]int{1, 3, 9}

const (
	taps = 7        // of a wide convolution
	side = taps / 2 // rows before and after the one that it computes
)

// soundSpan is where the sound is in workspace.x.
type soundSpan struct {
	first int // the first row
	n     int // rows
	all   int // rows with those before and after, which have no meaning

	// before and after are how many of the n rows lie outside the window that is wanted.
	before, after int
}

// within returns the sound of the window and at most reach rows on each side: what follows depends
// on no more.
func (s soundSpan) within(reach int) soundSpan {
	cutBefore := max(0, s.before-reach)
	cutAfter := max(0, s.after-reach)
	s.first += cutBefore
	s.n -= cutBefore + cutAfter
	s.before -= cutBefore
	s.after -= cutAfter
	return s
}

// resize makes room for a window of frames.
func (c *Codec) resize(frames int) {
	w := &c.w
	b := c.b
	if w.frames >= frames {
		return
	}
	channels := c.In.in
	w.frames = frames
	w.code = b.New(frames, c.Quantizers[0].Embed.Shape[1])
	w.sum = b.New(frames, c.Narrow.Weight.Shape[1])
	w.latent = b.New(frames+1, channels)
	w.padded = b.New(frames+2*side, channels)

	// The largest that each of the buffers x, h and y holds in some block.
	n := frames // rows of the block's input
	x := frames * c.In.out
	h := 0
	y := 0
	for i := range c.Blocks {
		k := &c.Blocks[i]
		h = max(h, (n+2)*k.Up.in)
		up := (n + 1) * k.Up.out
		n *= k.ratio
		longest := n + dilations[2]*(side+1) + side // with the zeros around each phase
		x = max(x, up)
		y = max(y, up, longest*k.Unit1.Wide.out)
		h = max(h, longest*k.Unit1.Wide.in)
	}
	x = max(x, y) // they are swapped
	w.x = b.New(1, x)
	w.h = b.New(1, h)
	w.y = b.New(1, x)
	w.sound = make([]float32, frames*c.frame)
}

// drawSound leaves the sound of codes [frames, codebooks] in workspace.y, without that of so many
// frames before and after the window, and returns where it begins.
func (c *Codec) drawSound(codes []int32, framesBefore, framesAfter int) int {
	w := &c.w
	b := c.b
	frames := len(codes) / c.Codebooks()

	// the sum of the codebooks' latents
	for i := range c.Quantizers {
		q := &c.Quantizers[i]
		w.indexes = w.indexes[:0]
		for f := range frames {
			w.indexes = append(w.indexes, codes[f*len(c.Quantizers)+i])
		}
		b.Gather(w.code, q.table, w.indexes) // [frames, width]
		if i == 0 {
			q.Out.Apply(b, w.sum, w.code, frames, backend.Identity) // [frames, wide]
		} else {
			q.Out.AddTo(b, w.sum, w.code, frames)
		}
	}
	c.Narrow.Apply(b, w.latent, w.sum, frames, backend.Identity) // [frames, channels]

	// the first convolution, over the latents with zeros around them
	w.indexes = appendRange(w.startPadding(side, int32(w.frames)), 0, frames)
	w.indexes = append(w.indexes, w.indexes[:side]...)
	b.Gather(w.padded, w.latent, w.indexes) // [frames+6, channels]
	c.convolve(&c.In, w.x, w.padded, len(w.indexes), false)

	s := soundSpan{first: 0, n: frames, all: frames, before: framesBefore, after: framesAfter}
	for i := range c.Blocks {
		s = c.runBlock(&c.Blocks[i], s)
	}
	s = s.within(side)
	c.convolve(&c.Out, w.y, c.activate(s, 1, &c.Snake), s.n+2*side, false) // [n, 1]
	return s.before
}

// startPadding returns a list of n equal indexes, in the memory of indexes.
func (w *workspace) startPadding(n int, index int32) []int32 {
	w.indexes = w.indexes[:0]
	for range n {
		w.indexes = append(w.indexes, index)
	}
	return w.indexes
}

// appendRange appends n indexes from first on.
func appendRange(list []int32, first, n int) []int32 {
	for i := range n {
		list = append(list, int32(first+i))
	}
	return list
}

// convolve computes dst from the windows of n rows of x [n, in].
func (c *Codec) convolve(v *conv, dst, x *tensor.Dense, n int, add bool) {
	s := backend.ConvShape{Batch: 1, Height: 1, Width: n, In: v.in, Out: v.out, KH: 1, KW: v.taps}
	c.b.Conv(dst, x, s, v.w, backend.ConvInput{}, backend.Epilogue{Bias: v.b, Add: add})
}

// activate copies the sound through an activation to workspace.h, by phases of a dilation, with
// zeros around each.
func (c *Codec) activate(s soundSpan, dilation int, a *snake) *tensor.Dense {
	w := &c.w
	indexes := w.startPadding(side, -1)
	phaseRows := rowsPerPhase(s.n, dilation)
	for phase := range dilation {
		for i := range phaseRows {
			row := int32(-1) // a row of zeros
			if t := i*dilation + phase; t < s.n {
				row = int32(s.first + t)
			}
			indexes = append(indexes, row)
		}
		indexes = append(indexes, -1, -1, -1)
	}
	w.indexes = indexes
	c.b.Snake(w.h, w.x, indexes, a.alpha)
	return w.h
}

// rowsPerPhase returns the rows of a phase of n rows; the last phases may have zeros for some.
func rowsPerPhase(n, dilation int) int { return (n + dilation - 1) / dilation }

// runBlock applies a block to the sound, which makes it longer, and returns where its result is.
func (c *Codec) runBlock(k *block, s soundSpan) soundSpan {
	w := &c.w
	s = s.within(k.reach)
	w.indexes = append(appendRange(w.startPadding(1, -1), s.first, s.n), -1)
	c.b.Snake(w.h, w.x, w.indexes, k.Snake.alpha) // [n+2, channels]
	c.convolve(&k.Up, w.y, w.h, s.n+2, false)     // [n+1, ratio*channels/2]
	w.x, w.y = w.y, w.x
	s = soundSpan{
		first:  (k.ratio + 1) / 2,
		n:      s.n * k.ratio,
		all:    (s.n + 1) * k.ratio,
		before: s.before * k.ratio,
		after:  s.after * k.ratio,
	}
	for i, u := range k.residualUnits() {
		c.addUnit(u, s, dilations[i])
	}
	return s
}

// addUnit adds a unit of the sound to it.
func (c *Codec) addUnit(u *unit, s soundSpan, dilation int) {
	w := &c.w
	phaseRows := rowsPerPhase(s.n, dilation)
	c.activate(s, dilation, &u.Snake1)
	c.convolve(&u.Wide, w.y, w.h, dilation*(phaseRows+side)+side, false)

	// back from the order of phases to that of time
	indexes := w.startPadding(s.first, -1)
	for t := range s.n {
		indexes = append(indexes, int32(t%dilation*(phaseRows+side)+t/dilation))
	}
	for len(indexes) < s.all {
		indexes = append(indexes, -1)
	}
	w.indexes = indexes
	c.b.Snake(w.h, w.y, indexes, u.Snake2.alpha)
	c.convolve(&u.Narrow, w.x, w.h, s.all, true)
}
