//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"strings"
	"unsafe"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// devicePtr is an address in device memory, 0 for none.
type devicePtr uintptr

// kernel is an extern "C" __global__ function of the embedded PTX and machine code.
type kernel struct {
	name string

	// index is its index in kernels.
	index int

	// hopper says that it is in the machine code for Hopper alone.
	hopper bool
}

// kernels are all registered kernels, by index.
var kernels []*kernel

// register adds a kernel. It is called at package level. New fails if the kernels' image has none
// of that name; kernels with wgmma in their name are in the machine code alone.
func register(name string) *kernel {
	k := &kernel{name, len(kernels), strings.Contains(name, "_wgmma")}
	kernels = append(kernels, k)
	return k
}

// grid is the number of blocks of a launch; y and z may be 0 for 1.
type grid struct{ x, y, z int }

// operation is the kind of a command.
type operation uint8

const (
	launch     operation = iota // a kernel; params: the kernel's
	copyWithin                  // a copy within device memory; params: to, from, bytes
	copyBack                    // a copy to pinned memory; params: to, from, bytes
	fill                        // zeros; params: to, bytes
)

// command is one entry of the list. It has no pointers, so that the collector need not look into
// lists of thousands.
type command struct {
	op operation

	// A launch has the index of its kernel, its grid, and the threads and the bytes of dynamic
	// shared memory of a block.
	kernel  int32
	x, y, z uint32
	threads uint32
	shared  uint32

	// Its parameters are list.params[first : first+params].
	first  int32
	params int32
}

// list is the commands since the last flush. Kernel calls only append to it; flush sends it to the
// driver as a whole, as a graph if it was sent before.
type list struct {
	commands []command
	params   []uint64

	// flushes counts the lists before this one: indices into params are valid in one list only.
	flushes int
}

// reset empties the list, except for the parameters of a call that is being described, which become
// the first ones.
func (l *list) reset() {
	end := int32(0)
	if n := len(l.commands); n > 0 {
		end = l.commands[n-1].first + l.commands[n-1].params
	}
	l.params = l.params[:copy(l.params, l.params[end:])]
	l.commands = l.commands[:0]
	l.flushes++
}

// call is the command that is being described; its methods append parameters in the kernel's order.
// Pointers to tensors, slices and lists become device addresses.
type call struct {
	b *Backend
	command
}

// begin starts the launch of a kernel with blocks of `threads` threads and `shared` bytes of
// dynamic shared memory. The caller holds b.mu, as it does until end.
func (b *Backend) begin(k *kernel, g grid, threads, shared int) *call {
	if g.x < 1 || threads < 1 || threads > maxThreads {
		panic("cuda: " + k.name + ": a launch without blocks or threads")
	}
	return b.startCommand(command{
		op:      launch,
		kernel:  int32(k.index),
		x:       uint32(g.x),
		y:       uint32(max(g.y, 1)),
		z:       uint32(max(g.z, 1)),
		threads: uint32(threads),
		shared:  uint32(shared),
	})
}

// maxThreads is the largest number of threads of a block.
const maxThreads = 1024

// startCommand begins the description of a command; the result is valid until its end. There is one
// call for all commands, because a new one would be garbage for each.
func (b *Backend) startCommand(c command) *call {
	c.first = int32(len(b.list.params))
	b.call.b = b
	b.call.command = c
	return &b.call
}

// word passes a parameter as it is.
func (c *call) word(v uint64) *call {
	c.b.list.params = append(c.b.list.params, v)
	return c
}

// tensor passes the address of t's values, 0 for nil.
func (c *call) tensor(t *tensor.Dense) *call { return c.pointer(c.b.addressOf(t)) }

// keepAlive keeps tensors alive until here, as runtime.KeepAlive does. Commands have only their
// addresses, so the collector could free a tensor between its last use by Go and its command's end.
//
//go:noinline
func keepAlive(...any) {}

// pointer passes an address in device memory, 0 for none. It ends a bfloat16 copy of the tensor
// there, because the kernel may overwrite the tensor.
func (c *call) pointer(p devicePtr) *call {
	c.b.copies.invalidate(p)
	return c.word(uint64(p))
}

func (c *call) int(n int) *call        { return c.word(uint64(uint32(int32(n)))) }
func (c *call) long(n int64) *call     { return c.word(uint64(n)) }
func (c *call) float(v float32) *call  { return c.word(uint64(math.Float32bits(v))) }
func (c *call) double(v float64) *call { return c.word(math.Float64bits(v)) }

// ints copies a slice to the arguments and passes its address, 0 for an empty one. The slice may
// change after it returns.
func (c *call) ints(list []int32) *call { return c.pointer(upload(c.b, list)) }

// segments passes the address of the segments: four int32 each, Seq, Row, Rows and Pos.
func (c *call) segments(segs []backend.Segment) *call {
	b := c.b
	b.segments = b.segments[:0]
	for _, s := range segs {
		b.segments = append(b.segments, int32(s.Seq), int32(s.Row), int32(s.Rows), int32(s.Pos))
	}
	return c.pointer(upload(b, b.segments))
}

// end appends the command to the list.
func (c *call) end() {
	l := &c.b.list
	c.command.params = int32(len(l.params)) - c.first
	l.commands = append(l.commands, c.command)
	c.command = command{}
	if len(l.commands) >= maxCommands {
		c.b.flush()
	}
}

// maxCommands is the length from which a list is sent before anything is read.
const maxCommands = 1 << 13

// addressOf returns the address of a tensor's values. It panics for a tensor of another device.
func (b *Backend) addressOf(t *tensor.Dense) devicePtr {
	if t == nil || t.MemSize() == 0 {
		return 0
	}
	if e, ok := t.Engine().(*Backend); !ok || e != b {
		panic("cuda: a tensor of another device")
	}
	return devicePtr(t.Uintptr())
}

// copy enqueues a copy within device memory.
func (b *Backend) copy(dst, src devicePtr, bytes int) {
	if bytes > 0 {
		b.startCommand(command{op: copyWithin}).pointer(dst).pointer(src).long(int64(bytes)).end()
	}
}

// zero enqueues filling device memory with zeros.
func (b *Backend) zero(p devicePtr, bytes int) {
	if bytes > 0 {
		b.startCommand(command{op: fill}).pointer(p).long(int64(bytes)).end()
	}
}

// fetch enqueues a copy of device memory to dst. dst has the values after the next sync.
func fetch[T any](b *Backend, dst []T, p devicePtr) {
	if len(dst) > 0 {
		b.fetch(bytesOf(dst), p)
	}
}

// upload copies x into the list's arguments and returns its device address. A slice that was copied
// before and is unchanged is not copied again: layers share lists of rows.
func upload[T any](b *Backend, x []T) devicePtr {
	if len(x) == 0 {
		return 0
	}
	return b.addArgument(bytesOf(x))
}

// bytesOf returns the memory of x.
func bytesOf[T any](x []T) []byte {
	p := unsafe.SliceData(x)
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), len(x)*int(unsafe.Sizeof(*p)))
}
