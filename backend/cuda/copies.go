//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// copies are bfloat16 versions of activations, written by the kernels that compute these in
// addition to the float32 numbers, so that products need not round them first. Usually the float32
// numbers are overwritten before anything reads them; then they are not written at all.
//
// Passing an address of the tensor to a kernel in any other way ends its copy.
type copies struct {
	// depths are the depths of bfloat16 weights: rows of these widths are worth a copy.
	depths []int

	entries [8]narrowCopy

	// clock counts writes and reads of copies.
	clock int

	unread unreadOutput
}

// narrowCopy is a copy of the first rows of a tensor [*, width].
type narrowCopy struct {
	// source and sourceEnd are the memory of the float32 tensor; 0 if the copy has ended.
	source    devicePtr
	sourceEnd devicePtr

	// lastSource is source, and stays after the copy has ended.
	lastSource devicePtr

	rows   int
	width  int
	memory scratchMemory

	// param is the index, in the parameters of list number flushes, of the address to which the
	// float32 numbers are written.
	param   int
	flushes int

	// lastUse is the clock at the last write or read.
	lastUse int
}

// addDepth records that products will read rows of this width as bfloat16.
func (c *copies) addDepth(width int) {
	if !slices.Contains(c.depths, width) {
		c.depths = append(c.depths, width)
	}
}

// wantsCopy reports whether a product could read rows of this width directly from a copy: there are
// such weights, and the width needs no padding, because a copy has none.
func (c *copies) wantsCopy(width int) bool {
	return 2*width%depthPad == 0 && slices.Contains(c.depths, width)
}

// invalidate ends the copy of the tensor at p.
func (c *copies) invalidate(p devicePtr) {
	if p >= c.unread.start && p < c.unread.end {
		c.unread = unreadOutput{}
	}
	for i := range c.entries {
		e := &c.entries[i]
		if p >= e.source && p < e.sourceEnd {
			e.source = 0
			e.sourceEnd = 0
		}
	}
}

// find returns the address of the copy of the rows at p, 0 if there is none.
func (c *copies) find(p devicePtr, rows, width int) devicePtr {
	for i := range c.entries {
		e := &c.entries[i]
		if e.source == p && p != 0 && rows <= e.rows && width == e.width {
			c.clock++
			e.lastUse = c.clock
			return e.memory.address
		}
	}
	return 0
}

// result passes two addresses to a kernel that overwrites t[:rows]: where to write float32 and
// where bfloat16; either may be 0. It must be called after everything that the kernel reads was
// passed. It makes a copy if one is wanted and products will read rows of this width.
func (c *call) result(t *tensor.Dense, rows int, narrow bool) *call {
	return c.outputPair(t, rows, narrow && c.b.copies.wantsCopy(backend.Width(t)))
}

// outputPair is result for outputs that no product but attention reads: whether a copy is wanted
// does not depend on the depths of weights.
func (c *call) outputPair(t *tensor.Dense, rows int, narrow bool) *call {
	b := c.b
	p := b.addressOf(t)
	width := backend.Width(t)
	bytes, isWholeTensor := b.arena.live[p]
	if !narrow || !isWholeTensor {
		return c.pointer(p).pointer(0)
	}

	e := b.copies.entryFor(p)
	data := b.scratch(&e.memory, 2*roundUp(rows, rowPad)*width)
	if e.source == p && e.rows <= rows && e.width == width && e.flushes == b.list.flushes {
		// An earlier command of this list wrote the same float32 numbers, and nothing has read them,
		// because that would have ended the copy: it need not write them.
		b.list.params[e.param] = 0
	}
	b.copies.clock++
	*e = narrowCopy{
		source:     p,
		sourceEnd:  p + devicePtr(bytes),
		lastSource: p,
		rows:       rows,
		width:      width,
		memory:     e.memory,
		param:      len(b.list.params),
		flushes:    b.list.flushes,
		lastUse:    b.copies.clock,
	}
	return c.word(uint64(p)).word(uint64(data))
}

// entryFor returns the entry of p: the current one, or the previous one, so that equal lists have
// equal addresses, or else the least recently used one. The kernel itself cannot be using that one,
// because it has fewer operands than there are entries.
func (c *copies) entryFor(p devicePtr) *narrowCopy {
	oldest := &c.entries[0]
	var previous *narrowCopy
	for i := range c.entries {
		e := &c.entries[i]
		if e.source == p {
			return e
		}
		if e.source == 0 && e.lastSource == p {
			previous = e
		}
		if e.lastUse < oldest.lastUse {
			oldest = e
		}
	}
	if previous != nil {
		return previous
	}
	return oldest
}
