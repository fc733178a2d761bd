//go:build (amd64 || arm64) && !purego

package vec

import "unsafe"

// at returns the address of a row. The assembly does nothing with a row of 0 elements.
func at(x []float32) *float32 { return unsafe.SliceData(x) }

// constant returns the address of a row and the bytes from one of its lines to the next. For a nil
// row it returns the line `otherwise`, which is repeated: 0 bytes from one to the next.
func constant(x []float32, otherwise *padded) (*float32, int) {
	if x == nil {
		return &otherwise[0], 0
	}
	return at(x), 4 * line
}
