package durable

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// Retract removes wrong outputs, which are then pending again. Later good outputs wait in .ahead
// until those are there. After an error Put and Take fail; the folder can be opened again.
func (f *Folder) Retract(bad []int) error {
	if f.failed == nil {
		f.failed = f.retract(bad)
	}
	return f.failed
}

func (f *Folder) retract(bad []int) error {
	if err := f.ahead.drop(bad); err != nil {
		return err
	}
	after, size, err := f.m.after(bad)
	if err != nil || len(after) == 0 {
		return err
	}
	for _, e := range after {
		if slices.Contains(bad, e.Index) || slices.Contains(f.faulty, e.Index) {
			continue
		}
		data, err := readFile(f.fsys, f.path(e.Index))
		if err != nil {
			return err
		}
		if digest(data) == e.SHA256 {
			if err := f.ahead.put(e, data); err != nil {
				return err
			}
		}
	}
	if err := f.m.cut(size, len(after)); err != nil {
		return err
	}
	first := after[0].Index
	f.faulty = slices.DeleteFunc(f.faulty, func(i int) bool { return i >= first })
	for _, e := range after {
		if err := ignoreMissing(f.fsys.Remove(f.path(e.Index))); err != nil {
			return err
		}
	}
	return f.fsys.SyncDir(f.dir)
}

// Retract removes wrong lines, which are then pending again. Later good lines wait beside the file
// until those are there. After an error Put and Take fail; the file can be opened again.
func (l *Lines) Retract(bad []int) error {
	if l.failed == nil {
		l.failed = l.retract(bad)
	}
	return l.failed
}

func (l *Lines) retract(bad []int) error {
	if err := l.ahead.drop(bad); err != nil {
		return err
	}
	after, size, err := l.m.after(bad)
	if err != nil || len(after) == 0 {
		return err
	}
	data, err := readFile(l.fsys, l.name)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	at := 0 // where the lines after the cut begin
	for k := range after[0].Index - l.m.first {
		at += len(lines[k])
	}
	for k, e := range after {
		line := lines[after[0].Index-l.m.first+k]
		if !slices.Contains(bad, e.Index) && digest(line) == e.SHA256 {
			if err := l.ahead.put(e, line); err != nil {
				return err
			}
		}
	}
	if err := l.m.cut(size, len(after)); err != nil {
		return err
	}
	l.size = int64(at)
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	return l.file.Sync()
}

// after returns the entries from the first bad one on, and the bytes before it.
func (m *manifest) after(bad []int) (list []Entry, size int64, err error) {
	k := slices.IndexFunc(m.entries, func(e Entry) bool { return slices.Contains(bad, e.Index) })
	if k < 0 {
		return nil, 0, nil
	}
	for _, e := range m.entries[k:] {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, 0, err
		}
		size += int64(len(line)) + 1
	}
	return slices.Clone(m.entries[k:]), m.Log.size - size, nil
}

// cut removes the last n entries.
func (m *manifest) cut(size int64, n int) error {
	if err := m.unchanged(); err != nil {
		return err
	}
	m.entries = m.entries[:len(m.entries)-n]
	return m.Log.Cut(size)
}

// drop removes waiting outputs.
func (a *ahead) drop(list []int) error {
	for _, i := range list {
		if e, ok := a.entries[i]; ok {
			if err := a.fsys.Remove(a.path(e)); err != nil {
				return err
			}
			delete(a.entries, i)
		}
	}
	return nil
}

// Remove removes a run's folder with everything in it, which must all belong to the run.
func Remove(dir string) error {
	names, err := OS{}.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == manifestName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
			return err
		}
	}
	// the manifest last, so that after a crash the rest is still recognised as a run
	return os.RemoveAll(dir)
}
