//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"
	"unsafe"
)

const (
	minGraph  = 8    // least commands for which a graph is faster
	maxGraphs = 128  // most graphs kept
	maxSeen   = 4096 // most lists remembered as sent once
)

// graphs are CUDA graphs of lists that were sent before. A list is launched command by command the
// first time and captured the second time; from then on it is one call. If no graph can be made of
// a list, for lack of memory for example, it is always launched command by command.
type graphs struct {
	seen  map[uint64]bool // by hash of a list; true if no graph could be made of it
	never bool            // make no graphs
	known map[uint64]*graph
	clock uint64
}

// graph is a list and the graph that does the same.
type graph struct {
	commands []command
	params   []uint64
	exec     uintptr // CUgraphExec
	used     uint64  // time of the last use
}

// hash returns a hash of everything that makes lists equal (FNV-1a, word by word).
func (l *list) hash() uint64 {
	h := uint64(14695981039346656037)
	add := func(v uint64) { h = (h ^ v) * 1099511628211 }
	for i := range l.commands {
		c := &l.commands[i]
		add(uint64(c.op) | uint64(c.kernel)<<8 | uint64(c.threads)<<40)
		add(uint64(c.x) | uint64(c.y)<<32)
		add(uint64(c.z) | uint64(c.shared)<<32)
		add(uint64(c.params))
	}
	for _, p := range l.params {
		add(p)
		h ^= h >> 29
	}
	return h
}

// run sends the backend's list to its stream.
func (g *graphs) run(b *Backend) error {
	l := &b.list
	if len(l.commands) < minGraph || g.never {
		return b.enqueue()
	}
	h := l.hash()
	g.clock++
	known := g.known[h]
	if known != nil && slices.Equal(known.commands, l.commands) &&
		slices.Equal(known.params, l.params) {
		known.used = g.clock
		return b.device.call(cuGraphLaunch, known.exec, b.stream)
	}
	refused, ok := g.seen[h]
	if !ok {
		if len(g.seen) >= maxSeen {
			clear(g.seen)
		}
		g.seen[h] = false
	}
	if !ok || refused || known != nil { // known is then another list with the same hash
		return b.enqueue()
	}
	exec, err := b.capture()
	if err == nil {
		if err = b.device.call(cuGraphLaunch, exec, b.stream); err != nil {
			_ = b.device.call(cuGraphExecDestroy, exec) // the first failure is returned
		}
	}
	if err != nil {
		g.seen[h] = true
		return b.enqueue() // fails too, unless only the graph was the problem
	}
	if err := g.evict(b); err != nil {
		return err
	}
	g.known[h] = &graph{slices.Clone(l.commands), slices.Clone(l.params), exec, g.clock}
	return nil
}

// capture makes a graph of the list.
func (b *Backend) capture() (exec uintptr, err error) {
	d := b.device
	for i := range b.list.commands { // before, because it is not part of a graph
		if c := &b.list.commands[i]; c.op == launch {
			if err := d.allow(c.kernel, c.shared); err != nil {
				return 0, err
			}
		}
	}
	const threadLocal = 1 // calls of other threads do not affect the capture
	if err := d.call(cuStreamBeginCapture, d.stream, threadLocal); err != nil {
		return 0, err
	}
	err = b.enqueue()
	d.out.a = 0
	if e := d.call(cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(&d.out.a))); err == nil {
		err = e
	}
	made := uintptr(d.out.a)
	if err == nil {
		err = d.call(cuGraphInstantiate, uintptr(unsafe.Pointer(&d.out.a)), made, 0)
		exec = uintptr(d.out.a)
	}
	if made == 0 {
		return 0, err
	}
	if e := d.call(cuGraphDestroy, made); err == nil && e != nil {
		_ = d.call(cuGraphExecDestroy, exec) // the first failure is returned
		err = e
	}
	return exec, err
}

// evict destroys the least recently used graph if there are too many.
func (g *graphs) evict(b *Backend) error {
	if len(g.known) < maxGraphs {
		return nil
	}
	var oldest uint64
	for h, k := range g.known {
		if o := g.known[oldest]; o == nil || k.used < o.used {
			oldest = h
		}
	}
	exec := g.known[oldest].exec
	delete(g.known, oldest)
	delete(g.seen, oldest)
	return b.device.call(cuGraphExecDestroy, exec)
}

// clear destroys all graphs.
func (g *graphs) clear(b *Backend) (err error) {
	for h, k := range g.known {
		if e := b.device.call(cuGraphExecDestroy, k.exec); err == nil {
			err = e
		}
		delete(g.known, h)
	}
	clear(g.seen)
	return err
}
