package backend

// Grouped is a Backend that says how many rows of activations it wants at once to be limited by
// arithmetic alone.
type Grouped interface {
	GroupRows() int
}

// processorRows is the rows of a group on a CPU: enough to pay for reading the weights once.
const processorRows = 2048

// GroupRows returns about how many rows should go through a network at once on b. More would only
// take more working memory.
func GroupRows(b Backend) int {
	if g, ok := b.(Grouped); ok {
		return g.GroupRows()
	}
	return processorRows
}

// Sender is a Backend that keeps what it is asked for until something is read.
type Sender interface {
	Send()
}

// Send has b begin with what it was asked for so far, and does not wait. It is for where what came
// before is the same in every step of a run and what follows is not: such a device remembers what
// was sent as a whole.
func Send(b Backend) {
	if s, ok := b.(Sender); ok {
		s.Send()
	}
}

// Roomy is a Backend with limited memory of its own.
type Roomy interface {
	MemoryFree() (free, total int, err error) // in bytes
}

// HeadLimited is a Backend whose Attention takes heads of a bounded width.
type HeadLimited interface {
	MaxHeadDim() int
}
