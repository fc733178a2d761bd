//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"unsafe"
)

// arguments are the host slices of a list's commands. They are gathered in pinned memory and copied
// to the same offsets of the device's before the commands run.
type arguments struct {
	parts  []part
	part   int // that is being filled
	copied []copied
	busy   bool // the copies of the last flush may not be done: read is to be waited for
	read   uintptr
}

// part is a piece of the arguments. Its addresses never change, so graphs may hold them.
type part struct {
	host   pinned
	device devicePtr
	used   int
}

// copied is a host slice whose copy the arguments hold.
type copied struct {
	host  unsafe.Pointer
	bytes int
	copy  []byte
	at    devicePtr
}

// remembered is how many of the latest copies are looked through for an equal one.
const remembered = 8

// argument copies x into the arguments, unless the same slice is there unchanged.
func (b *Backend) argument(x []byte) devicePtr {
	a := &b.arguments
	for i := len(a.copied) - 1; i >= max(0, len(a.copied)-remembered); i-- {
		c := &a.copied[i]
		if c.host == unsafe.Pointer(&x[0]) && c.bytes == len(x) && bytes.Equal(c.copy, x) {
			return c.at
		}
	}
	if a.busy {
		must(b.enter())
		err := b.device.call(cuEventSynchronize, a.read)
		b.leave()
		must(err)
		a.busy = false
	}
	p := b.room(len(x))
	to := p.host[p.used:][:len(x)]
	copy(to, x)
	at := p.device + devicePtr(p.used)
	p.used = min(roundUp(p.used+len(x), 16), len(p.host))
	a.copied = append(a.copied, copied{unsafe.Pointer(&x[0]), len(x), to, at})
	return at
}

// room is the part that has room for so many bytes.
func (b *Backend) room(bytes int) *part {
	a := &b.arguments
	for ; a.part < len(a.parts); a.part++ {
		if p := &a.parts[a.part]; len(p.host)-p.used >= bytes {
			return p
		}
	}
	size := max(argBytes, roundUp(bytes, argBytes))
	device := b.allocate(size)
	must(b.enter())
	defer b.leave()
	host, err := b.pin(size)
	must(err)
	a.parts = append(a.parts, part{host: host, device: device})
	return &a.parts[a.part]
}
