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
	read   uintptr // a CUevent that comes when the device has read it
	busy   bool    // the event may not have come yet
}

// open creates the events. The memory is allocated when it is first needed.
func (s *staging) open(v *device) (err error) {
	for i := range s.pieces {
		if s.pieces[i].read, err = v.newEvent(disableTiming); err != nil {
			return err
		}
	}
	return nil
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
		if k.busy {
			if err := v.call(cuEventSynchronize, k.read); err != nil {
				return err
			}
			k.busy = false
		}
		n := copy(k.memory, src)
		if err := v.call(cuMemcpyHtoDAsync, uintptr(p), uintptr(unsafe.Pointer(&k.memory[0])), uintptr(n),
			v.stream); err != nil {
			return err
		}
		k.busy = true
		if err := v.call(cuEventRecord, k.read, v.stream); err != nil {
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
		s.pieces[i].busy = false
	}
}

// close frees the memory and the events and passes on each error.
func (s *staging) close(v *device, note func(error)) {
	for _, k := range s.pieces {
		if k.memory != nil {
			note(v.unpin(k.memory))
		}
		if k.read != 0 {
			note(v.call(cuEventDestroy, k.read))
		}
	}
}

// disableTiming creates events that are only waited for (CU_EVENT_DISABLE_TIMING).
const disableTiming = 2

// newEvent creates a CUevent.
func (v *device) newEvent(flags uintptr) (uintptr, error) {
	if err := v.call(cuEventCreate, uintptr(unsafe.Pointer(&v.out.a)), flags); err != nil {
		return 0, err
	}
	return uintptr(v.out.a), nil
}
