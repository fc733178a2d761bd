package model

import "unmask/backend"

// Sized is a Denoiser that says how many sequences fit into its device's memory at once, 0 where
// that is no concern, as on a processor. Cached runs keep keys and values of all layers.
type Sized interface {
	Fit(length int, cached bool) int
}

// fullPasses bounds the groups of rows of a batch where memory allows more: beyond a few
// the device is not faster.
const fullPasses = 4

// Fit returns how many sequences of length fit into the memory that is free on b: `sequence` bytes
// each and `row` bytes for each row of a group that goes through the network at once. At least 1:
// if one does not fit, the allocation fails.
func Fit(b backend.Backend, length, sequence, row int) int {
	r, ok := b.(backend.Roomy)
	if !ok {
		return 0
	}
	free, _, err := r.MemoryFree()
	if err != nil {
		return 1 // the first allocation has the error
	}
	rows := max(backend.GroupRows(b), length)
	const eighths = 7 // of what is free; the rest is for heads, arguments and other programs
	fit := (free/8*eighths - rows*row) / sequence
	return min(max(fit, 1), max(fullPasses*rows/length, 1))
}
