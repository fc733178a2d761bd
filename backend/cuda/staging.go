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

	// read is reached when the device has read the memory.
	read fence
}

// send enqueues copies of src to device memory. src may change after it returns. The context must
// be current.
func (s *staging) send(v *device, p devicePtr, src []byte) error {
	for len(src) > 0 {
		piece := &s.pieces[s.next]
		s.next = (s.next + 1) % len(s.pieces)
		if piece.memory == nil {
			memory, err := v.pin(stagingBytes)
			if err != nil {
				return err
			}
			piece.memory = memory
		}
		if err := piece.read.wait(v); err != nil {
			return err
		}

		n := copy(piece.memory, src)
		pinnedAddress := uintptr(unsafe.Pointer(&piece.memory[0]))
		err := v.call(cuMemcpyHtoDAsync, uintptr(p), pinnedAddress, uintptr(n), v.stream)
		if err != nil {
			return err
		}
		if err := piece.read.set(v); err != nil {
			return err
		}
		p += devicePtr(n)
		src = src[n:]
	}
	return nil
}

// markIdle records that the host has waited for the device.
func (s *staging) markIdle() {
	for i := range s.pieces {
		s.pieces[i].read.busy = false
	}
}

// close frees the memory and the events, and calls record with the result of each call.
func (s *staging) close(v *device, record func(error)) {
	for _, piece := range s.pieces {
		if piece.memory != nil {
			record(v.unpin(piece.memory))
		}
		piece.read.close(v, record)
	}
}

// fence is a place in the stream that the host can wait for: a CUevent, created when first set.
type fence struct {
	event uintptr

	// busy says that the stream may not have come to the fence yet.
	busy bool
}

// set moves the fence behind all that was enqueued.
func (f *fence) set(v *device) (err error) {
	const disableTiming = 2 // an event that is only waited for (CU_EVENT_DISABLE_TIMING)
	if f.event == 0 {
		f.event, err = v.newEvent(disableTiming)
		if err != nil {
			return err
		}
	}
	f.busy = true
	return v.call(cuEventRecord, f.event, v.stream)
}

// wait blocks until the stream has come to the fence.
func (f *fence) wait(v *device) error {
	if !f.busy {
		return nil
	}
	f.busy = false
	return v.call(cuEventSynchronize, f.event)
}

// close destroys the event, if there is one.
func (f *fence) close(v *device, record func(error)) {
	if f.event != 0 {
		record(v.call(cuEventDestroy, f.event))
	}
}

// newEvent creates a CUevent.
func (v *device) newEvent(flags uintptr) (uintptr, error) {
	if err := v.call(cuEventCreate, uintptr(unsafe.Pointer(&v.out.a)), flags); err != nil {
		return 0, err
	}
	return uintptr(v.out.a), nil
}
