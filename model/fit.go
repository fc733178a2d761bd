package model

import "unmask/backend"

// Sized is a Denoiser that can say how many sequences fit into its device's memory at once; 0 means
// any number, as on a CPU. Cached runs keep keys and values of all layers.
type Sized interface {
	MaxSequences(length int, cached bool) int
}

// fullPasses is the most groups of rows in a batch: beyond a few the device gets no faster, even if
// there is memory.
const fullPasses = 4

// MaxSequences returns how many sequences of `length` positions fit into b's free memory, given
// `sequence` bytes for each sequence and `row` bytes for each row of a group that goes through the
// network at once. It returns at least 1: if one sequence does not fit, the allocation fails.
func MaxSequences(b backend.Backend, length, sequence, row int) int {
	r, ok := b.(backend.MemoryReporter)
	if !ok {
		return 0
	}
	free, _, err := r.MemoryFree()
	if err != nil {
		return 1 // the first allocation reports the error
	}
	// One group of rows is at work at a time, so its memory is taken once; what is left is divided
	// among the sequences.
	rows := max(backend.GroupRows(b), length)
	usable := free / 8 * 7 // the rest is for heads, arguments and other programs
	fitting := (usable - rows*row) / sequence
	enough := fullPasses * rows / length
	return min(max(fitting, 1), max(enough, 1))
}
