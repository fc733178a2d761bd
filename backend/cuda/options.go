// Package cuda is the backend for NVIDIA GPUs from compute capability 8.0 on, over the driver's
// library alone, which is opened at run time: neither cgo nor a toolkit is needed to build or run.
//
// A kernel call does not launch anything. It appends to a list, which goes to the device when a
// result is read: as a CUDA graph when the same list went before (see ARCHITECTURE.md).
//
// It is part of builds for Linux on amd64 and arm64 without the tag nocuda. In others New says so.
package cuda

// Options choose a GPU.
type Options struct {
	Device  int    // counted as the driver does
	Library string // the driver's; empty: that of LibraryVariable, or libcuda.so.1

	exact bool // see arena
}

// LibraryVariable is an environment variable that names another driver library than libcuda.so.1.
const LibraryVariable = "UNMASK_CUDA_LIBRARY"

// Info is what the driver says of a GPU.
type Info struct {
	Index           int
	Model           string // such as NVIDIA H200
	Major, Minor    int    // compute capability
	Multiprocessors int
	SharedMemory    int // bytes a block can have
	Cache           int // bytes, L2
	Memory          int // bytes
}
