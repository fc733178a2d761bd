//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"unsafe"
)

// delivery is a result in pinned memory on its way to the caller.
type delivery struct {
	dst, from []byte
}

// results is pinned memory that the device copies results to.
type results struct {
	memory pinned
	used   int
	list   []delivery
}

// fetch enqueues a copy to dst, which has it after the next sync.
func (b *Backend) fetch(dst []byte, p devicePtr) {
	if len(dst) >= direct {
		b.flush()
		must(b.enter())
		defer b.leave()
		must(b.device.call(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), uintptr(p),
			uintptr(len(dst)), b.stream))
		return
	}
	r := &b.results
	if r.used+len(dst) > len(r.memory) {
		b.sync()
	}
	from := r.memory[r.used:][:len(dst)]
	r.used += roundUp(len(dst), 16)
	r.list = append(r.list, delivery{dst, from})
	b.start(command{op: copyBack}).word(uint64(uintptr(unsafe.Pointer(&from[0])))).pointer(p).
		long(int64(len(dst))).end()
}

// store copies src to device memory before everything enqueued later. src may change after it
// returns.
func (b *Backend) store(p devicePtr, src []byte) {
	if len(src) == 0 {
		return
	}
	if len(src) < direct {
		b.copy(p, b.argument(src), len(src))
		return
	}
	b.flush()
	b.copies.touch(p)
	must(b.enter())
	defer b.leave()
	must(b.staging.send(b.device, p, src))
}

// sync sends the list to the device, waits for it and delivers the results. The caller holds b.mu.
func (b *Backend) sync() {
	r := &b.results
	defer func() { // sent or failed
		clear(r.list)
		r.list, r.used = r.list[:0], 0
	}()
	b.flush()
	must(b.enter())
	defer b.leave()
	must(b.device.call(cuStreamSynchronize, b.stream))
	b.arguments.done()
	b.staging.done()
	for _, d := range r.list {
		copy(d.dst, d.from)
	}
}

// flush sends the list to the device and does not wait. The caller holds b.mu.
func (b *Backend) flush() {
	if len(b.list.commands) == 0 {
		return
	}
	defer b.forget()
	must(b.enter())
	defer b.leave()
	must(b.sendArguments())
	must(b.graphs.run(b))
}

// Send implements backend.Sender.
func (b *Backend) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}

// settle sends the list and waits for the device. It may be called while a call is described, if
// its arguments need memory.
func (b *Backend) settle() {
	b.flush()
	must(b.device.call(cuStreamSynchronize, b.stream))
}

// forget empties the list after it was sent or failed.
func (b *Backend) forget() {
	b.list.reset()
	b.call.first = 0
	b.arguments.next()
}

// enqueue passes all commands of the list to the stream, one by one.
func (b *Backend) enqueue() error {
	if b.trace != nil {
		return b.trace.run(b)
	}
	l := &b.list
	for i := range l.commands {
		if err := b.send(&l.commands[i]); err != nil {
			return err
		}
	}
	return nil
}

// send hands a command to the stream.
func (b *Backend) send(c *command) error {
	p := b.list.params[c.first : c.first+c.params]
	d := b.device
	switch c.op {
	case launch:
		if err := d.allow(c.kernel, c.shared); err != nil {
			return err
		}
		for i := range p {
			d.out.pointers[i] = unsafe.Pointer(&p[i])
		}
		d.out.pointers[len(p)] = nil // the end of the list, for the tests' driver
		err := d.call(cuLaunchKernel, d.entries[c.kernel], uintptr(c.x), uintptr(c.y), uintptr(c.z),
			uintptr(c.threads), 1, 1,
			uintptr(c.shared), d.stream, uintptr(unsafe.Pointer(&d.out.pointers)), 0)
		runtime.KeepAlive(p)
		return in(err, kernels[c.kernel].name)
	case copyWithin:
		return d.call(cuMemcpyDtoDAsync, uintptr(p[0]), uintptr(p[1]), uintptr(p[2]), d.stream)
	case copyBack:
		return d.call(cuMemcpyDtoHAsync, uintptr(p[0]), uintptr(p[1]), uintptr(p[2]), d.stream)
	}
	return d.call(cuMemsetD8Async, uintptr(p[0]), 0, uintptr(p[1]), d.stream) // fill
}
