package weights

import (
	"cmp"
	"fmt"
	"slices"
)

// Sizes reads a network's sizes from its tensors. It keeps the first error, so that a configuration
// can read all sizes and check once. After an error every size is 1, so that no arithmetic on sizes
// divides by zero.
type Sizes struct {
	Set *Set

	// Err is the first error, nil if there was none.
	Err error
}

// maxDim is the largest dimension that is accepted as a size. Products of three such sizes fit 64
// bits.
const maxDim = 1 << 20

// Dim returns dimension i of a tensor with `dims` dimensions.
func (s *Sizes) Dim(name string, dims, i int) int {
	if s.Err != nil {
		return 1
	}
	t, ok := s.Set.Get(name)
	if !ok {
		s.Err = fmt.Errorf("tensor %q is missing", name)
		return 1
	}
	if len(t.Shape) != dims || slices.Contains(t.Shape, 0) || slices.Max(t.Shape) > maxDim {
		s.Err = fmt.Errorf("tensor %q has shape %v, want %d dimensions of 1 to %d", name, t.Shape, dims,
			maxDim)
		return 1
	}
	return t.Shape[i]
}

// Count returns how many consecutive tensors name0suffix, name1suffix, ... there are.
func (s *Sizes) Count(name, suffix string) int {
	n := 0
	for s.Has(fmt.Sprintf("%s%d%s", name, n, suffix)) {
		n++
	}
	return n
}

// Has reports whether there is a tensor of this name.
func (s *Sizes) Has(name string) bool {
	_, ok := s.Set.Get(name)
	return ok
}

// Fail keeps an error unless there was one before.
func (s *Sizes) Fail(format string, args ...any) {
	s.Err = cmp.Or(s.Err, fmt.Errorf(format, args...))
}
