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
	// Threads is the number of threads; 0 means all processors.
	Threads int

	// ISA is the instruction set as in UNMASK_ISA: avx512, avx2-vnni, avx2, neon or generic. ""
	// means that variable, or else the best.
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

	level simd.Level

	// mu is held by products and convolutions, which share the memory below.
	mu sync.Mutex

	workers []worker
	slabs   slabs
	product product
	conv    conv
	matMul  matMulJob
	head    headJob
}

// worker is the memory of one thread.
type worker struct {
	operand buffer // packed rows of activations
	tile    buffer // a tile of a product
	row     buffer // rows before they are packed
	band    buffer // prepared rows of an image, or weights of a tile's columns
	scratch buffer // what the kernels of block formats need

	_ [64]byte // so that threads do not share a cache line
}

// finishCall ends a call: every worker gets as much memory as the one that used most, so that the
// next call allocates nothing, whichever worker takes which item.
func (b *Backend) finishCall() {
	var largest [5]int
	for i := range b.workers {
		for j, m := range b.workers[i].buffers() {
			largest[j] = max(largest[j], len(m.data))
		}
	}
	for i := range b.workers {
		for j, m := range b.workers[i].buffers() {
			m.get(largest[j])
		}
	}
	b.mu.Unlock()
}

// buffers returns all memory of w.
func (w *worker) buffers() [5]*buffer {
	return [...]*buffer{&w.operand, &w.tile, &w.row, &w.band, &w.scratch}
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
	b.matMul.init()
	b.head.init(b)
	return b
}

// Name says what the backend runs on, such as "cpu avx2 x2".
func (b *Backend) Name() string { return fmt.Sprintf("cpu %v x%d", b.level, b.pool.Threads()) }

// New returns a zeroed float32 tensor, aligned to cache lines.
func (b *Backend) New(shape ...int) *tensor.Dense {
	data := b.slabs.newTensor(tensor.Shape(shape).TotalSize())
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data), tensor.WithEngine(b))
}
