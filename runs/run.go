package runs

import (
	"fmt"
	"slices"
)

// run is what a folder and a file of lines have in common: the lock, the manifest, the outputs that
// wait for their turn, and the first error.
type run struct {
	fsys fileSystem
	name string
	// returns an output's bytes as they are kept, or why they are none
	check func(i int, data []byte) ([]byte, error)
	// makes what it can of an output durable: of these bytes, which file has too unless it is "". It
	// returns what is left for place.
	keep    func(i int, data []byte, file string) ([]byte, error)
	place   func(kept [][]byte) error // makes the next outputs durable
	m       *manifest
	faulty  []int           // listed outputs that are missing
	waiting map[int]waiting // outputs that are to be listed after others
	unlock  func() error
	failed  error
}

// waiting is an output that waits for its turn, and what keep left of it.
type waiting struct {
	entry Entry
	kept  []byte
}

// together is the number of outputs that Adopt lists with one sync of the manifest.
const together = 64

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
	for _, i := range r.faulty {
		if i < n {
			list = append(list, i)
		}
	}
	for i := r.m.done(); i < r.m.end(n); i++ {
		if _, waits := r.waiting[i]; !waits {
			list = append(list, i)
		}
	}
	return list
}

// Entry returns the entry of output i, listed or waiting, unless it is faulty.
func (r *run) Entry(i int) (Entry, bool) {
	if i >= r.m.first() && i < r.m.done() {
		return r.m.of(i), !slices.Contains(r.faulty, i)
	}
	w, ok := r.waiting[i]
	return w.entry, ok
}

// Digest returns the SHA-256 of output i; ok is false if there is none.
func (r *run) Digest(i int) (digest string, ok bool) {
	e, ok := r.Entry(i)
	return e.SHA256, ok
}

// Put takes output i, one of Pending, in any order: it makes it durable and lists it once all
// before it are. Of a line the newline is left out. What waits when a run is closed or killed is
// made again. After an error every Put fails; the run can be opened again.
func (r *run) Put(i int, seed uint64, data []byte) error {
	return r.try(func() error {
		data, err := r.check(i, data)
		if err != nil {
			return err
		}
		e := Entry{i, seed, DigestOf(data)}
		fault := slices.Index(r.faulty, i)
		if fault >= 0 && r.m.of(i) != e {
			return fmt.Errorf("%s: made again, output %d is not what the manifest lists", r.name, i)
		}
		if _, there := r.Entry(i); there {
			return fmt.Errorf("%s: output %d is there already", r.name, i)
		}
		if i < r.m.first() || i >= r.m.end(i+1) {
			return fmt.Errorf("%s: output %d, want %s", r.name, i, r.m.Part)
		}
		if data, err = r.keep(i, data, ""); err != nil {
			return err
		}
		if fault >= 0 {
			r.faulty = slices.Delete(r.faulty, fault, fault+1)
			return nil
		}
		r.waiting[i] = waiting{e, data}
		return nil
	}, r.release)
}

// release lists the waiting outputs that are next.
func (r *run) release() error {
	var list []Entry
	var kept [][]byte
	for i := r.m.done(); ; i++ {
		w, ok := r.waiting[i]
		if !ok {
			break
		}
		list, kept = append(list, w.entry), append(kept, w.kept)
	}
	if len(list) == 0 {
		return nil
	}
	if err := r.m.unchanged(); err != nil {
		return err
	}
	if err := r.place(kept); err != nil {
		return err
	}
	if err := r.m.append(list...); err != nil {
		return err
	}
	for _, e := range list {
		delete(r.waiting, e.Index)
	}
	return nil
}

// Adopt lists outputs of other runs, which must not be written any more; list begins at the next
// output. from returns the bytes of one as they are kept, and the file that has them. An output
// that does not match its entry is an error.
func (r *run) Adopt(list []Entry, from func(e Entry) (data []byte, file string, err error)) error {
	for part := range slices.Chunk(list, together) {
		_ = r.try(func() error {
			for _, e := range part {
				data, file, err := from(e)
				if err == nil && DigestOf(data) != e.SHA256 {
					err = fmt.Errorf("%s: output %d is not what its manifest lists", file, e.Index)
				}
				if err == nil {
					data, err = r.keep(e.Index, data, file)
				}
				if err != nil {
					return err
				}
				r.waiting[e.Index] = waiting{e, data}
			}
			return nil
		}, r.release)
	}
	return r.failed
}
