package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
)

// Names in a run's folder.
const (
	manifestName = "manifest.jsonl"
	lockName     = ".lock"
)

// Folder is a run's folder of numbered files, 000000.png and so on, open for one writer.
type Folder struct {
	run
	faults []Fault

	// hasUnsyncedLinks reports whether a file has a new name that may not be durable.
	hasUnsyncedLinks bool
}

// Fault is an output that differs from the manifest.
type Fault struct {
	// Name is that of the file, of the manifest, or the number of a line.
	Name string

	Problem string
}

func (f Fault) String() string { return f.Name + ": " + f.Problem }

// openFolder is OpenFolder for the part p of a run, nil for all of it.
func openFolder(fsys fileSystem, dir string, s Settings, p *Part) (_ *Folder, err error) {
	if err := makeFolder(fsys, dir); err != nil {
		return nil, err
	}
	f := &Folder{run: run{fsys: fsys, name: dir, waiting: map[int]waitingOutput{}}}
	f.check = f.checkNotEmpty
	f.store = f.storeFile
	f.publish = f.syncLinks
	f.unlock, err = fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			f.unlock()
		}
	}()

	if err := checkIsRun(fsys, dir); err != nil {
		return nil, err
	}
	f.manifest, err = openManifest(fsys, dir, manifestName, s, p)
	if err != nil {
		return nil, err
	}
	if err = f.clean(); err != nil {
		f.manifest.Close()
		return nil, err
	}
	return f, nil
}

// makeFolder creates the directory dir, unless it exists.
func makeFolder(fsys fileSystem, dir string) error {
	info, err := fsys.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := fsys.Mkdir(dir); err != nil {
			return err
		}
		return fsys.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a %s, want a directory", dir, atomicfile.Kind(info))
	}
	return nil
}

// checkIsRun returns an error for a folder with files that are not a run's: clean would remove
// those with names of outputs.
func checkIsRun(fsys fileSystem, dir string) error {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		isTemporary := strings.HasPrefix(n, ".") && strings.HasSuffix(n, ".tmp")
		return n == lockName || isTemporary
	})
	if len(names) > 0 && !slices.Contains(names, manifestName) {
		return fmt.Errorf("%s has files (%s) but no %s, want an empty folder or one of a run", dir,
			names[0], manifestName)
	}
	return nil
}

// clean checks the listed outputs, and removes what a crash left of others.
func (f *Folder) clean() error {
	for _, e := range f.manifest.Entries {
		info, exists, err := statRegular(f.fsys, f.path(e.Index))
		switch {
		case err != nil:
			return err
		case !exists:
			f.addFault(e.Index, "is missing")
		case info.Size() == 0:
			f.addFault(e.Index, "is empty")
		}
	}

	names, err := f.fsys.ReadDir(f.name)
	if err != nil {
		return err
	}
	for _, n := range names {
		i, isOutput := outputIndex(n)
		isUnlisted := isOutput && i >= f.manifest.nextIndex() // it is made again, with the same bytes
		if !isUnlisted && !isTemporaryOutput(n) {
			continue
		}
		if err := f.fsys.Remove(filepath.Join(f.name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) addFault(i int, problem string) {
	f.faults = append(f.faults, Fault{f.Name(i), problem})
	f.faulty = append(f.faulty, i)
}

// outputName returns the file name of output i.
func outputName(i int) string { return fmt.Sprintf("%06d%s", i, fileExtension) }

// Name returns the file name of output i.
func (f *Folder) Name(i int) string { return outputName(i) }

func (f *Folder) path(i int) string { return filepath.Join(f.name, outputName(i)) }

// outputIndex returns the number of an output whose file has this name.
func outputIndex(name string) (i int, ok bool) {
	number, hasExtension := strings.CutSuffix(name, fileExtension)
	i, err := strconv.Atoi(number)
	return i, hasExtension && err == nil && name == outputName(i)
}

// isTemporaryOutput reports whether name is that of a file that becomes an output.
func isTemporaryOutput(name string) bool {
	output := strings.TrimSuffix(strings.TrimPrefix(name, "."), ".tmp")
	_, ok := outputIndex(output)
	return ok && name == temporaryName(output)
}

// Done returns the number of outputs that the manifest lists.
func (f *Folder) Done() int { return len(f.manifest.Entries) }

// First returns the index of the first output: 0, except for a part.
func (f *Folder) First() int { return f.manifest.firstIndex() }

// Faults returns listed files that were missing or empty when the folder was opened.
func (f *Folder) Faults() []Fault { return f.faults }

// Span is the outputs First to First+N-1.
type Span struct {
	First int
	N     int
}

// Missing returns the missing outputs of a run of n, in the order that Put takes. Before them come
// those of `also` that exist already but whose steps are needed again.
func (f *Folder) Missing(n int, also []int) (spans []Span) {
	pending := f.Pending(n)
	isPending := func(i int) bool { return slices.Contains(pending, i) }
	existing := slices.DeleteFunc(slices.Clone(also), isPending)
	for _, i := range append(existing, pending...) {
		last := len(spans) - 1
		if last >= 0 && i == spans[last].First+spans[last].N {
			spans[last].N++
		} else {
			spans = append(spans, Span{i, 1})
		}
	}
	return spans
}

// checkNotEmpty implements run.check. An empty file is how a crash may leave one, so no output is.
func (f *Folder) checkNotEmpty(i int, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: an empty output", f.path(i))
	}
	return data, nil
}

// storeFile implements run.store: it makes an output's file, or gives the one that has it another
// name, so that gathered runs take no more room than their parts. Where links are not possible, as
// between two disks, it copies the file.
func (f *Folder) storeFile(i int, data []byte, file string) ([]byte, error) {
	if file != "" && f.fsys.Link(file, f.path(i)) == nil {
		f.hasUnsyncedLinks = true
		return nil, nil
	}
	return nil, writeFile(f.fsys, f.name, f.Name(i), data)
}

// syncLinks implements run.publish: it makes the names of files durable, which writeFile does
// itself.
func (f *Folder) syncLinks([][]byte) error {
	if !f.hasUnsyncedLinks {
		return nil
	}
	f.hasUnsyncedLinks = false
	return f.fsys.SyncDir(f.name)
}

// Close releases the folder for other processes. It removes the files that still wait for their
// turn, but not after an error: the manifest may list them then, if the write failed only after it
// had reached the disk. The next opening reads the manifest and knows.
func (f *Folder) Close() (err error) {
	if f.failed == nil {
		for i := range f.waiting {
			removeErr := f.fsys.Remove(f.path(i))
			err = cmp.Or(err, removeErr)
		}
	}
	closeErr := f.manifest.Close()
	unlockErr := f.unlock()
	return cmp.Or(err, closeErr, unlockErr)
}
