package backend

// Grouped is a Backend that says how many rows of activations it wants at once to be limited by
// arithmetic alone.
type Grouped interface {
	GroupRows() int
}

// processorRows is that of a processor: the weights are read from memory once for so many rows.
const processorRows = 2048

// GroupRows is about how many rows should go through a network at once on b. More would only take more
// working memory.
func GroupRows(b Backend) int {
	if g, ok := b.(Grouped); ok {
		return g.GroupRows()
	}
	return processorRows
}

// Roomy is a Backend with memory of its own, of which there may be too little.
type Roomy interface {
	MemoryFree() (free, total int, err error) // in bytes
}
