package amused

import (
	"math"
	"slices"

	"unmask/backend"
	"unmask/nn"
)

// convolveDepthwise sets work.h [cells, width] to the 3x3 convolution of each channel of work.x,
// with zero padding, as a sum of nine shifted images: devices have no kernel for a convolution of
// single channels. A partial pass takes cells that it does not compute from the cache.
func (m *Model) convolveDepthwise(r *resBlock, block int) {
	w := &m.w
	c := &m.cfg
	b := m.b
	n := w.rows.Len()
	grid := c.cellGrid()
	cells := grid * grid

	// around is the input with all cells of each sequence, and a row of zeros [cells+1, width].
	if w.cache != nil {
		b.Scatter(reshapeRows(w.cache.States[2*block], c.Width), w.x, w.states)
	}
	if w.partial {
		var states []int32
		for _, s := range w.rows.Segs {
			for cell := range cells {
				states = append(states, int32(s.Seq*cells+cell))
			}
		}
		b.Gather(w.around, reshapeRows(w.cache.States[2*block], c.Width), states)
	} else {
		b.Gather(w.around, w.x, nn.RowRange(0, n)) // all cells in order
	}

	neighbours := slices.Repeat([]int32{w.zero}, n)
	segs := []backend.Segment{{Rows: n}}
	b.Gather(w.h, w.around, neighbours) // zeros [cells, width]
	for tap := range 9 {
		dy := tap/3 - 1
		dx := tap%3 - 1
		for i, groupCell := range w.cells {
			cell := int(groupCell) % cells
			y := cell/grid + dy
			x := cell%grid + dx
			neighbours[i] = w.zero
			if y >= 0 && x >= 0 && y < grid && x < grid {
				neighbours[i] = groupCell + int32(dy*grid+dx)
			}
		}
		b.Gather(w.t, w.around, neighbours) // [cells, width]
		segs[0].Seq = tap
		b.GateAdd(w.h, w.t, r.taps, segs) // h += t * the tap's weights [width]
	}
}

// applyResponseNorm applies the response norm to w.inner: each channel is multiplied by 1 + gamma
// times its share, and beta is added. The share is the channel's length over all cells divided by
// the mean length of all channels (Woo et al. 2023, "ConvNeXt V2", global response normalization).
func (m *Model) applyResponseNorm(r *resBlock, block int) {
	w := &m.w
	b := m.b
	n := len(w.seqs)
	if w.partial {
		var places []int32
		for _, s := range w.rows.Segs {
			places = append(places, int32(s.Seq))
		}
		b.Gather(w.share, w.cache.States[2*block+1], places)
	} else {
		m.computeShares(r, block)
	}
	b.Gather(w.shift, r.beta, make([]int32, n))
	b.Modulate(w.inner, w.share, w.shift, w.segs)
}

// computeShares sets w.share to gamma times each channel's share, one row for each sequence of a
// full pass.
func (m *Model) computeShares(r *resBlock, block int) {
	w := &m.w
	c := &m.cfg
	b := m.b
	width := 4 * c.Width
	cells := c.cellGrid() * c.cellGrid()

	// A group norm with one channel per group gives each channel's mean and variance, from which the
	// length follows: no kernel of its own is needed.
	const tiny = 1e-12
	b.GroupNorm(w.scale, w.shift, w.inner, len(w.seqs), cells, width, width, backend.Norm{Eps: tiny})
	for i := range w.host {
		if len(w.host[i]) < width {
			w.host[i] = make([]float32, width)
		}
	}
	scale := w.host[0][:width]
	shift := w.host[1][:width]
	share := w.host[2][:width]
	for i := range w.seqs {
		b.Read(scale, w.scale, i)
		b.Read(shift, w.shift, i)
		sum := 0.0
		for j := range share {
			inverse := 1 / float64(scale[j])
			mean := -float64(shift[j]) * inverse
			length := math.Sqrt((max(0, inverse*inverse-tiny) + mean*mean) * float64(cells))
			share[j] = float32(length)
			sum += length
		}
		meanLength := sum/float64(width) + 1e-6
		for j := range share {
			share[j] = float32(float64(r.gamma[j]) * float64(share[j]) / meanLength)
		}
		b.Write(w.share, i, share)
		if w.cache != nil {
			b.Write(w.cache.States[2*block+1], w.rows.Segs[i].Seq, share)
		}
	}
}
