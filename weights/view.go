package weights

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// NewSet returns a set of tensors in memory by their names.
func NewSet(tensors []*Tensor, metadata map[string]string) (*Set, error) {
	s := newSet()
	return s, s.join(tensors, metadata, nil, "there twice")
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
	var failed error
	err = src.guard(func() { tensors, metadata, failed = parse(src.data) })
	if err = cmp.Or(err, failed); err == nil {
		err = s.join(tensors, metadata, src, "there twice")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// join adds tensors of a source. twice says where a name was seen before.
func (s *Set) join(tensors []*Tensor, metadata map[string]string, src *source, twice string) error {
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return err
		}
		if s.tensors[t.Name] != nil {
			return fmt.Errorf("tensor %q is %s", t.Name, twice)
		}
		t.src = src
		s.tensors[t.Name] = t
	}
	maps.Copy(s.metadata, metadata)
	return nil
}

// like returns a set of the same files without tensors.
func (s *Set) like() *Set {
	return &Set{tensors: make(map[string]*Tensor, len(s.tensors)), metadata: s.metadata,
		sources: s.sources, prefix: s.prefix, outside: slices.Clone(s.outside)}
}

// View returns a set of the same files in which see gives each tensor's name and the tensor itself,
// or a view of it. Errors name the tensors as see does.
func (s *Set) View(see func(name string, t *Tensor) (string, *Tensor, error)) (*Set, error) {
	v := s.like()
	for _, old := range s.Names() {
		name, t, err := see(old, s.tensors[old])
		if err != nil {
			return nil, err
		}
		if first := v.tensors[name]; first != nil {
			return nil, fmt.Errorf("tensors %q and %q are both %q", first.Name, t.Name, name)
		}
		if old != name {
			named := *t
			named.Name = name
			t = &named
		}
		v.tensors[name] = t
	}
	return v, nil
}

// SplitTensors returns a set of the same files in which a tensor for which names returns names is
// cut by rows into as many equal parts, each [rows, width], where width is the last dimension.
func (s *Set) SplitTensors(names func(name string, t *Tensor) []string) (*Set, error) {
	v := s.like()
	for _, old := range s.Names() {
		t := s.tensors[old]
		into := names(old, t)
		for i, name := range into {
			part, err := t.part(i, len(into))
			if err != nil {
				return nil, err
			}
			part.Name = name
			if err := v.put(name, part); err != nil {
				return nil, err
			}
		}
		if len(into) == 0 {
			if err := v.put(old, t); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// put adds a tensor under a name.
func (s *Set) put(name string, t *Tensor) error {
	if s.tensors[name] != nil {
		return fmt.Errorf("tensor %q is there twice", name)
	}
	s.tensors[name] = t
	return nil
}

// part returns the i-th of n equal parts of a tensor's rows.
func (t *Tensor) part(i, n int) (*Tensor, error) {
	total, ok := numel(t.Shape)
	if !ok || len(t.Shape) < 2 || t.heads > 0 || total == 0 || total/t.Shape[len(t.Shape)-1]%n != 0 {
		return nil, fmt.Errorf("tensor %q: %v is not %d parts of equal rows", t.Name, t.Shape, n)
	}
	data, err := t.span(i*(total/n), total/n)
	if err != nil {
		return nil, err
	}
	part, width := *t, t.Shape[len(t.Shape)-1]
	part.Data, part.Shape = data, []int{total / n / width, width}
	return &part, nil
}
