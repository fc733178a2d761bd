package durable

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
	aheadFolder  = ".ahead" // of outputs that wait for their turn
)

// Folder is a run's folder of numbered files, 000000.png and so on, open for one writer.
type Folder struct {
	run
	dir    string
	ext    string
	faults []Fault
	faulty []int
}

// Fault is an output that differs from the manifest.
type Fault struct {
	Name    string // of the file, or of the manifest or line
	Problem string
}

func (f Fault) String() string { return f.Name + ": " + f.Problem }

// OpenFolder creates, opens or continues the run in dir, whose files end in ext (".png"). It
// returns an error for a run with other settings, and for a folder that is not a run's or that
// another process is writing.
//
// It checks sizes only: a listed file that is missing or empty is in Faults and Pending. Verify
// reads everything.
func OpenFolder(fsys FS, dir, ext string, s Settings) (*Folder, error) {
	return OpenFolderRange(fsys, dir, ext, s, nil)
}

// OpenFolderRange is OpenFolder for part p of a run, nil for all of it. The first output has the
// number p.First.
func OpenFolderRange(fsys FS, dir, ext string, s Settings, p *Range) (_ *Folder, err error) {
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
	f := &Folder{run: run{fsys: fsys, name: dir}, dir: dir, ext: ext}
	f.check, f.place, f.links = f.notEmpty, f.placeFiles, true
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
		return n == lockName || n == aheadFolder ||
			strings.HasPrefix(n, ".") && strings.HasSuffix(n, ".tmp")
	})
	if len(names) > 0 && !slices.Contains(names, manifestName) {
		return nil, fmt.Errorf("%s has files (%s) but no %s, want an empty folder or one of a run", dir,
			names[0], manifestName)
	}
	if f.m, err = openManifest(fsys, dir, manifestName, s, p); err != nil {
		return nil, err
	}
	if f.ahead, err = openAhead(fsys, dir, aheadFolder, ext, f.m.done()); err == nil {
		if err = f.clean(); err == nil {
			err = f.release()
		}
	}
	if err != nil {
		f.m.Close()
		return nil, err
	}
	return f, nil
}

// clean removes what a crash left of the outputs after the last listed one, and checks the listed
// ones.
func (f *Folder) clean() error {
	next := f.m.done()
	for i := f.m.first; i < next+together; i++ {
		info, exists, err := regular(f.fsys, f.path(i))
		switch {
		case err != nil:
			return err
		case i >= next && exists:
			if err := f.fsys.Remove(f.path(i)); err != nil {
				return err
			}
		case i >= next:
		case !exists:
			f.fault(i, "is missing")
		case info.Size() == 0:
			f.fault(i, "is empty")
		}
	}
	names, err := f.fsys.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		inner, ok := strings.CutSuffix(strings.TrimPrefix(n, "."), ".tmp")
		if _, ours := f.index(inner); !ok || !ours || n != temporary(inner) {
			continue
		}
		if err := f.fsys.Remove(filepath.Join(f.dir, n)); err != nil {
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
func (f *Folder) Name(i int) string { return fmt.Sprintf("%06d%s", i, f.ext) }

func (f *Folder) path(i int) string { return filepath.Join(f.dir, f.Name(i)) }

// index returns the number of an output's file name.
func (f *Folder) index(name string) (int, bool) { return outputIndex(name, f.ext) }

func outputIndex(name, ext string) (int, bool) {
	number, ok := strings.CutSuffix(name, ext)
	i, err := strconv.Atoi(number)
	return i, ok && err == nil && name == fmt.Sprintf("%06d%s", i, ext)
}

// Done returns the number of outputs that the manifest lists.
func (f *Folder) Done() int { return len(f.m.entries) }

// First returns the index of the first output: 0, except for a part.
func (f *Folder) First() int { return f.m.first }

// Faults returns listed files that were missing or empty when the folder was opened.
func (f *Folder) Faults() []Fault { return f.faults }

// Pending returns the indexes that a run of n outputs still has to make, in the order for Put.
// Outputs that wait in .ahead are left out: Put lists them when their turn comes, and must not be
// called for them.
func (f *Folder) Pending(n int) []int {
	var list []int
	for _, i := range f.faulty {
		if i < n {
			list = append(list, i)
		}
	}
	return append(list, f.run.Pending(n)...)
}

// Put is that of a run, or writes a faulty output again, whose bytes must match the manifest.
func (f *Folder) Put(i int, seed uint64, data []byte) error {
	at := slices.Index(f.faulty, i)
	if at < 0 {
		return f.run.Put(i, seed, data)
	}
	return f.try(func() error {
		if f.m.of(i) != (Entry{i, seed, digest(data)}) {
			return fmt.Errorf("%s: made again it differs from what %s lists", f.path(i), manifestName)
		}
		if err := cmp.Or(f.m.unchanged(), writeFile(f.fsys, f.dir, f.Name(i), data)); err != nil {
			return err
		}
		f.faulty = slices.Delete(f.faulty, at, at+1)
		return nil
	})
}

// Take is that of a run; i may also be faulty.
func (f *Folder) Take(i int, seed uint64, data []byte) error {
	if slices.Contains(f.faulty, i) {
		return f.Put(i, seed, data)
	}
	return f.run.Take(i, seed, data)
}

// Entry returns the entry of output i, listed or waiting, unless it is faulty.
func (f *Folder) Entry(i int) (Entry, bool) {
	if slices.Contains(f.faulty, i) {
		return Entry{}, false
	}
	return f.run.Entry(i)
}

func (f *Folder) notEmpty(i int, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: an empty output", f.path(i))
	}
	return data, nil
}

// placeFiles writes files, or gives those that are there another name; where links are not
// possible, it copies them.
func (f *Folder) placeFiles(list []Entry, data [][]byte, files []string) (err error) {
	for k, e := range list {
		var one []byte
		if files == nil {
			one = data[k]
		} else if f.fsys.Link(files[k], f.path(e.Index)) == nil {
			continue
		} else if one, err = readFile(f.fsys, files[k]); err != nil {
			return err
		}
		if err := writeFile(f.fsys, f.dir, f.Name(e.Index), one); err != nil {
			return err
		}
	}
	if files == nil { // writeFile has made the names durable
		return nil
	}
	return f.fsys.SyncDir(f.dir)
}

// Close releases the folder for other processes.
func (f *Folder) Close() error { return cmp.Or(f.ahead.close(), f.m.Close(), f.unlock()) }
