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

	// CuBLASLt names NVIDIA's library of matrix products, cuBLAS 12 or 13, which then computes
	// products of Linear in bfloat16 whose result is not rounded for another product; all else runs on
	// the kernels of this package. Empty means CuBLASLtVariable, and where that is empty or "none" the
	// library is not used.
	//
	// The kernels of this package give a row the same bits in any batch. The library is asked for one
	// algorithm a matrix, which does not split the depth, and computes that matrix for all numbers of
	// rows or none. NVIDIA does not promise that the bits are the same then.
	CuBLASLt string

	// Notice, unless nil, gets a line worth showing where loading the kernels takes more than a
	// second, since the driver compiles them for a GPU that this package has no machine code for. It
	// is called on another goroutine.
	Notice func(line string)

	// Trace names a file that gets a table of all kernels' times, and what shares of the GPU's
	// measured ceilings they come to. Empty means TraceVariable. Steps take much longer then: each
	// list is waited for, and none is a graph.
	Trace string

	exact           bool // see arena
	multiprocessors int  // that the choice of kernels reckons with, in tests; 0 for the GPU's own
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

// TraceVariable is an environment variable that takes the place of an empty Options.Trace.
const TraceVariable = "UNMASK_CUDA_TRACE"

// CuBLASLtVariable is an environment variable that takes the place of an empty Options.CuBLASLt.
const CuBLASLtVariable = "UNMASK_CUBLASLT_LIBRARY"
