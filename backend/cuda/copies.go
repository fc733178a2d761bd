//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// copies are activations in bfloat16 that the kernels that made them wrote beside the float32
// numbers, so that whatever multiplies them need not round them first. Where the list overwrites
// the float32 numbers before anything has read them, which is the rule, they are not written at
// all.
//
// Whatever else passes an address of the tensor to a kernel ends its copy.
type copies struct {
	depths []int // of bfloat16 weights: what rows are worth a copy
	list   [8]narrowCopy
	clock  int
	unread unread
}

// narrowCopy are the first rows of a tensor [*, width], one after another.
type narrowCopy struct {
	of, end     devicePtr // the float32 tensor's memory; 0 is none
	last        devicePtr // of, also after the copy's end
	rows, width int
	data        memory
	param       int // where the list has the address to write the float32 numbers to
	flushes     int // the list that has it
	used        int // when it was last made or read
}

// narrow says that products will read rows of this width as bfloat16.
func (c *copies) narrow(width int) {
	if !slices.Contains(c.depths, width) {
		c.depths = append(c.depths, width)
	}
}

// may says whether a product would read rows of this width as they are in a copy, which has no
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

// find returns the copy of rows at p, 0 for none.
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

// result passes two addresses to a kernel that overwrites t[:rows]: where to write float32, and
// where bfloat16, either of which may be 0. It comes after all that the kernel reads. There is a
// copy if it is wanted, and products will read rows of that width.
func (c *call) result(t *tensor.Dense, rows int, narrow bool) *call {
	return c.copied(t, rows, narrow && c.b.copies.may(backend.Width(t)))
}

// copied is result for all that is not read by products.
func (c *call) copied(t *tensor.Dense, rows int, narrow bool) *call {
	b, p, width := c.b, c.b.address(t), backend.Width(t)
	bytes, whole := b.arena.live[p]
	if !narrow || !whole {
		return c.pointer(p).pointer(0)
	}
	e := b.copies.entry(p)
	data := b.scratch(&e.data, 2*roundUp(rows, rowPad)*width)
	if e.of == p && e.rows <= rows && e.width == width && e.flushes == b.list.flushes {
		b.list.params[e.param] = 0 // nothing has read them: that would have ended the copy
	}
	b.copies.clock++
	*e = narrowCopy{of: p, last: p, end: p + devicePtr(bytes), rows: rows, width: width, data: e.data,
		param: len(b.list.params), flushes: b.list.flushes, used: b.copies.clock}
	return c.word(uint64(p)).word(uint64(data))
}

// entry is that of p, or the one that was, so that equal lists have equal addresses; or else the
// one not used for longest, which is none that the same kernel reads or writes: those are fewer.
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
