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

// function is a function of the driver's library (CUDA Driver API reference), by its symbol's place
// in symbols.
type function int

var symbols []string

func symbol(name string) function {
	symbols = append(symbols, name)
	return function(len(symbols) - 1)
}

// Symbols with a version have other arguments than the original function of the name.
var (
	cuInit                    = symbol("cuInit")
	cuGetErrorName            = symbol("cuGetErrorName")
	cuGetErrorString          = symbol("cuGetErrorString")
	cuDeviceGetCount          = symbol("cuDeviceGetCount")
	cuDeviceGet               = symbol("cuDeviceGet")
	cuDeviceGetName           = symbol("cuDeviceGetName")
	cuDeviceGetAttribute      = symbol("cuDeviceGetAttribute")
	cuDeviceTotalMem          = symbol("cuDeviceTotalMem_v2")
	cuDevicePrimaryCtxRetain  = symbol("cuDevicePrimaryCtxRetain")
	cuDevicePrimaryCtxRelease = symbol("cuDevicePrimaryCtxRelease_v2")
	cuCtxSetCurrent           = symbol("cuCtxSetCurrent")
	cuModuleLoadDataEx        = symbol("cuModuleLoadDataEx")
	cuModuleUnload            = symbol("cuModuleUnload")
	cuModuleGetFunction       = symbol("cuModuleGetFunction")
	cuFuncSetAttribute        = symbol("cuFuncSetAttribute")
	cuMemGetInfo              = symbol("cuMemGetInfo_v2")
	cuMemAlloc                = symbol("cuMemAlloc_v2")
	cuMemFree                 = symbol("cuMemFree_v2")
	cuMemAllocHost            = symbol("cuMemAllocHost_v2")
	cuMemFreeHost             = symbol("cuMemFreeHost")
	cuMemcpyHtoDAsync         = symbol("cuMemcpyHtoDAsync_v2")
	cuMemcpyDtoHAsync         = symbol("cuMemcpyDtoHAsync_v2")
	cuMemcpyDtoDAsync         = symbol("cuMemcpyDtoDAsync_v2")
	cuMemsetD8Async           = symbol("cuMemsetD8Async")
	cuStreamCreate            = symbol("cuStreamCreate")
	cuStreamDestroy           = symbol("cuStreamDestroy_v2")
	cuStreamSynchronize       = symbol("cuStreamSynchronize")
	cuStreamBeginCapture      = symbol("cuStreamBeginCapture_v2")
	cuStreamEndCapture        = symbol("cuStreamEndCapture")
	cuEventCreate             = symbol("cuEventCreate")
	cuEventRecord             = symbol("cuEventRecord")
	cuEventSynchronize        = symbol("cuEventSynchronize")
	cuEventDestroy            = symbol("cuEventDestroy_v2")
	cuEventElapsedTime        = symbol("cuEventElapsedTime")
	cuLaunchKernel            = symbol("cuLaunchKernel")
	cuGraphInstantiate        = symbol("cuGraphInstantiateWithFlags")
	cuGraphLaunch             = symbol("cuGraphLaunch")
	cuGraphDestroy            = symbol("cuGraphDestroy")
	cuGraphExecDestroy        = symbol("cuGraphExecDestroy")
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

// libraries are the paths of the driver's library.
func libraries(path string) []string {
	path = cmp.Or(path, os.Getenv(LibraryVariable))
	if path != "" {
		return []string{path}
	}
	return []string{"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}
}

var drivers = struct {
	sync.Mutex
	open map[string]*driver
}{open: map[string]*driver{}}

// openDriver opens the driver's library once and initialises it.
func openDriver(path string) (*driver, error) {
	drivers.Lock()
	defer drivers.Unlock()
	key := strings.Join(libraries(path), " ")
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

func loadDriver(path string) (*driver, error) {
	var library uintptr
	var failure error
	names := libraries(path)
	for _, name := range names {
		var err error
		runtime.LockOSThread() // dlerror's message belongs to the thread
		library, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		runtime.UnlockOSThread()
		if err == nil {
			path = name
			break
		}
		failure = cmp.Or(failure, err)
	}
	if library == 0 {
		return nil, fmt.Errorf("no NVIDIA driver: %w", failure)
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
	if code := d.code(f, args...); code != 0 {
		return d.failure(f, code, "")
	}
	return nil
}

// registers are arguments on the heap, where purego needs them; passing them directly would
// allocate.
var registers = sync.Pool{New: func() any { return new([11]uintptr) }}

// code calls f and returns its CUresult, 0 for success.
func (d *driver) code(f function, args ...uintptr) int {
	r := registers.Get().(*[11]uintptr)
	n := copy(r[:], args)
	code, _, _ := purego.SyscallN(d.functions[f], r[:n]...)
	registers.Put(r)
	return int(int32(code))
}

// failure returns the error for a code that f returned.
func (d *driver) failure(f function, code int, detail string) *backend.DeviceError {
	name, text := d.text(cuGetErrorName, code), d.text(cuGetErrorString, code)
	name = cmp.Or(name, "unknown error")
	detail = cmp.Or(detail, text)
	if broken(code) {
		detail += brokenAdvice
	}
	return &backend.DeviceError{Call: symbols[f], Code: code, Name: name, Detail: detail}
}

// in adds the subject of a failed call.
func in(err error, what string) error {
	if e, ok := err.(*backend.DeviceError); ok {
		e.Detail = what + ": " + e.Detail
	}
	return err
}

// text returns the text of cuGetErrorName or cuGetErrorString for a code, "" for an unknown one.
func (d *driver) text(f function, code int) string {
	p := onHeap[*byte]()
	d.code(f, uintptr(code), uintptr(unsafe.Pointer(p)))
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
