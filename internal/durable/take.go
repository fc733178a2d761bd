package durable

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
)

// Take makes output i durable even if earlier ones are missing: the next one is listed, a later one
// waits in the folder .ahead. i must be neither listed nor waiting, or faulty. After an error Take
// and Put fail; the folder can be opened again.
func (f *Folder) Take(i int, seed uint64, data []byte) error {
	if f.failed == nil {
		f.failed = f.take(i, seed, data)
	}
	return f.failed
}

func (f *Folder) take(i int, seed uint64, data []byte) error {
	next := f.m.done()
	if i == next || slices.Contains(f.faulty, i) {
		if err := f.put(i, seed, data); err != nil {
			return err
		}
		return f.release()
	}
	switch _, waits := f.ahead.entries[i]; {
	case len(data) == 0:
		return fmt.Errorf("%s: an empty output", f.path(i))
	case i < next || waits:
		return fmt.Errorf("%s: output %d is there already", f.dir, i)
	case i >= f.m.end(i+1):
		return fmt.Errorf("%s: output %d, want %s", f.dir, i, f.m.part)
	}
	return f.ahead.put(Entry{i, seed, digest(data)}, data)
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
	return f.m.find(f.ahead, i)
}

// Adopt links files of other folders, which must not be written any more, and lists them; it copies
// where links are not possible. list begins at the next output. A file that does not match its
// entry is an error.
func (f *Folder) Adopt(list []Entry, from func(e Entry) string) error {
	for part := range slices.Chunk(list, together) {
		if f.failed == nil {
			f.failed = f.adopt(part, from)
		}
		if f.failed != nil {
			return f.failed
		}
	}
	return nil
}

func (f *Folder) adopt(list []Entry, from func(e Entry) string) error {
	if err := f.m.unchanged(); err != nil {
		return err
	}
	for k, e := range list {
		if e.Index != f.m.done()+k {
			return fmt.Errorf("%s: output %d after %d, want the next one", f.dir, e.Index,
				f.m.done()+k-1)
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
	if l.failed == nil {
		l.failed = l.take(i, seed, line)
	}
	return l.failed
}

func (l *Lines) take(i int, seed uint64, line []byte) error {
	next := l.m.done()
	if i == next {
		if err := l.put(i, seed, line); err != nil {
			return err
		}
		return l.release()
	}
	switch _, waits := l.ahead.entries[i]; {
	case bytes.IndexByte(line, '\n') >= 0:
		return fmt.Errorf("%s: output %d has several lines, want one", l.name, i)
	case i < next || waits:
		return fmt.Errorf("%s: output %d is there already", l.name, i)
	case i >= l.m.end(i+1):
		return fmt.Errorf("%s: output %d, want %s", l.name, i, l.m.part)
	}
	line = append(bytes.Clone(line), '\n')
	return l.ahead.put(Entry{i, seed, digest(line)}, line)
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

// Entry returns the entry of line i, listed or waiting.
func (l *Lines) Entry(i int) (Entry, bool) { return l.m.find(l.ahead, i) }

// Adopt appends lines of other files, with their newlines, as the next outputs. A line that does
// not match its entry is an error that names the file that line returned with it.
func (l *Lines) Adopt(list []Entry,
	line func(e Entry) (data []byte, file string, err error)) error {
	for part := range slices.Chunk(list, together) {
		if l.failed == nil {
			l.failed = l.adopt(part, line)
		}
		if l.failed != nil {
			return l.failed
		}
	}
	return nil
}

func (l *Lines) adopt(list []Entry,
	line func(e Entry) (data []byte, file string, err error)) error {
	var all []byte
	for k, e := range list {
		data, file, err := line(e)
		switch {
		case err != nil:
			return err
		case e.Index != l.m.done()+k:
			return fmt.Errorf("%s: output %d after %d, want the next one", l.name, e.Index,
				l.m.done()+k-1)
		case digest(data) != e.SHA256:
			return fmt.Errorf("%s: the line of output %d is not what its manifest lists", file, e.Index)
		}
		all = append(all, data...)
	}
	return l.append(list, all)
}

// find returns the entry of output i, listed or waiting.
func (m *manifest) find(a *ahead, i int) (Entry, bool) {
	if i >= m.first && i < m.done() {
		return m.of(i), true
	}
	e, ok := a.entries[i]
	return e, ok
}

// aheadName returns the folder of waiting lines for the file base.
func aheadName(base string) string { return "." + base + ".ahead" }

// aheadFolder is the folder of waiting files in a run's folder.
const aheadFolder = ".ahead"

func aheadOf(fsys FS, name string, next int) (*ahead, error) {
	dir, base := filepath.Split(name)
	return openAhead(fsys, filepath.Clean(dir), aheadName(base), "", next)
}
