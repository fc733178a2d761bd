package weights

import (
	"cmp"
	"fmt"
	"slices"
)

// Sizes reads a network's sizes from its tensors. It keeps the first error, so that a configuration
// can read all sizes and check once; after an error every size is 1.
type Sizes struct {
	Set *Set
	Err error
}

// maxDim is the largest dimension that is accepted as a size.
const maxDim = 1 << 20

// Dim returns dimension i of a tensor with `dims` dimensions.
func (s *Sizes) Dim(name string, dims, i int) int {
	t, ok := s.Set.Get(name)
	switch {
	case s.Err != nil:
	case !ok:
		s.Err = fmt.Errorf("tensor %q is missing", name)
	case len(t.Shape) != dims || slices.Contains(t.Shape, 0) || slices.Max(t.Shape) > maxDim:
		s.Err = fmt.Errorf("tensor %q has shape %v, want %d dimensions of 1 to %d", name, t.Shape, dims,
			maxDim)
	default:
		return t.Shape[i]
	}
	return 1
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
