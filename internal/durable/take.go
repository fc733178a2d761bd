package durable

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// Take makes output i durable even if earlier ones are missing: the next one is listed, a later one
// waits in the folder .ahead. i must be neither listed nor waiting, or faulty. After an error Take
// and Put fail; the folder can be opened again.
func (f *Folder) Take(i int, seed uint64, data []byte) error {
	if i == f.m.done() || slices.Contains(f.faulty, i) {
		return f.Put(i, seed, data)
	}
	return f.try(func() error {
		if len(data) == 0 {
			return fmt.Errorf("%s: an empty output", f.path(i))
		}
		return f.wait(i, seed, data)
	})
}

// release lists the waiting outputs that are next.
func (f *Folder) release() error {
	for {
		list := f.ahead.run(f.m.done())
		if len(list) == 0 {
			return nil
		}
		if err := f.m.unchanged(); err != nil {
			return err
		}
		for _, e := range list {
			if err := f.fsys.Rename(f.ahead.path(e), f.path(e.Index)); err != nil {
				return err
			}
			delete(f.ahead.entries, e.Index)
		}
		if err := f.fsys.SyncDir(f.dir); err != nil {
			return err
		}
		if err := f.m.append(list...); err != nil {
			return err
		}
	}
}

// Entry returns the entry of output i, listed or waiting.
func (f *Folder) Entry(i int) (Entry, bool) {
	if slices.Contains(f.faulty, i) {
		return Entry{}, false
	}
	return f.run.Entry(i)
}

// Adopt links files of other folders, which must not be written any more, and lists them; it copies
// where links are not possible. list begins at the next output. A file that does not match its
// entry is an error.
func (f *Folder) Adopt(list []Entry, from func(e Entry) string) error {
	for part := range slices.Chunk(list, together) {
		_ = f.try(func() error { return f.adopt(part, from) })
	}
	return f.failed
}

func (f *Folder) adopt(list []Entry, from func(e Entry) string) error {
	if err := f.m.unchanged(); err != nil {
		return err
	}
	for k, e := range list {
		if err := f.isNext(e.Index, k); err != nil {
			return err
		}
		source := from(e)
		if _, _, err := regular(f.fsys, source); err != nil {
			return err
		}
		data, err := readFile(f.fsys, source)
		if err != nil {
			return err
		}
		if digest(data) != e.SHA256 {
			return fmt.Errorf("%s is not what its manifest lists", source)
		}
		if err := ignoreMissing(f.fsys.Remove(f.path(e.Index))); err != nil {
			return err
		}
		if f.fsys.Link(source, f.path(e.Index)) != nil {
			if err := writeFile(f.fsys, f.dir, f.Name(e.Index), data); err != nil {
				return err
			}
		}
	}
	if err := f.fsys.SyncDir(f.dir); err != nil {
		return err
	}
	return f.m.append(list...)
}

// Take makes line i, without its newline, durable even if earlier ones are missing: it then waits
// in a folder beside the file. i must be neither listed nor waiting. After an error Take and Put
// fail; the file can be opened again.
func (l *Lines) Take(i int, seed uint64, line []byte) error {
	if i == l.m.done() {
		return l.Put(i, seed, line)
	}
	return l.try(func() error {
		if bytes.IndexByte(line, '\n') >= 0 {
			return fmt.Errorf("%s: output %d has several lines, want one", l.name, i)
		}
		return l.wait(i, seed, append(bytes.Clone(line), '\n'))
	})
}

// release appends the waiting lines that are next.
func (l *Lines) release() error {
	for {
		list := l.ahead.run(l.m.done())
		if len(list) == 0 {
			return nil
		}
		var lines []byte
		for _, e := range list {
			line, err := readFile(l.fsys, l.ahead.path(e))
			if err != nil {
				return err
			}
			lines = append(lines, line...)
		}
		if err := l.append(list, lines); err != nil {
			return err
		}
		for _, e := range list {
			if err := l.fsys.Remove(l.ahead.path(e)); err != nil {
				return err
			}
			delete(l.ahead.entries, e.Index)
		}
	}
}

// Adopt appends lines of other files, with their newlines, as the next outputs. A line that does
// not match its entry is an error that names the file that line returned with it.
func (l *Lines) Adopt(list []Entry,
	line func(e Entry) (data []byte, file string, err error)) error {
	for part := range slices.Chunk(list, together) {
		_ = l.try(func() error { return l.adopt(part, line) })
	}
	return l.failed
}

func (l *Lines) adopt(list []Entry,
	line func(e Entry) (data []byte, file string, err error)) error {
	var all []byte
	for k, e := range list {
		data, file, err := line(e)
		switch {
		case err != nil || l.isNext(e.Index, k) != nil:
			return cmp.Or(err, l.isNext(e.Index, k))
		case digest(data) != e.SHA256:
			return fmt.Errorf("%s: the line of output %d is not what its manifest lists", file, e.Index)
		}
		all = append(all, data...)
	}
	return l.append(list, all)
}

// aheadName returns the folder of waiting lines for the file base.
func aheadName(base string) string { return "." + base + ".ahead" }

// aheadFolder is the folder of waiting files in a run's folder.
const aheadFolder = ".ahead"

func aheadOf(fsys FS, name string, next int) (*ahead, error) {
	dir, base := filepath.Split(name)
	return openAhead(fsys, filepath.Clean(dir), aheadName(base), "", next)
}
