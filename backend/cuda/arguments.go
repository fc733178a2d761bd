//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"unsafe"
)

// banks is the number of lists that can be under way before the host must wait until the first
// one's arguments were copied.
const banks = 4

// arguments are the host slices that lists' commands use. They are collected in pinned memory and
// copied to the same offsets in device memory before the commands run. Lists between two waits use
// one bank after the other, so that a list that comes again has its arguments at the same
// addresses.
type arguments struct {
	banks  [banks]bank
	bank   int // bank of the current list
	copied []copied
}

// bank holds the arguments of a list.
type bank struct {
	parts []part
	part  int   // the part being filled
	read  fence // after they were copied to the device
}

// part is a piece of the arguments. Its address never changes, so graphs may contain it.
type part struct {
	host   pinned
	device devicePtr
	used   int
}

// copied is a host slice that was copied into the arguments.
type copied struct {
	host  unsafe.Pointer
	bytes int
	copy  []byte
	at    devicePtr
}

// remembered is the number of latest copies that are compared with a new slice.
const remembered = 8

// argument copies x into the arguments, unless they hold the same slice unchanged.
func (b *Backend) argument(x []byte) devicePtr {
	a := &b.arguments
	for i := len(a.copied) - 1; i >= max(0, len(a.copied)-remembered); i-- {
		c := &a.copied[i]
		if c.host == unsafe.Pointer(&x[0]) && c.bytes == len(x) && bytes.Equal(c.copy, x) {
			return c.at
		}
	}
	p := b.room(len(x))
	to := p.host[p.used:][:len(x)]
	copy(to, x)
	at := p.device + devicePtr(p.used)
	p.used = min(roundUp(p.used+len(x), 16), len(p.host))
	a.copied = append(a.copied, copied{unsafe.Pointer(&x[0]), len(x), to, at})
	return at
}

// room returns a part with room for `bytes` bytes.
func (b *Backend) room(bytes int) *part {
	k := &b.arguments.banks[b.arguments.bank]
	if k.read.busy {
		b.await(k)
	}
	for ; k.part < len(k.parts); k.part++ {
		if p := &k.parts[k.part]; len(p.host)-p.used >= bytes {
			return p
		}
	}
	size := max(argBytes, roundUp(bytes, argBytes))
	device := b.allocate(size)
	must(b.enter())
	defer b.leave()
	host, err := b.pin(size)
	must(err)
	k = &b.arguments.banks[b.arguments.bank] // if memory was short the list has been sent
	k.part = len(k.parts)
	k.parts = append(k.parts, part{host: host, device: device})
	return &k.parts[k.part]
}

// await waits until the device has copied a bank's last arguments.
func (b *Backend) await(k *bank) {
	must(b.enter())
	defer b.leave()
	must(k.read.wait(b.device))
}

// sendArguments copies the list's arguments to the device, before the commands.
func (b *Backend) sendArguments() error {
	k, sent := &b.arguments.banks[b.arguments.bank], false
	for i := range k.parts {
		p := &k.parts[i]
		if p.used == 0 {
			continue
		}
		if err := b.device.call(cuMemcpyHtoDAsync, uintptr(p.device), uintptr(unsafe.Pointer(&p.host[0])),
			uintptr(p.used), b.stream); err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		return nil
	}
	return k.read.set(b.device)
}

// next starts the arguments of the next list.
func (a *arguments) next() {
	k := &a.banks[a.bank]
	for i := range k.parts {
		k.parts[i].used = 0
	}
	k.part = 0
	clear(a.copied)
	a.copied = a.copied[:0]
	a.bank = (a.bank + 1) % banks
}

// done records that the host has waited for the device.
func (a *arguments) done() {
	a.bank = 0
	for i := range a.banks {
		a.banks[i].read.busy = false
	}
}

// close frees the pinned memory and the events and passes on each error.
func (a *arguments) close(v *device, note func(error)) {
	for _, k := range a.banks {
		for _, p := range k.parts {
			note(v.unpin(p.host))
		}
		k.read.close(v, note)
	}
}
