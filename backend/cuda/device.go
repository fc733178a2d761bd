//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	_ "embed"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

//go:embed kernels/unmask.ptx
var ptx []byte

// device is a GPU's primary context with the kernels loaded and one stream.
type device struct {
	*driver
	Info
	handle  uintptr // CUdevice
	context uintptr
	module  uintptr
	stream  uintptr
	entries []uintptr // by a kernel's index, CUfunction
	shared  []uint32  // dynamic shared memory that each may use
	out     *outputs  // of calls
}

// outputs are what driver calls write to, or read lists from.
type outputs struct {
	a, b     uint64
	options  [2]int32
	values   [2]uintptr
	log      [4096]byte
	pointers [maxParams]unsafe.Pointer
}

// maxParams is how many parameters a kernel has at most.
const maxParams = 48

// defaultShared is the dynamic shared memory that a kernel has without asking.
const defaultShared = 48 << 10

// Attributes of a device (enum CUdevice_attribute).
const (
	attributeMultiprocessors = 16
	attributeCache           = 38
	attributeMajor           = 75
	attributeMinor           = 76
	attributeSharedMemory    = 97 // that a kernel can ask for
)

// Devices lists the GPUs.
func Devices() ([]Info, error) {
	d, err := openDriver("")
	if err != nil {
		return nil, err
	}
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, n)
	for i := range infos {
		if _, infos[i], err = d.info(i); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

func (d *driver) count() (int, error) {
	n := onHeap[int32]()
	err := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(n)))
	return int(*n), err
}

// info asks for what Info says of GPU i.
func (d *driver) info(i int) (handle uintptr, info Info, err error) {
	info.Index = i
	r := onHeap[outputs]()
	if err = d.call(cuDeviceGet, uintptr(unsafe.Pointer(&r.a)), uintptr(i)); err != nil {
		return 0, info, err
	}
	handle = uintptr(int32(r.a))
	if err = d.call(cuDeviceGetName, uintptr(unsafe.Pointer(&r.log)), 256, handle); err != nil {
		return 0, info, err
	}
	info.Model = goString(&r.log[0])
	if err = d.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&r.b)), handle); err != nil {
		return 0, info, err
	}
	info.Memory = int(r.b)
	for _, a := range []struct {
		attribute uintptr
		to        *int
	}{{attributeMajor, &info.Major}, {attributeMinor, &info.Minor}, {attributeMultiprocessors, &info.Multiprocessors},
		{attributeSharedMemory, &info.SharedMemory}, {attributeCache, &info.Cache}} {
		if err = d.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&r.options[0])), a.attribute, handle); err != nil {
			return 0, info, err
		}
		*a.to = int(r.options[0])
	}
	return handle, info, nil
}

// openDevice makes GPU i ready: its primary context, the kernels of a PTX and a stream.
func openDevice(library string, i int, ptx []byte) (_ *device, err error) {
	d, err := openDriver(library)
	if err != nil {
		return nil, err
	}
	n, err := d.count()
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fmt.Errorf("the driver %s finds no GPU", d.path)
	case i < 0 || i >= n:
		return nil, fmt.Errorf("there is no GPU %d, allowed are 0..%d", i, n-1)
	}
	v := &device{driver: d, out: onHeap[outputs]()}
	if v.handle, v.Info, err = d.info(i); err != nil {
		return nil, err
	}
	if v.Major < 8 {
		return nil, fmt.Errorf("GPU %d, %s, has compute capability %d.%d, wanted is 8.0 (Ampere) or later", i, v.Model, v.Major, v.Minor)
	}
	if err := d.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&v.out.a)), v.handle); err != nil {
		return nil, err
	}
	v.context = uintptr(v.out.a)
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if err := v.enter(); err != nil {
		return nil, err
	}
	defer v.leave()
	if err := v.load(ptx); err != nil {
		return nil, err
	}
	const nonBlocking = 1 // with respect to the default stream, which is not used
	if err := d.call(cuStreamCreate, uintptr(unsafe.Pointer(&v.out.a)), nonBlocking); err != nil {
		return nil, err
	}
	v.stream = uintptr(v.out.a)
	return v, nil
}

// enter makes the context current on the thread, which the goroutine keeps until leave: goroutines
// move between threads, and a thread has one current context.
func (v *device) enter() error {
	runtime.LockOSThread()
	err := v.call(cuCtxSetCurrent, v.context)
	if err != nil {
		runtime.UnlockOSThread()
	}
	return err
}

func (v *device) leave() { runtime.UnlockOSThread() }

// load compiles the PTX for this GPU, or takes it from the driver's cache, and finds all registered kernels.
func (v *device) load(ptx []byte) error {
	const errorLog, errorLogBytes = 5, 6 // CU_JIT_ERROR_LOG_BUFFER and its size
	source := cString(string(ptx))
	r := v.out
	r.options = [2]int32{errorLog, errorLogBytes}
	r.values = [2]uintptr{uintptr(unsafe.Pointer(&r.log)), uintptr(len(r.log) - 1)}
	err := v.call(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&r.a)), uintptr(unsafe.Pointer(&source[0])), 2,
		uintptr(unsafe.Pointer(&r.options)), uintptr(unsafe.Pointer(&r.values)))
	runtime.KeepAlive(source)
	if err != nil {
		if line, _, _ := strings.Cut(goString(&r.log[0]), "\n"); line != "" {
			return fmt.Errorf("%w: %s", err, line)
		}
		return err
	}
	v.module = uintptr(r.a)
	v.entries, v.shared = make([]uintptr, len(kernels)), make([]uint32, len(kernels))
	for i, k := range kernels {
		name := cString(k.name)
		err := v.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&r.a)), v.module, uintptr(unsafe.Pointer(&name[0])))
		runtime.KeepAlive(name)
		if err != nil {
			return fmt.Errorf("%w: %s", err, k.name)
		}
		v.entries[i], v.shared[i] = uintptr(r.a), defaultShared
	}
	return nil
}

// allow lets kernel k have so many bytes of dynamic shared memory.
func (v *device) allow(k int32, bytes uint32) error {
	if bytes <= v.shared[k] {
		return nil
	}
	const maxDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	if err := v.call(cuFuncSetAttribute, v.entries[k], maxDynamicShared, uintptr(bytes)); err != nil {
		return err
	}
	v.shared[k] = bytes
	return nil
}

// close gives the stream, the kernels and the context back.
func (v *device) close() error {
	if v.context == 0 {
		return nil
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	if err := v.enter(); err != nil {
		note(err)
	} else {
		if v.stream != 0 {
			note(v.call(cuStreamDestroy, v.stream))
		}
		if v.module != 0 {
			note(v.call(cuModuleUnload, v.module))
		}
		v.leave()
	}
	note(v.call(cuDevicePrimaryCtxRelease, v.handle))
	v.context, v.stream, v.module = 0, 0, 0
	return first
}

// GroupRows implements backend.Grouped: enough that the smallest layers' products have blocks for all
// multiprocessors of the largest GPUs.
func (b *Backend) GroupRows() int { return 1 << 14 }
