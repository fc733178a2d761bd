package durable

import "fmt"

// run is what a folder and a file of lines have in common: the lock, the manifest, the outputs that
// wait for their turn, and the first error.
type run struct {
	fsys   FS
	name   string
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

// wait makes output i durable among those that wait.
func (r *run) wait(i int, seed uint64, data []byte) error {
	switch _, waits := r.ahead.entries[i]; {
	case i < r.m.done() || waits:
		return fmt.Errorf("%s: output %d is there already", r.name, i)
	case i >= r.m.end(i+1):
		return fmt.Errorf("%s: output %d, want %s", r.name, i, r.m.part)
	}
	return r.ahead.put(Entry{i, seed, digest(data)}, data)
}
