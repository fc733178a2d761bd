//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device is a GPU's primary context with the loaded kernels and one stream.
type device struct {
	*driver
	Info

	// handle is a CUdevice; context, module and stream are what the driver made on it, 0 after
	// close.
	handle  uintptr
	context uintptr
	module  uintptr
	stream  uintptr

	// entries are the CUfunctions by kernel.index, and shared the bytes of dynamic shared memory
	// that each may use.
	entries []uintptr
	shared  []uint32

	// out is what driver calls write their results to.
	out *callOutputs
}

// callOutputs is memory that driver calls write to or read lists from. It is on the heap and kept,
// because a call's results must not move, and new memory for each would be garbage.
type callOutputs struct {
	a, b uint64

	// options, values and log are for loading a module.
	options [2]int32
	values  [2]uintptr
	log     [4096]byte

	// pointers are to a kernel's parameters.
	pointers [maxParams]unsafe.Pointer
}

// maxParams is the most parameters of a kernel.
const maxParams = 48

// defaultShared is the dynamic shared memory that a kernel has by default.
const defaultShared = 48 << 10

// Attributes of a device (enum CUdevice_attribute).
const (
	attributeMultiprocessors = 16
	attributeMajor           = 75
	attributeMinor           = 76
)

// Devices lists the GPUs.
func Devices() ([]Info, error) {
	d, err := openDriver("")
	if err != nil {
		return nil, err
	}
	n, err := d.deviceCount()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, n)
	for i := range infos {
		_, infos[i], err = d.deviceInfo(i)
		if err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// deviceCount returns the number of GPUs.
func (d *driver) deviceCount() (int, error) {
	n := onHeap[int32]()
	err := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(n)))
	return int(*n), err
}

// deviceInfo returns the CUdevice and the Info of GPU i.
func (d *driver) deviceInfo(i int) (handle uintptr, info Info, err error) {
	info.Index = i
	r := onHeap[callOutputs]()
	if err = d.call(cuDeviceGet, uintptr(unsafe.Pointer(&r.a)), uintptr(i)); err != nil {
		return 0, info, err
	}
	handle = uintptr(int32(r.a))
	if err = d.call(cuDeviceGetName, uintptr(unsafe.Pointer(&r.log)), 256, handle); err != nil {
		return 0, info, err
	}
	info.Model = unix.ByteSliceToString(r.log[:])
	if err = d.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&r.b)), handle); err != nil {
		return 0, info, err
	}
	info.Memory = int(r.b)
	attributes := []struct {
		attribute uintptr
		field     *int
	}{
		{attributeMajor, &info.Major},
		{attributeMinor, &info.Minor},
		{attributeMultiprocessors, &info.Multiprocessors},
	}
	for _, a := range attributes {
		value := uintptr(unsafe.Pointer(&r.options[0]))
		if err = d.call(cuDeviceGetAttribute, value, a.attribute, handle); err != nil {
			return 0, info, err
		}
		*a.field = int(r.options[0])
	}
	return handle, info, nil
}

// openDevice prepares GPU o.Device: its primary context, the kernels and a stream.
func openDevice(o Options, m kernelImages) (_ *device, err error) {
	i := o.Device
	d, err := openDriver(o.Library)
	if err != nil {
		return nil, err
	}
	n, err := d.deviceCount()
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fmt.Errorf("the driver %s finds no GPU", d.path)
	case i < 0 || i >= n:
		return nil, fmt.Errorf("GPU is %d, want 0 to %d", i, n-1)
	}

	v := &device{driver: d, out: onHeap[callOutputs]()}
	v.handle, v.Info, err = d.deviceInfo(i)
	if err != nil {
		return nil, err
	}
	if o.Multiprocessors > 0 {
		v.Multiprocessors = o.Multiprocessors
	}
	if v.Major < 8 {
		return nil, fmt.Errorf("GPU %d, %s, has compute capability %d.%d, want 8.0 (Ampere) or later", i,
			v.Model, v.Major, v.Minor)
	}

	err = d.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&v.out.a)), v.handle)
	if err != nil {
		return nil, err
	}
	v.context = uintptr(v.out.a)
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if err = v.enter(); err != nil {
		return nil, err
	}
	defer v.leave()
	if err = v.loadKernels(m, o.Notice); err != nil {
		return nil, err
	}
	const nonBlocking = 1 // does not wait for the default stream, which is not used
	err = d.call(cuStreamCreate, uintptr(unsafe.Pointer(&v.out.a)), nonBlocking)
	if err != nil {
		return nil, err
	}
	v.stream = uintptr(v.out.a)
	return v, nil
}

// enter makes the context current on the thread and keeps the goroutine on it until leave, because
// goroutines move between threads, and each thread has its own current context.
func (v *device) enter() error {
	runtime.LockOSThread()
	err := v.call(cuCtxSetCurrent, v.context)
	if err != nil {
		runtime.UnlockOSThread()
	}
	return err
}

// leave ends what enter began.
func (v *device) leave() { runtime.UnlockOSThread() }

// allowShared lets kernel k use `bytes` bytes of dynamic shared memory. The driver refuses more
// than defaultShared unless it was asked before the launch.
func (v *device) allowShared(k int32, bytes uint32) error {
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

// close destroys the stream and the kernels, and releases the context.
func (v *device) close() error {
	if v.context == 0 {
		return nil
	}
	var first error
	record := func(err error) {
		first = cmp.Or(first, err)
	}
	if err := v.enter(); err != nil { // nothing can be destroyed then, but the context is released
		record(err)
	} else {
		if v.stream != 0 {
			record(v.call(cuStreamDestroy, v.stream))
		}
		if v.module != 0 {
			record(v.call(cuModuleUnload, v.module))
		}
		v.leave()
	}
	record(v.call(cuDevicePrimaryCtxRelease, v.handle))
	v.context = 0
	v.stream = 0
	v.module = 0
	return first
}

// GroupRows implements backend.Grouped: enough that the smallest layers' products have blocks for
// all multiprocessors of the largest GPUs.
func (b *Backend) GroupRows() int { return 1 << 14 }
