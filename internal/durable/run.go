package durable

import (
	"cmp"
	"fmt"
	"slices"
)

// run is what a folder and a file of lines have in common: the lock, the manifest, the outputs that
// wait for their turn, and the first error.
type run struct {
	fsys FS
	name string
	// returns an output's bytes as they are kept, or why they are none
	check func(i int, data []byte) ([]byte, error)
	// makes the next outputs durable, whose bytes are in data or, where that is nil, in files
	place  func(list []Entry, data [][]byte, files []string) error
	links  bool // to files, which Adopt then does
	m      *manifest
	ahead  *ahead
	unlock func() error
	failed error
}

// try does one step after the other, unless one fails or has failed before.
func (r *run) try(steps ...func() error) error {
	for _, step := range steps {
		if r.failed == nil {
			r.failed = step()
		}
	}
	return r.failed
}

// Pending returns the indexes that a run of n outputs still has to make, without those that wait
// for their turn.
func (r *run) Pending(n int) (list []int) {
	for i := r.m.done(); i < r.m.end(n); i++ {
		if _, waits := r.ahead.entries[i]; !waits {
			list = append(list, i)
		}
	}
	return list
}

// Entry returns the entry of output i, listed or waiting.
func (r *run) Entry(i int) (Entry, bool) {
	if i >= r.m.first && i < r.m.done() {
		return r.m.of(i), true
	}
	e, ok := r.ahead.entries[i]
	return e, ok
}

// isNext returns an error unless output i follows the listed ones and k more.
func (r *run) isNext(i, k int) error {
	switch next := r.m.done() + k; {
	case r.m.part != nil && i >= r.m.end(i+1):
		return fmt.Errorf("%s: output %d, want %s", r.name, i, r.m.part)
	case i != next:
		return fmt.Errorf("%s: output %d after %d, want the next one", r.name, i, next-1)
	}
	return nil
}

// add makes the next outputs durable, then lists them.
func (r *run) add(list []Entry, data [][]byte, files []string) error {
	if err := r.m.unchanged(); err != nil {
		return err
	}
	if err := r.place(list, data, files); err != nil {
		return err
	}
	return r.m.append(list...)
}

// Put makes output i durable, then lists it. i is the next index. Of a line the newline is left
// out. After an error every Put fails; the run can be opened again.
func (r *run) Put(i int, seed uint64, data []byte) error {
	return r.try(func() error {
		data, err := r.check(i, data)
		if err = cmp.Or(err, r.isNext(i, 0)); err != nil {
			return err
		}
		return r.add([]Entry{r.m.next(seed, data)}, [][]byte{data}, nil)
	}, r.release)
}

// Take makes output i durable even if earlier ones are missing: the next one is listed, a later one
// waits in a folder. i must be neither listed nor waiting. After an error Take and Put fail; the
// run can be opened again.
func (r *run) Take(i int, seed uint64, data []byte) error {
	if i == r.m.done() {
		return r.Put(i, seed, data)
	}
	return r.try(func() error {
		data, err := r.check(i, data)
		switch _, waits := r.ahead.entries[i]; {
		case err != nil:
			return err
		case i < r.m.done() || waits:
			return fmt.Errorf("%s: output %d is there already", r.name, i)
		case i >= r.m.end(i+1):
			return fmt.Errorf("%s: output %d, want %s", r.name, i, r.m.part)
		}
		return r.ahead.put(Entry{i, seed, digest(data)}, data)
	})
}

// release lists the waiting outputs that are next.
func (r *run) release() error {
	for {
		list := r.ahead.run(r.m.done())
		if len(list) == 0 {
			return nil
		}
		var files []string
		for _, e := range list {
			files = append(files, r.ahead.path(e))
		}
		if err := r.add(list, nil, files); err != nil {
			return err
		}
		for k, e := range list {
			if err := r.fsys.Remove(files[k]); err != nil {
				return err
			}
			delete(r.ahead.entries, e.Index)
		}
	}
}

// Adopt lists outputs of other runs, which must not be written any more; list begins at the next
// output. from returns the bytes of one as they are kept, and the file that has them. An output
// that does not match its entry is an error.
func (r *run) Adopt(list []Entry, from func(e Entry) (data []byte, file string, err error)) error {
	for part := range slices.Chunk(list, together) {
		_ = r.try(func() error {
			var data [][]byte
			var files []string
			for k, e := range part {
				one, file, err := from(e)
				if err = cmp.Or(err, r.isNext(e.Index, k)); err != nil {
					return err
				}
				if digest(one) != e.SHA256 {
					return fmt.Errorf("%s: output %d is not what its manifest lists", file, e.Index)
				}
				if r.links {
					files = append(files, file)
				} else {
					data = append(data, one)
				}
			}
			return r.add(part, data, files)
		})
	}
	return r.failed
}
