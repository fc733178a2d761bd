package runs

import (
	"fmt"
	"slices"
)

// run is what a folder and a file of lines have in common: the lock, the manifest, the outputs that
// wait for their turn, and the first error.
//
// The manifest lists outputs in order of their index, and only those whose bytes are on the disk
// already. So whatever a crash leaves, the listed outputs are whole, and what is not listed counts
// as never made: opening a run again removes it. The order also makes the manifest's bytes the same
// however many machines made the outputs, and whichever was the first.
type run struct {
	fsys fileSystem
	name string

	// check returns an output's bytes as they are stored, or why they cannot be an output.
	check func(i int, data []byte) ([]byte, error)

	// store makes what it can of an output durable before its turn: of these bytes, which file has
	// too unless it is "". It returns what is left for publish.
	store func(i int, data []byte, file string) ([]byte, error)

	// publish makes the next outputs durable, what store returned of them.
	publish func(unpublished [][]byte) error

	manifest *manifest

	// faulty are listed outputs that are missing or empty.
	faulty []int

	// waiting are outputs that are to be listed after others. They are not in the manifest, so a crash
	// loses them; whoever hands jobs out bounds how many there can be.
	waiting map[int]waitingOutput

	unlock func() error

	// failed is the first error. Nothing is written after it.
	failed error
}

// waitingOutput is an output that waits for its turn, and what store returned of it.
type waitingOutput struct {
	entry       Entry
	unpublished []byte
}

// Pending returns the indexes that a run of n outputs still has to make, without those that wait
// for their turn.
func (r *run) Pending(n int) (indexes []int) {
	for _, i := range r.faulty {
		if i < n {
			indexes = append(indexes, i)
		}
	}
	for i := r.manifest.nextIndex(); i < r.manifest.endIndex(n); i++ {
		if _, waits := r.waiting[i]; !waits {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// Entry returns the entry of output i, listed or waiting, unless it is faulty.
func (r *run) Entry(i int) (_ Entry, ok bool) {
	if i >= r.manifest.firstIndex() && i < r.manifest.nextIndex() {
		return r.manifest.entry(i), !slices.Contains(r.faulty, i)
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
	if r.failed == nil {
		r.failed = r.put(i, seed, data)
	}
	return r.failed
}

// put is Put where nothing has failed.
func (r *run) put(i int, seed uint64, data []byte) error {
	data, err := r.check(i, data)
	if err != nil {
		return err
	}
	e := Entry{i, seed, DigestOf(data)}
	// An output that a fault made pending is listed. Made again it must have the listed hash: other
	// bytes mean that the model or the program is not the one that began the run.
	fault := slices.Index(r.faulty, i)
	if fault >= 0 && r.manifest.entry(i) != e {
		return fmt.Errorf("%s: made again, output %d is not what the manifest lists", r.name, i)
	}
	if _, exists := r.Entry(i); exists {
		return fmt.Errorf("%s: output %d is there already", r.name, i)
	}
	if i < r.manifest.firstIndex() || i >= r.manifest.endIndex(i+1) {
		return fmt.Errorf("%s: output %d, want %s", r.name, i, r.manifest.Part)
	}

	unpublished, err := r.store(i, data, "")
	if err != nil {
		return err
	}
	if fault >= 0 {
		r.faulty = slices.Delete(r.faulty, fault, fault+1)
	} else {
		r.waiting[i] = waitingOutput{e, unpublished}
	}
	return r.listNext()
}

// listNext lists the waiting outputs that are next: first publish makes their bytes durable, then
// the manifest names them. The other way round, a crash between the two would leave names of
// outputs that are not there.
func (r *run) listNext() error {
	var entries []Entry
	var unpublished [][]byte
	for i := r.manifest.nextIndex(); ; i++ {
		w, ok := r.waiting[i]
		if !ok {
			break
		}
		entries = append(entries, w.entry)
		unpublished = append(unpublished, w.unpublished)
	}
	if len(entries) == 0 {
		return nil
	}
	if err := r.manifest.checkUnchanged(); err != nil {
		return err
	}
	if err := r.publish(unpublished); err != nil {
		return err
	}
	if err := r.manifest.addEntries(entries); err != nil {
		return err
	}
	for _, e := range entries {
		delete(r.waiting, e.Index)
	}
	return nil
}

// adoptBatch is the number of outputs that Adopt lists with one sync of the manifest. A sync takes
// milliseconds on many disks, and gathered runs have thousands of outputs.
const adoptBatch = 64

// Adopt lists outputs of other runs, which must not be written any more; entries begin at the next
// output. read returns the bytes of one as they are stored, and the file that has them. An output
// that does not match its entry is an error.
func (r *run) Adopt(entries []Entry,
	read func(e Entry) (data []byte, file string, err error)) error {
	for batch := range slices.Chunk(entries, adoptBatch) {
		if r.failed != nil {
			break
		}
		r.failed = r.adoptEntries(batch, read)
	}
	return r.failed
}

// adoptEntries lists one batch of Adopt.
func (r *run) adoptEntries(entries []Entry,
	read func(e Entry) (data []byte, file string, err error)) error {
	for _, e := range entries {
		data, file, err := read(e)
		if err != nil {
			return err
		}
		if DigestOf(data) != e.SHA256 {
			return fmt.Errorf("%s: output %d is not what its manifest lists", file, e.Index)
		}
		unpublished, err := r.store(e.Index, data, file)
		if err != nil {
			return err
		}
		r.waiting[e.Index] = waitingOutput{e, unpublished}
	}
	return r.listNext()
}
