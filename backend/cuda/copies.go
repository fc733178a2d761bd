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
	depths []int // depths of bfloat16 weights: rows of these widths are worth a copy
	list   [8]narrowCopy
	clock  int
	unread unread
}

// narrowCopy is a copy of the first rows of a tensor [*, width].
type narrowCopy struct {
	of, end     devicePtr // memory of the float32 tensor; 0: none
	last        devicePtr // like of, but kept after the copy has ended
	rows, width int
	data        memory
	param       int // index in the list of the address to write the float32 numbers to
	flushes     int // number of the list with that parameter
	used        int // time of the last write or read
}

// narrow reports whether products will read rows of this width as bfloat16.
func (c *copies) narrow(width int) {
	if !slices.Contains(c.depths, width) {
		c.depths = append(c.depths, width)
	}
}

// may reports whether a product could read rows of this width directly from a copy, which has no
// padding.
func (c *copies) may(width int) bool {
	return 2*width%depthPad == 0 && slices.Contains(c.depths, width)
}

// touch ends the copy of the tensor at p.
func (c *copies) touch(p devicePtr) {
	if p >= c.unread.of && p < c.unread.end {
		c.unread = unread{}
	}
	for i := range c.list {
		if e := &c.list[i]; p >= e.of && p < e.end {
			e.of, e.end = 0, 0
		}
	}
}

// find returns the address of the copy of the rows at p, 0 if there is none.
func (c *copies) find(p devicePtr, rows, width int) devicePtr {
	for i := range c.list {
		if e := &c.list[i]; e.of == p && p != 0 && rows <= e.rows && width == e.width {
			c.clock++
			e.used = c.clock
			return e.data.at
		}
	}
	return 0
}

// result passes two addresses to a kernel that overwrites t[:rows]: where to write float32 and
// where bfloat16; either may be 0. It must be called after everything that the kernel reads was
// passed. It makes a copy if one is wanted and products will read rows of this width.
func (c *call) result(t *tensor.Dense, rows int, narrow bool) *call {
	return c.copied(t, rows, narrow && c.b.copies.may(backend.Width(t)))
}

// copied is result for outputs that products do not read.
func (c *call) copied(t *tensor.Dense, rows int, narrow bool) *call {
	b, p, width := c.b, c.b.address(t), backend.Width(t)
	bytes, whole := b.arena.live[p]
	if !narrow || !whole {
		return c.pointer(p).pointer(0)
	}
	e := b.copies.entry(p)
	data := b.scratch(&e.data, 2*roundUp(rows, rowPad)*width)
	if e.of == p && e.rows <= rows && e.width == width && e.flushes == b.list.flushes {
		b.list.params[e.param] = 0 // nothing has read them, because that would have ended the copy
	}
	b.copies.clock++
	*e = narrowCopy{of: p, last: p, end: p + devicePtr(bytes), rows: rows, width: width, data: e.data,
		param: len(b.list.params), flushes: b.list.flushes, used: b.copies.clock}
	return c.word(uint64(p)).word(uint64(data))
}

// entry returns the entry of p: the current one, or the previous one, so that equal lists have
// equal addresses, or else the least recently used one. The kernel itself cannot be using that one,
// because it has fewer operands than there are entries.
func (c *copies) entry(p devicePtr) *narrowCopy {
	oldest, before := &c.list[0], (*narrowCopy)(nil)
	for i := range c.list {
		e := &c.list[i]
		if e.of == p {
			return e
		}
		if e.of == 0 && e.last == p {
			before = e
		}
		if e.used < oldest.used {
			oldest = e
		}
	}
	if before != nil {
		return before
	}
	return oldest
}
