package backend

import "gorgonia.org/tensor"

// Grouped is a Backend that says how many rows of activations it needs at once for arithmetic alone
// to limit it.
type Grouped interface {
	GroupRows() int
}

// processorRows is the rows of a group on a CPU: enough to amortise reading the weights once.
const processorRows = 2048

// GroupRows returns about how many rows should go through a network at once on b. More rows would
// only take more working memory.
func GroupRows(b Backend) int {
	if g, ok := b.(Grouped); ok {
		return g.GroupRows()
	}
	return processorRows
}

// Sender is a Backend that records calls until something is read.
type Sender interface {
	Send()
}

// Send has b start the calls recorded so far, without waiting. Use it where the calls before are
// the same in every step of a run and those after are not: such a device recognises what was sent
// as a whole.
func Send(b Backend) {
	if s, ok := b.(Sender); ok {
		s.Send()
	}
}

// Roomy is a Backend with limited memory of its own.
type Roomy interface {
	MemoryFree() (free, total int, err error) // in bytes
}

// HeadLimited is a Backend whose Attention supports heads only up to a certain width.
type HeadLimited interface {
	MaxHeadDim() int
}

// Grow returns t, or a new tensor when it has fewer than `rows` rows.
func Grow(b Backend, t *tensor.Dense, rows, width int) *tensor.Dense {
	if t == nil || t.Shape()[0] < rows {
		return b.New(rows, width)
	}
	return t
}
