// Package cuda is the backend for NVIDIA GPUs of compute capability 8.0 or more. It only needs the
// driver's library, which it opens at run time: neither cgo nor a toolkit is needed to build or
// run.
//
// A kernel call does not launch anything. It appends to a list, which is sent to the device when a
// result is read, as a CUDA graph if the same list was sent before (see ARCHITECTURE.md).
//
// Builds for Linux on amd64 and arm64 contain it unless they have the tag nocuda. In others, New
// returns an error.
package cuda

// Options choose a GPU.
type Options struct {
	Device  int    // the driver's number of the GPU
	Library string // path of the driver's library; empty: LibraryVariable's, or libcuda.so.1

	// Notice, if not nil, is called with a line for the user if loading the kernels takes more than
	// a second, because the driver compiles them for a GPU without machine code in this package. It
	// is called on another goroutine.
	Notice func(line string)

	// Exact makes each allocation a chunk of its own, so that a memory checker finds accesses
	// beyond it.
	Exact bool

	// Multiprocessors chooses kernels as for a GPU of this many; 0 is the GPU's own.
	Multiprocessors int
}

// LibraryVariable is an environment variable with the path of the driver's library.
const LibraryVariable = "UNMASK_CUDA_LIBRARY"

// Info describes a GPU.
type Info struct {
	Index           int
	Model           string // such as NVIDIA H200
	Major, Minor    int    // compute capability
	Multiprocessors int
	Memory          int // bytes
}

// TraceVariable is an environment variable with the name of a file for a table of all kernels'
// times and their shares of the GPU's measured ceilings. Steps are much slower then: each list is
// waited for, and none becomes a graph.
const TraceVariable = "UNMASK_CUDA_TRACE"
