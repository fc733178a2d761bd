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
//
// Capturing a list costs more than launching it, so a list that is sent once gets no graph.
type graphs struct {
	// seen has the hashes of lists that were sent. The value is true if no graph could be made.
	seen map[uint64]bool

	// disabled makes every list go command by command.
	disabled bool

	byHash map[uint64]*graph

	// clock counts lists.
	clock uint64
}

// graph is a list and the graph that does the same.
type graph struct {
	commands []command
	params   []uint64

	// exec is the CUgraphExec.
	exec uintptr

	// lastUse is the clock of the last launch.
	lastUse uint64
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

// launchList sends the backend's list to its stream, as a graph if it has one. The context must be
// current.
func (g *graphs) launchList(b *Backend) error {
	l := &b.list
	if len(l.commands) < minGraph || g.disabled {
		return b.enqueueCommands()
	}

	hash := l.hash()
	g.clock++
	sameHash := g.byHash[hash]
	if sameHash != nil && slices.Equal(sameHash.commands, l.commands) &&
		slices.Equal(sameHash.params, l.params) {
		sameHash.lastUse = g.clock
		return b.device.call(cuGraphLaunch, sameHash.exec, b.stream)
	}

	impossible, wasSeen := g.seen[hash]
	if !wasSeen {
		if len(g.seen) >= maxSeen {
			clear(g.seen)
		}
		g.seen[hash] = false
	}
	if !wasSeen || impossible || sameHash != nil { // a graph of another list has this hash
		return b.enqueueCommands()
	}

	exec, err := b.captureGraph()
	if err == nil {
		if err = b.device.call(cuGraphLaunch, exec, b.stream); err != nil {
			_ = b.device.call(cuGraphExecDestroy, exec) // the first failure is returned
		}
	}
	if err != nil {
		g.seen[hash] = true
		return b.enqueueCommands() // fails too, unless only the graph was the problem
	}
	if err := g.evictOldest(b); err != nil {
		return err
	}
	g.byHash[hash] = &graph{
		commands: slices.Clone(l.commands),
		params:   slices.Clone(l.params),
		exec:     exec,
		lastUse:  g.clock,
	}
	return nil
}

// captureGraph makes an executable graph of the list. The stream runs nothing of it.
func (b *Backend) captureGraph() (exec uintptr, err error) {
	d := b.device
	for i := range b.list.commands { // before the capture, because it is not part of a graph
		c := &b.list.commands[i]
		if c.op != launch {
			continue
		}
		if err := d.allowShared(c.kernel, c.shared); err != nil {
			return 0, err
		}
	}

	const threadLocal = 1 // calls of other threads do not affect the capture
	if err := d.call(cuStreamBeginCapture, d.stream, threadLocal); err != nil {
		return 0, err
	}
	err = b.enqueueCommands()

	// The capture is ended even if a command failed: otherwise the stream would stay in it.
	d.out.a = 0
	endErr := d.call(cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(&d.out.a)))
	if err == nil {
		err = endErr
	}
	captured := uintptr(d.out.a)
	if err == nil {
		err = d.call(cuGraphInstantiate, uintptr(unsafe.Pointer(&d.out.a)), captured, 0)
		exec = uintptr(d.out.a)
	}
	if captured == 0 {
		return 0, err
	}
	destroyErr := d.call(cuGraphDestroy, captured)
	if err == nil && destroyErr != nil {
		_ = d.call(cuGraphExecDestroy, exec) // the first failure is returned
		err = destroyErr
	}
	return exec, err
}

// evictOldest destroys the least recently used graph if there are too many.
func (g *graphs) evictOldest(b *Backend) error {
	if len(g.byHash) < maxGraphs {
		return nil
	}
	var oldest uint64
	for hash, candidate := range g.byHash {
		current := g.byHash[oldest]
		if current == nil || candidate.lastUse < current.lastUse {
			oldest = hash
		}
	}
	exec := g.byHash[oldest].exec
	delete(g.byHash, oldest)
	delete(g.seen, oldest)
	return b.device.call(cuGraphExecDestroy, exec)
}

// clear destroys all graphs.
func (g *graphs) clear(b *Backend) (err error) {
	for hash, graph := range g.byHash {
		destroyErr := b.device.call(cuGraphExecDestroy, graph.exec)
		if err == nil {
			err = destroyErr
		}
		delete(g.byHash, hash)
	}
	clear(g.seen)
	return err
}
