package weights

import (
	"fmt"
	"sort"
)

// NewSet returns a set of tensors in memory by their names.
func NewSet(tensors []*Tensor, metadata map[string]string) (*Set, error) {
	s := newSet()
	return s, s.join(tensors, metadata, nil)
}

// OpenAs maps the file at name and hands its bytes to parse, which returns tensors whose Data are
// parts of them. The tensors then are read as those of Open. Errors do not name the file if parse's
// do not.
func OpenAs(name string, parse func(data []byte) ([]*Tensor, map[string]string, error)) (*Set,
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
	if err == nil {
		err = failed
	}
	if err == nil {
		err = s.join(tensors, metadata, src)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// join adds tensors of a source.
func (s *Set) join(tensors []*Tensor, metadata map[string]string, src *source) error {
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return err
		}
		if s.tensors[t.Name] != nil {
			return fmt.Errorf("tensor %q is there twice", t.Name)
		}
		t.src = src
		s.tensors[t.Name] = t
		s.names = append(s.names, t.Name)
	}
	for k, v := range metadata {
		s.metadata[k] = v
	}
	sort.Strings(s.names)
	return nil
}

// View returns a set of the same files in which see gives each tensor's name and the tensor itself,
// or a view of it. Errors name the tensors as see does.
func (s *Set) View(see func(name string, t *Tensor) (string, *Tensor, error)) (*Set, error) {
	v := &Set{tensors: map[string]*Tensor{}, metadata: s.metadata, sources: s.sources,
		prefix: s.prefix, outside: s.outside}
	for _, old := range s.names {
		name, t, err := see(old, s.tensors[old])
		if err != nil {
			return nil, err
		}
		if v.tensors[name] != nil {
			return nil, fmt.Errorf("tensors %q and %q are both %q", v.tensors[name].Name, t.Name, name)
		}
		if old != name {
			named := *t
			named.Name = name
			t = &named
		}
		v.tensors[name] = t
		v.names = append(v.names, name)
	}
	sort.Strings(v.names)
	return v, nil
}

// Parts returns a set of the same files in which a tensor for which names returns names is cut by
// rows into as many equal parts, each [rows, width], where width is the last dimension.
func (s *Set) Parts(names func(name string, t *Tensor) []string) (*Set, error) {
	v := &Set{tensors: map[string]*Tensor{}, metadata: s.metadata, sources: s.sources,
		prefix: s.prefix, outside: s.outside}
	add := func(name string, t *Tensor) error {
		if v.tensors[name] != nil {
			return fmt.Errorf("tensor %q is there twice", name)
		}
		v.tensors[name] = t
		v.names = append(v.names, name)
		return nil
	}
	for _, old := range s.names {
		t := s.tensors[old]
		into := names(old, t)
		if len(into) == 0 {
			if err := add(old, t); err != nil {
				return nil, err
			}
			continue
		}
		for i, name := range into {
			part, err := t.part(i, len(into))
			if err == nil {
				part.Name = name
				err = add(name, part)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	sort.Strings(v.names)
	return v, nil
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
