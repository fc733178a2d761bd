// Package cpu is the backend for processors: AVX-512, AVX2, NEON or plain Go kernels, chosen at
// run time, on a pool of threads.
//
// Results do not depend on the number of threads, on the number of rows in a call, or on a row's
// place among them.
package cpu

import (
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/parallel"
	"unmask/internal/simd"
)

// Options choose threads and instruction set.
type Options struct {
	Threads int // 0: all processors
	// as in UNMASK_ISA: avx512, avx2-vnni, avx2, neon, generic; "" means that variable, or the best
	ISA string
}

// Backend computes on the processor. It is a gorgonia engine whose matrix products run on its own
// kernels; gorgonia's other operations run on its default engine.
//
// It may be called concurrently; one call at a time uses the threads.
type Backend struct {
	tensor.StdEng
	backend.HostCopies
	vectors

	level   simd.Level
	mu      sync.Mutex // held by products and convolutions, which share the memory below
	workers []worker
	slabs   slabs
	product product
	conv    conv
	engine  engine
	heads   heads
}

// worker is the memory of one thread.
type worker struct {
	a, tile, row, band, scratch buffer

	_ [64]byte // so that threads do not share a cache line
}

// done ends a call: every worker gets as much memory as the one that used most, so that the next
// call allocates nothing, whichever worker takes which item.
func (b *Backend) done() {
	var most [5]int
	for pass := range 2 {
		for i := range b.workers {
			w := &b.workers[i]
			for j, m := range [...]*buffer{&w.a, &w.tile, &w.row, &w.band, &w.scratch} {
				if pass == 0 {
					most[j] = max(most[j], len(m.data))
				} else {
					m.get(most[j])
				}
			}
		}
	}
	b.mu.Unlock()
}

// CheckISA returns an error unless this machine has the instruction set isa, or UNMASK_ISA if isa
// is "".
func CheckISA(isa string) error {
	_, err := simd.Select(isa)
	return err
}

// New returns a backend. It panics if CheckISA returns an error.
func New(o Options) *Backend {
	level, err := simd.Select(o.ISA)
	if err != nil {
		panic("cpu: New: " + err.Error())
	}
	b := &Backend{level: level}
	b.vectors.init(parallel.New(o.Threads), level)
	b.workers = make([]worker, b.pool.Threads())
	b.product.init(b)
	b.conv.init(b)
	b.engine.init()
	b.heads.init(b)
	return b
}

// Name says what the backend runs on, such as "cpu avx2 x2".
func (b *Backend) Name() string { return fmt.Sprintf("cpu %v x%d", b.level, b.pool.Threads()) }

// New returns a zeroed float32 tensor, aligned to cache lines.
func (b *Backend) New(shape ...int) *tensor.Dense {
	data := b.slabs.tensor(tensor.Shape(shape).TotalSize())
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data), tensor.WithEngine(b))
}
