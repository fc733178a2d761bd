//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"unmask/backend"
)

// function is a function of the driver's library (CUDA Driver API reference), by its symbol's index
// in symbols.
type function int

// symbols are the names of the functions that this package calls.
var symbols []string

// registerSymbol adds a function to those that are looked up in the driver, and returns its index.
func registerSymbol(name string) function {
	symbols = append(symbols, name)
	return function(len(symbols) - 1)
}

// Symbols with a version have other arguments than the original function of the name.
var (
	cuInit                    = registerSymbol("cuInit")
	cuGetErrorName            = registerSymbol("cuGetErrorName")
	cuGetErrorString          = registerSymbol("cuGetErrorString")
	cuDeviceGetCount          = registerSymbol("cuDeviceGetCount")
	cuDeviceGet               = registerSymbol("cuDeviceGet")
	cuDeviceGetName           = registerSymbol("cuDeviceGetName")
	cuDeviceGetAttribute      = registerSymbol("cuDeviceGetAttribute")
	cuDeviceTotalMem          = registerSymbol("cuDeviceTotalMem_v2")
	cuDevicePrimaryCtxRetain  = registerSymbol("cuDevicePrimaryCtxRetain")
	cuDevicePrimaryCtxRelease = registerSymbol("cuDevicePrimaryCtxRelease_v2")
	cuCtxSetCurrent           = registerSymbol("cuCtxSetCurrent")
	cuModuleLoadDataEx        = registerSymbol("cuModuleLoadDataEx")
	cuModuleUnload            = registerSymbol("cuModuleUnload")
	cuModuleGetFunction       = registerSymbol("cuModuleGetFunction")
	cuFuncSetAttribute        = registerSymbol("cuFuncSetAttribute")
	cuMemGetInfo              = registerSymbol("cuMemGetInfo_v2")
	cuMemAlloc                = registerSymbol("cuMemAlloc_v2")
	cuMemFree                 = registerSymbol("cuMemFree_v2")
	cuMemAllocHost            = registerSymbol("cuMemAllocHost_v2")
	cuMemFreeHost             = registerSymbol("cuMemFreeHost")
	cuMemcpyHtoDAsync         = registerSymbol("cuMemcpyHtoDAsync_v2")
	cuMemcpyDtoHAsync         = registerSymbol("cuMemcpyDtoHAsync_v2")
	cuMemcpyDtoDAsync         = registerSymbol("cuMemcpyDtoDAsync_v2")
	cuMemsetD8Async           = registerSymbol("cuMemsetD8Async")
	cuStreamCreate            = registerSymbol("cuStreamCreate")
	cuStreamDestroy           = registerSymbol("cuStreamDestroy_v2")
	cuStreamSynchronize       = registerSymbol("cuStreamSynchronize")
	cuStreamBeginCapture      = registerSymbol("cuStreamBeginCapture_v2")
	cuStreamEndCapture        = registerSymbol("cuStreamEndCapture")
	cuEventCreate             = registerSymbol("cuEventCreate")
	cuEventRecord             = registerSymbol("cuEventRecord")
	cuEventSynchronize        = registerSymbol("cuEventSynchronize")
	cuEventDestroy            = registerSymbol("cuEventDestroy_v2")
	cuEventElapsedTime        = registerSymbol("cuEventElapsedTime")
	cuLaunchKernel            = registerSymbol("cuLaunchKernel")
	cuGraphInstantiate        = registerSymbol("cuGraphInstantiateWithFlags")
	cuGraphLaunch             = registerSymbol("cuGraphLaunch")
	cuGraphDestroy            = registerSymbol("cuGraphDestroy")
	cuGraphExecDestroy        = registerSymbol("cuGraphExecDestroy")
)

// The result codes that this package distinguishes (enum CUresult).
const (
	outOfMemory = 2
	noDevice    = 100
)

// driver is the opened library.
type driver struct {
	path      string
	functions []uintptr
}

// libraryPaths returns the paths at which the driver's library is looked for: path, or else that of
// LibraryVariable, or else the usual ones, the last of which is Linux's under Windows.
func libraryPaths(path string) []string {
	path = cmp.Or(path, os.Getenv(LibraryVariable))
	if path != "" {
		return []string{path}
	}
	return []string{"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}
}

// drivers are the libraries that are open, by their paths. They are never closed, because
// several backends share one.
var drivers = struct {
	sync.Mutex
	open map[string]*driver
}{open: map[string]*driver{}}

// openDriver opens the driver's library and initialises it; a later call returns the same driver.
func openDriver(path string) (*driver, error) {
	drivers.Lock()
	defer drivers.Unlock()
	key := strings.Join(libraryPaths(path), " ")
	if d := drivers.open[key]; d != nil {
		return d, nil
	}
	d, err := loadDriver(path)
	if err != nil {
		return nil, err
	}
	if err := d.call(cuInit, 0); err != nil {
		return nil, err
	}
	drivers.open[key] = d
	return d, nil
}

// loadDriver opens the driver's library and looks up all symbols.
func loadDriver(path string) (*driver, error) {
	var library uintptr
	var firstErr error
	for _, name := range libraryPaths(path) {
		var err error
		runtime.LockOSThread() // dlerror's message belongs to the thread
		library, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		runtime.UnlockOSThread()
		if err == nil {
			path = name
			break
		}
		firstErr = cmp.Or(firstErr, err)
	}
	if library == 0 {
		return nil, fmt.Errorf("no NVIDIA driver: %w", firstErr)
	}

	d := &driver{path: path}
	for _, name := range symbols {
		p, err := purego.Dlsym(library, name)
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: the driver is too old, want 520 (CUDA 11.8) or later",
				path, name)
		}
		d.functions = append(d.functions, p)
	}
	return d, nil
}

// call calls f. Addresses among the arguments must be of memory that does not move: on Go's heap,
// or the driver's.
func (d *driver) call(f function, args ...uintptr) error {
	code := d.callCode(f, args...)
	if code != 0 {
		return d.callError(f, code, "")
	}
	return nil
}

// argumentArrays are arguments on the heap, where purego needs them; passing them directly would
// allocate.
var argumentArrays = sync.Pool{New: func() any { return new([11]uintptr) }}

// callCode calls f and returns its CUresult, 0 for success.
func (d *driver) callCode(f function, args ...uintptr) int {
	r := argumentArrays.Get().(*[11]uintptr)
	n := copy(r[:], args)
	code, _, _ := purego.SyscallN(d.functions[f], r[:n]...)
	argumentArrays.Put(r)
	return int(int32(code))
}

// callError returns the error for a code that f returned. An empty detail means the driver's text.
func (d *driver) callError(f function, code int, detail string) *backend.DeviceError {
	name := cmp.Or(d.codeText(cuGetErrorName, code), "unknown error")
	detail = cmp.Or(detail, d.codeText(cuGetErrorString, code))
	if breaksContext(code) {
		detail += brokenAdvice
	}
	return &backend.DeviceError{Call: symbols[f], Code: code, Name: name, Detail: detail}
}

// withSubject puts what a failed call was about, such as a kernel's name, before the details of its
// error.
func withSubject(err error, what string) error {
	if e, ok := err.(*backend.DeviceError); ok {
		e.Detail = what + ": " + e.Detail
	}
	return err
}

// codeText returns the text of cuGetErrorName or cuGetErrorString for a code, "" for an unknown
// one.
func (d *driver) codeText(f function, code int) string {
	p := onHeap[*byte]()
	d.callCode(f, uintptr(code), uintptr(unsafe.Pointer(p)))
	return unix.BytePtrToString(*p)
}

// onHeap returns a T whose address does not change, unlike that of a variable on a goroutine's
// stack.
//
//go:noinline
func onHeap[T any]() *T { return new(T) }

// cString returns s as a C string on the heap.
//
//go:noinline
func cString(s string) []byte { return append([]byte(s), 0) }
