//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"unsafe"
)

// banks is the number of lists that can be in flight before the host must wait until the arguments
// of the first one were copied. With one bank the host would wait after every list.
const banks = 4

// arguments are the host slices that lists' commands use. They are collected in pinned memory and
// copied to the same offsets in device memory before the commands run. Lists between two waits use
// one bank after the other, so that a list that comes again has its arguments at the same
// addresses.
type arguments struct {
	banks [banks]bank

	// current is the index of the bank that the current list fills.
	current int

	// copies are the slices that the current list has copied, in order.
	copies []argumentCopy
}

// bank holds the arguments of a list.
type bank struct {
	parts []part

	// part is the index of the part that is being filled.
	part int

	// readFence is reached when the device has read the bank's last arguments. Until then the host
	// must not overwrite them.
	readFence fence
}

// part is a piece of the arguments: pinned host memory and device memory of the same size. Its
// addresses never change, so graphs may contain them.
type part struct {
	host   pinned
	device devicePtr

	// used counts the bytes that are filled.
	used int
}

// argumentCopy is a host slice that was copied into the arguments.
type argumentCopy struct {
	// source and bytes are the host slice, which may have changed since.
	source unsafe.Pointer
	bytes  int

	// content is the copy in pinned memory, and address where the device finds it.
	content []byte
	address devicePtr
}

// recentCopies is the number of latest copies that are compared with a new slice. Layers pass the
// same lists of rows again and again, so a few suffice, and comparing more would cost more than
// copying.
const recentCopies = 8

// addArgument copies x into the arguments, unless they hold the same slice unchanged, and returns
// its device address. x must not be empty.
func (b *Backend) addArgument(x []byte) devicePtr {
	a := &b.arguments
	for i := len(a.copies) - 1; i >= max(0, len(a.copies)-recentCopies); i-- {
		c := &a.copies[i]
		if c.source == unsafe.Pointer(&x[0]) && c.bytes == len(x) && bytes.Equal(c.content, x) {
			return c.address
		}
	}

	p := b.partWithRoom(len(x))
	content := p.host[p.used:][:len(x)]
	copy(content, x)
	address := p.device + devicePtr(p.used)
	p.used = min(roundUp(p.used+len(x), argumentAlign), len(p.host))
	a.copies = append(a.copies, argumentCopy{unsafe.Pointer(&x[0]), len(x), content, address})
	return address
}

// argumentAlign is the alignment of an argument in bytes: kernels read up to 16 bytes at once.
const argumentAlign = 16

// partWithRoom returns a part of the current bank with room for `bytes` bytes. The caller holds
// b.mu.
func (b *Backend) partWithRoom(bytes int) *part {
	bank := &b.arguments.banks[b.arguments.current]
	if bank.readFence.busy {
		b.waitForBank(bank)
	}
	for ; bank.part < len(bank.parts); bank.part++ {
		p := &bank.parts[bank.part]
		if len(p.host)-p.used >= bytes {
			return p
		}
	}

	size := max(argBytes, roundUp(bytes, argBytes))
	device := b.allocate(size)
	must(b.enter())
	defer b.leave()
	host, err := b.pin(size)
	must(err)

	// If memory was short, allocate has sent the list, and another bank is the current one.
	bank = &b.arguments.banks[b.arguments.current]
	bank.part = len(bank.parts)
	bank.parts = append(bank.parts, part{host: host, device: device})
	return &bank.parts[bank.part]
}

// waitForBank waits until the device has copied a bank's last arguments.
func (b *Backend) waitForBank(bank *bank) {
	must(b.enter())
	defer b.leave()
	must(bank.readFence.wait(b.device))
}

// sendArguments enqueues the copies of the list's arguments to the device. They go before the
// list's commands, which read them. The context must be current.
func (b *Backend) sendArguments() error {
	bank := &b.arguments.banks[b.arguments.current]
	sent := false
	for i := range bank.parts {
		p := &bank.parts[i]
		if p.used == 0 {
			continue
		}
		err := b.device.call(cuMemcpyHtoDAsync, uintptr(p.device),
			uintptr(unsafe.Pointer(&p.host[0])), uintptr(p.used), b.stream)
		if err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		return nil
	}
	return bank.readFence.set(b.device)
}

// startNextBank empties the arguments and makes the next bank the current one.
func (a *arguments) startNextBank() {
	bank := &a.banks[a.current]
	for i := range bank.parts {
		bank.parts[i].used = 0
	}
	bank.part = 0

	clear(a.copies) // so that no host slice is kept alive
	a.copies = a.copies[:0]
	a.current = (a.current + 1) % banks
}

// markIdle records that the host has waited for the device: all banks were read. The next list
// uses the first bank again, so that a step that repeats finds its arguments at the same addresses
// and its graph fits.
func (a *arguments) markIdle() {
	a.current = 0
	for i := range a.banks {
		a.banks[i].readFence.busy = false
	}
}

// close frees the pinned memory and the events, and calls record with the result of each call.
func (a *arguments) close(v *device, record func(error)) {
	for _, bank := range a.banks {
		for _, p := range bank.parts {
			record(v.unpin(p.host))
		}
		bank.readFence.close(v, record)
	}
}
