package cpu

import (
	"slices"
	"sort"
	"sync"

	"unmask/backend"
	"unmask/internal/parallel"
	"unmask/internal/simd"
	"unmask/internal/simd/vec"
)

// vectors are the kernels other than the products with weights. A device embeds them.
//
// A call takes a job, which holds its arguments and memory for the workers, from a list of free
// ones and puts it back, so kernels stop allocating once they have run.
type vectors struct {
	pool   *parallel.Pool
	ops    vec.Ops
	halves bool // the processor multiplies pairs of bfloat16 and of 16-bit integers

	rows       free[rowJob]
	splits     free[splitJob]
	headNorms  free[headsJob]
	attentions free[attentionJob]
	groups     free[groupJob]
	pools      free[poolJob]
}

func (v *vectors) init(pool *parallel.Pool, level simd.Level) {
	v.pool, v.ops, v.halves = pool, vec.Ops(level.ISA), level.BF16 && level.VNNI
}

// free is a list of unused jobs.
type free[T any] struct {
	mu   sync.Mutex
	jobs []*T
}

// take returns a free job, or a new one initialised by setup.
func (f *free[T]) take(setup func(*T)) *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.jobs); n > 0 {
		j := f.jobs[n-1]
		f.jobs = f.jobs[:n-1]
		return j
	}
	j := new(T)
	setup(j)
	return j
}

func (f *free[T]) put(j *T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, j)
}

// grown returns n undefined values, in x's memory if they fit.
func grown[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }

// blocks divides segments into blocks of a few rows, the items of a parallel call.
type blocks struct {
	segs  []backend.Segment
	size  int
	first []int // index of each segment's first block
}

// cut returns the number of blocks.
func (b *blocks) cut(segs []backend.Segment, size int) int {
	b.segs, b.size, b.first = segs, size, grown(b.first, len(segs))
	n := 0
	for i, s := range segs {
		b.first[i] = n
		n += (s.Rows + size - 1) / size
	}
	return n
}

// at returns block i: rows from..to-1 of a segment.
func (b *blocks) at(i int) (s backend.Segment, from, to int) {
	at := sort.Search(len(b.first), func(k int) bool { return b.first[k] > i }) - 1
	s = b.segs[at]
	from = (i - b.first[at]) * b.size
	return s, from, min(from+b.size, s.Rows)
}
