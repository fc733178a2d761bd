package weights

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// NewSet returns a set of tensors in memory by their names. A name that is there twice is an error.
func NewSet(tensors []*Tensor, metadata map[string]string) (*Set, error) {
	s := newSet()
	return s, s.addTensors(tensors, metadata, nil, "there twice")
}

// OpenWith maps the file at name and hands its bytes to parse, which returns tensors whose Data are
// parts of them. The tensors then are read as those of Open. Errors do not name the file if parse's
// do not.
func OpenWith(name string, parse func(data []byte) ([]*Tensor, map[string]string, error)) (*Set,
	error) {
	src, err := openSource(name)
	if err != nil {
		return nil, err
	}
	s := newSet()
	s.sources = append(s.sources, src)
	var tensors []*Tensor
	var metadata map[string]string
	var parseErr error
	err = src.guard(func() { tensors, metadata, parseErr = parse(src.data) })
	// The file's error goes first: what parse made of bytes that were cut off is not the cause.
	err = cmp.Or(err, parseErr)
	if err == nil {
		err = s.addTensors(tensors, metadata, src, "there twice")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Join adds the tensors and the files of another set, which must not be used any more. A name that
// both have is an error.
func (s *Set) Join(part *Set) error {
	for _, name := range part.Names() {
		if s.tensors[name] != nil {
			return fmt.Errorf("tensor %q is in two parts", name)
		}
		s.tensors[name] = part.tensors[name]
	}
	maps.Copy(s.metadata, part.metadata)
	s.sources = append(s.sources, part.sources...)
	return nil
}

// addTensors adds tensors of a source. duplicate completes the error "tensor x is ..." for a name
// that the set has already.
func (s *Set) addTensors(tensors []*Tensor, metadata map[string]string, src *source,
	duplicate string) error {
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return err
		}
		if s.tensors[t.Name] != nil {
			return fmt.Errorf("tensor %q is %s", t.Name, duplicate)
		}
		t.src = src
		s.tensors[t.Name] = t
	}
	maps.Copy(s.metadata, metadata)
	return nil
}

// withoutTensors returns a set of the same files without tensors.
func (s *Set) withoutTensors() *Set {
	return &Set{
		tensors:  make(map[string]*Tensor, len(s.tensors)),
		outside:  slices.Clone(s.outside),
		prefix:   s.prefix,
		metadata: s.metadata,
		sources:  s.sources,
	}
}

// View returns a set of the same files in which each tensor has the name and the form that convert
// returns: the tensor itself, or a view of it. Errors name the tensors as convert does.
func (s *Set) View(convert func(name string, t *Tensor) (string, *Tensor, error)) (*Set, error) {
	view := s.withoutTensors()
	for _, oldName := range s.Names() {
		name, t, err := convert(oldName, s.tensors[oldName])
		if err != nil {
			return nil, err
		}
		if first := view.tensors[name]; first != nil {
			return nil, fmt.Errorf("tensors %q and %q are both %q", first.Name, t.Name, name)
		}
		if name != oldName {
			renamed := *t
			renamed.Name = name
			t = &renamed
		}
		view.tensors[name] = t
	}
	return view, nil
}

// SplitTensors returns a set of the same files in which a tensor for which partNames returns names
// is cut by rows into as many equal parts, each [rows, width], where width is the last dimension.
// Files that store all experts of a block as one tensor are read so. Rows that cannot be cut into
// so many equal parts are an error, and a name that is there twice.
func (s *Set) SplitTensors(partNames func(name string, t *Tensor) []string) (*Set, error) {
	view := s.withoutTensors()
	for _, wholeName := range s.Names() {
		whole := s.tensors[wholeName]
		names := partNames(wholeName, whole)
		if len(names) == 0 {
			if err := view.addTensor(wholeName, whole); err != nil {
				return nil, err
			}
			continue
		}
		for i, name := range names {
			part, err := whole.cutRows(i, len(names))
			if err != nil {
				return nil, err
			}
			part.Name = name
			if err := view.addTensor(name, part); err != nil {
				return nil, err
			}
		}
	}
	return view, nil
}

// addTensor adds a tensor under a name that no other has.
func (s *Set) addTensor(name string, t *Tensor) error {
	if s.tensors[name] != nil {
		return fmt.Errorf("tensor %q is there twice", name)
	}
	s.tensors[name] = t
	return nil
}

// cutRows returns the i-th of n equal parts of a tensor's rows, a view of its bytes.
func (t *Tensor) cutRows(i, n int) (*Tensor, error) {
	total, ok := countElements(t.Shape)
	if !ok || len(t.Shape) < 2 || t.heads > 0 || total == 0 || total/t.Shape[len(t.Shape)-1]%n != 0 {
		return nil, fmt.Errorf("tensor %q: %v is not %d parts of equal rows", t.Name, t.Shape, n)
	}
	data, err := t.elementBytes(i*(total/n), total/n)
	if err != nil {
		return nil, err
	}
	width := t.Shape[len(t.Shape)-1]
	part := *t
	part.Data = data
	part.Shape = []int{total / n / width, width}
	return &part, nil
}
