package backend

import "gorgonia.org/tensor"

// HostCopies are the copies of a device whose tensors are in the host's memory; it embeds them.
type HostCopies struct{}

// Write copies src to dst from row `row` on.
func (HostCopies) Write(dst *tensor.Dense, row int, src []float32) {
	CheckCopy("Write", dst, row, len(src))
	copy(dst.Float32s()[row*Width(dst):], src)
}

// Read copies src from row `row` on to dst.
func (HostCopies) Read(dst []float32, src *tensor.Dense, row int) {
	CheckCopy("Read", src, row, len(dst))
	copy(dst, src.Float32s()[row*Width(src):])
}

// Scatter computes dst[to[i]] = src[i] in order: of equal targets the last is kept.
func (HostCopies) Scatter(dst, src *tensor.Dense, to []int32) {
	CheckRows("Scatter", src, dst, to)
	target := dst.Float32s()
	source := src.Float32s()
	width := Width(src)
	for i, r := range to {
		copy(target[int(r)*width:][:width], source[i*width:])
	}
}
