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
	linked bool // a file has a new name that may not be durable
}

// Fault is an output that differs from the manifest.
type Fault struct {
	Name    string // of the file, or of the manifest or line
	Problem string
}

func (f Fault) String() string { return f.Name + ": " + f.Problem }

// OpenFolder creates, opens or continues the run in dir, whose files end in ext (".png"), or part p
// of one, whose first output has the number p.First; nil is all of it. It returns an error for a
// run with other settings, and for a folder that is not a run's or that another process is writing.
//
// It checks sizes only: a listed file that is missing or empty is in Faults and Pending. Verify
// reads everything.
func openFolder(fsys fileSystem, dir string, s Settings, p *Part) (_ *Folder, err error) {
	info, err := fsys.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := fsys.Mkdir(dir); err != nil {
			return nil, err
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a %s, want a directory", dir, atomicfile.Kind(info))
	}
	f := &Folder{run: run{fsys: fsys, name: dir, waiting: map[int]waiting{}}}
	f.check, f.keep, f.place = f.notEmpty, f.file, f.placeFiles
	if f.unlock, err = fsys.Lock(filepath.Join(dir, lockName)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			f.unlock()
		}
	}()
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return n == lockName || strings.HasPrefix(n, ".") && strings.HasSuffix(n, ".tmp")
	})
	if len(names) > 0 && !slices.Contains(names, manifestName) {
		return nil, fmt.Errorf("%s has files (%s) but no %s, want an empty folder or one of a run", dir,
			names[0], manifestName)
	}
	if f.m, err = openManifest(fsys, dir, manifestName, s, p); err != nil {
		return nil, err
	}
	if err = f.clean(); err != nil {
		f.m.Close()
		return nil, err
	}
	return f, nil
}

// clean checks the listed outputs, and removes what a crash left of others.
func (f *Folder) clean() error {
	for _, e := range f.m.Entries {
		info, exists, err := regular(f.fsys, f.path(e.Index))
		switch {
		case err != nil:
			return err
		case !exists:
			f.fault(e.Index, "is missing")
		case info.Size() == 0:
			f.fault(e.Index, "is empty")
		}
	}
	names, err := f.fsys.ReadDir(f.name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if i, ours := outputIndex(n); !ours || i < f.m.done() {
			inner := strings.TrimSuffix(strings.TrimPrefix(n, "."), ".tmp")
			if _, ours := outputIndex(inner); !ours || n != temporary(inner) {
				continue
			}
		}
		if err := f.fsys.Remove(filepath.Join(f.name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) fault(i int, problem string) {
	f.faults = append(f.faults, Fault{f.Name(i), problem})
	f.faulty = append(f.faulty, i)
}

// Name returns the file name of output i.
func (f *Folder) Name(i int) string { return fmt.Sprintf("%06d%s", i, fileExtension) }

func (f *Folder) path(i int) string { return filepath.Join(f.name, f.Name(i)) }

// outputIndex returns the number of an output whose file has this name.
func outputIndex(name string) (int, bool) {
	number, ok := strings.CutSuffix(name, fileExtension)
	i, err := strconv.Atoi(number)
	return i, ok && err == nil && name == fmt.Sprintf("%06d%s", i, fileExtension)
}

// Done returns the number of outputs that the manifest lists.
func (f *Folder) Done() int { return len(f.m.Entries) }

// First returns the index of the first output: 0, except for a part.
func (f *Folder) First() int { return f.m.first() }

// Faults returns listed files that were missing or empty when the folder was opened.
func (f *Folder) Faults() []Fault { return f.faults }

// Span is the outputs First to First+N-1.
type Span struct{ First, N int }

// Missing returns the missing outputs of a run of n, in the order that Put takes. Before them come
// those of `also` that exist already but whose steps are needed again.
func (f *Folder) Missing(n int, also []int) (list []Span) {
	pending := f.Pending(n)
	wanted := slices.DeleteFunc(slices.Clone(also),
		func(i int) bool { return slices.Contains(pending, i) })
	for _, i := range append(wanted, pending...) {
		if last := len(list) - 1; last >= 0 && i == list[last].First+list[last].N {
			list[last].N++
			continue
		}
		list = append(list, Span{i, 1})
	}
	return list
}

func (f *Folder) notEmpty(i int, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: an empty output", f.path(i))
	}
	return data, nil
}

// file makes an output's file, or gives the one that has it another name; where links are not
// possible, it copies it.
func (f *Folder) file(i int, data []byte, name string) ([]byte, error) {
	if name != "" && f.fsys.Link(name, f.path(i)) == nil {
		f.linked = true
		return nil, nil
	}
	return nil, writeFile(f.fsys, f.name, f.Name(i), data)
}

// placeFiles makes the names of files durable, which writeFile does itself.
func (f *Folder) placeFiles([][]byte) error {
	if !f.linked {
		return nil
	}
	f.linked = false
	return f.fsys.SyncDir(f.name)
}

// Close releases the folder for other processes. It removes the files that still wait, but after an
// error, when the manifest may list them, that is left to the next opening.
func (f *Folder) Close() (err error) {
	for i := range f.waiting {
		if f.failed == nil {
			err = cmp.Or(err, f.fsys.Remove(f.path(i)))
		}
	}
	return cmp.Or(err, f.m.Close(), f.unlock())
}
