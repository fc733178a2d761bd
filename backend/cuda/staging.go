//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "unsafe"

// stagingBytes is the size of each piece in which large slices are copied to the device.
const stagingBytes = 4 << 20

// staging is pinned memory through which large host slices are copied to the device: while one
// piece is copied, the other is filled. The driver may read other memory at any later time, but has
// read pinned memory when the event after the copy has come.
type staging struct {
	pieces [2]stagingPiece
	next   int
}

type stagingPiece struct {
	memory pinned
	read   fence // after the device has read it
}

// send enqueues copies of src to device memory. src may change after it returns. The context must
// be current.
func (s *staging) send(v *device, p devicePtr, src []byte) error {
	for len(src) > 0 {
		k := &s.pieces[s.next]
		s.next = (s.next + 1) % len(s.pieces)
		if k.memory == nil {
			var err error
			if k.memory, err = v.pin(stagingBytes); err != nil {
				return err
			}
		}
		if err := k.read.wait(v); err != nil {
			return err
		}
		n := copy(k.memory, src)
		if err := v.call(cuMemcpyHtoDAsync, uintptr(p), uintptr(unsafe.Pointer(&k.memory[0])), uintptr(n),
			v.stream); err != nil {
			return err
		}
		if err := k.read.set(v); err != nil {
			return err
		}
		p += devicePtr(n)
		src = src[n:]
	}
	return nil
}

// done records that the host has waited for the device.
func (s *staging) done() {
	for i := range s.pieces {
		s.pieces[i].read.busy = false
	}
}

// close frees the memory and the events and passes on each error.
func (s *staging) close(v *device, note func(error)) {
	for _, k := range s.pieces {
		if k.memory != nil {
			note(v.unpin(k.memory))
		}
		k.read.close(v, note)
	}
}

// fence is a place in the stream that the host can wait for: a CUevent, created when first set.
type fence struct {
	event uintptr
	busy  bool // the stream may not have come to it yet
}

// set moves the fence behind all that was enqueued.
func (f *fence) set(v *device) (err error) {
	const disableTiming = 2 // an event that is only waited for (CU_EVENT_DISABLE_TIMING)
	if f.event == 0 {
		if f.event, err = v.newEvent(disableTiming); err != nil {
			return err
		}
	}
	f.busy = true
	return v.call(cuEventRecord, f.event, v.stream)
}

func (f *fence) wait(v *device) error {
	if !f.busy {
		return nil
	}
	f.busy = false
	return v.call(cuEventSynchronize, f.event)
}

func (f *fence) close(v *device, note func(error)) {
	if f.event != 0 {
		note(v.call(cuEventDestroy, f.event))
	}
}

// newEvent creates a CUevent.
func (v *device) newEvent(flags uintptr) (uintptr, error) {
	if err := v.call(cuEventCreate, uintptr(unsafe.Pointer(&v.out.a)), flags); err != nil {
		return 0, err
	}
	return uintptr(v.out.a), nil
}
