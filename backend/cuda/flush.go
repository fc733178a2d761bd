//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"unsafe"
)

// pendingResult is a result in pinned memory on its way to the caller.
type pendingResult struct {
	dst    []byte
	source []byte
}

// results is pinned memory that the device copies results to. Only pinned memory can be written by
// a copy that is part of a graph.
type results struct {
	memory pinned

	// used counts the bytes of memory that pending results take.
	used int

	pending []pendingResult
}

// fetch enqueues a copy of the device memory at p to dst, which has it after the next sync. Large
// results go straight to dst; small ones are a command of the list. The caller holds b.mu.
func (b *Backend) fetch(dst []byte, p devicePtr) {
	if len(dst) >= directBytes {
		b.flush()
		must(b.enter())
		defer b.leave()
		must(b.device.call(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), uintptr(p),
			uintptr(len(dst)), b.stream))
		return
	}

	r := &b.results
	if r.used+len(dst) > len(r.memory) { // sync delivers what is pending and empties the memory
		b.sync()
	}
	source := r.memory[r.used:][:len(dst)]
	r.used += roundUp(len(dst), 16)
	r.pending = append(r.pending, pendingResult{dst, source})
	pinnedAddress := uint64(uintptr(unsafe.Pointer(&source[0])))
	b.startCommand(command{op: copyBack}).
		word(pinnedAddress).pointer(p).long(int64(len(dst))).end()
}

// store copies src to the device memory at p before everything enqueued later. src may change after
// it returns. The caller holds b.mu.
func (b *Backend) store(p devicePtr, src []byte) {
	if len(src) == 0 {
		return
	}
	if len(src) < directBytes {
		b.copy(p, b.addArgument(src), len(src))
		return
	}
	b.flush()
	b.copies.invalidate(p)
	must(b.enter())
	defer b.leave()
	must(b.staging.send(b.device, p, src))
}

// sync sends the list to the device, waits for it and delivers the results. The caller holds b.mu.
func (b *Backend) sync() {
	r := &b.results
	defer func() { // after a failure too: results that did not come are not delivered later
		clear(r.pending)
		r.pending = r.pending[:0]
		r.used = 0
	}()

	b.flush()
	must(b.enter())
	defer b.leave()
	must(b.device.call(cuStreamSynchronize, b.stream))
	b.arguments.markIdle()
	b.staging.markIdle()
	for _, d := range r.pending {
		copy(d.dst, d.source)
	}
}

// flush sends the list to the device and does not wait. The caller holds b.mu.
func (b *Backend) flush() {
	if len(b.list.commands) == 0 {
		return
	}
	defer b.resetList()
	must(b.enter())
	defer b.leave()
	must(b.sendArguments())
	must(b.graphs.launchList(b))
}

// Send implements backend.Sender.
func (b *Backend) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}

// drain sends the list and waits for the device. It may run while a call is being described, if
// that call's arguments need memory, so it keeps the parameters that the call has so far.
func (b *Backend) drain() {
	b.flush()
	must(b.device.call(cuStreamSynchronize, b.stream))
}

// resetList empties the list after it was sent or failed.
func (b *Backend) resetList() {
	b.list.reset()
	b.call.first = 0
	b.arguments.startNextBank()
}

// enqueueCommands passes all commands of the list to the stream, one by one.
func (b *Backend) enqueueCommands() error {
	if b.trace != nil {
		return b.trace.runTraced(b)
	}
	l := &b.list
	for i := range l.commands {
		if err := b.sendCommand(&l.commands[i]); err != nil {
			return err
		}
	}
	return nil
}

// sendCommand hands one command to the stream. The context must be current.
func (b *Backend) sendCommand(c *command) error {
	p := b.list.params[c.first : c.first+c.params]
	d := b.device
	switch c.op {
	case launch:
		if err := d.allowShared(c.kernel, c.shared); err != nil {
			return err
		}
		for i := range p {
			d.out.pointers[i] = unsafe.Pointer(&p[i])
		}
		d.out.pointers[len(p)] = nil // the end of the list, for the tests' driver
		err := d.call(cuLaunchKernel, d.entries[c.kernel],
			uintptr(c.x), uintptr(c.y), uintptr(c.z), uintptr(c.threads), 1, 1, uintptr(c.shared),
			d.stream, uintptr(unsafe.Pointer(&d.out.pointers)), 0)
		runtime.KeepAlive(p)
		return withSubject(err, kernels[c.kernel].name)
	case copyWithin:
		return d.call(cuMemcpyDtoDAsync, uintptr(p[0]), uintptr(p[1]), uintptr(p[2]), d.stream)
	case copyBack:
		return d.call(cuMemcpyDtoHAsync, uintptr(p[0]), uintptr(p[1]), uintptr(p[2]), d.stream)
	}
	return d.call(cuMemsetD8Async, uintptr(p[0]), 0, uintptr(p[1]), d.stream) // fill
}
