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
	pool *parallel.Pool
	ops  vec.Ops

	// multipliesPairs says that the processor multiplies pairs of bfloat16 and of 16-bit integers.
	multipliesPairs bool

	rows       jobList[rowJob]
	splits     jobList[splitJob]
	headNorms  jobList[headNormJob]
	attentions jobList[attentionJob]
	groups     jobList[groupJob]
	pools      jobList[poolJob]
}

func (v *vectors) init(pool *parallel.Pool, level simd.Level) {
	v.pool = pool
	v.ops = vec.Ops(level.ISA)
	v.multipliesPairs = level.BF16 && level.VNNI
}

// jobList is a list of unused jobs.
type jobList[T any] struct {
	mu   sync.Mutex
	jobs []*T
}

// take returns a free job, or a new one initialised by setup.
func (f *jobList[T]) take(setup func(*T)) *T {
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

// put makes j a free job. It must have dropped its call's tensors.
func (f *jobList[T]) put(j *T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, j)
}

// resized returns n undefined values, in x's memory if they fit.
func resized[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }

// segmentBlocks divides segments into blocks of a few rows, the items of a parallel call.
type segmentBlocks struct {
	segs []backend.Segment

	// size is the number of rows of a block; a segment's last block may have fewer.
	size int

	// first is the index of each segment's first block.
	first []int
}

// setSegments divides segs into blocks of `size` rows and returns the number of blocks.
func (b *segmentBlocks) setSegments(segs []backend.Segment, size int) int {
	b.segs = segs
	b.size = size
	b.first = resized(b.first, len(segs))
	n := 0
	for i, s := range segs {
		b.first[i] = n
		n += (s.Rows + size - 1) / size
	}
	return n
}

// block returns block i: rows begin..end-1 of a segment.
func (b *segmentBlocks) block(i int) (s backend.Segment, begin, end int) {
	k := sort.Search(len(b.first), func(k int) bool { return b.first[k] > i }) - 1
	s = b.segs[k]
	begin = (i - b.first[k]) * b.size
	return s, begin, min(begin+b.size, s.Rows)
}
