package runs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Log is a file of lines after a first line that identifies it, open for one writer. Lines are
// appended whole and synced, so that a crash damages at most the last one.
type Log struct {
	name string
	file openFile
	size int64
}

// OpenLog opens or creates the log at name, whose lock the caller holds. A new one begins with the
// line header, which appears together with the file. data is the whole content; the caller checks
// its WholeLines and removes what follows them with Cut.
func openLog(fsys fileSystem, name string, header []byte) (_ *Log, data []byte, err error) {
	dir, base := filepath.Split(name)
	dir = filepath.Clean(dir)
	_, exists, err := regular(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	if err := ignoreMissing(fsys.Remove(filepath.Join(dir, temporary(base)))); err != nil {
		return nil, nil, err
	}
	if !exists {
		if err := writeFile(fsys, dir, base, append(bytes.Clone(header), '\n')); err != nil {
			return nil, nil, err
		}
	}
	l := &Log{name: name}
	if l.file, err = fsys.OpenFile(name, os.O_RDWR); err != nil {
		return nil, nil, err
	}
	if data, err = io.ReadAll(l.file); err != nil {
		l.file.Close()
		return nil, nil, err
	}
	l.size = int64(len(data))
	return l, data, nil
}

// WholeLines divides the content of a log: its whole lines without their newlines, and the bytes
// that these are in the file. What follows was cut off while it was written, or is blank.
func WholeLines(data []byte) (lines [][]byte, size int) {
	n := 0
	for rest := data; ; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return lines[:n], size
		}
		lines, rest = append(lines, line), after
		if len(bytes.TrimSpace(line)) > 0 {
			n, size = len(lines), len(data)-len(rest)
		}
	}
}

// Cut removes everything after the first size bytes.
func (l *Log) Cut(size int64) error {
	if size == l.size {
		return nil
	}
	l.size = size
	if err := l.file.Truncate(size); err != nil {
		return err
	}
	return l.file.Sync()
}

// unchanged returns an error if the file does not have the size that this run left. It detects a
// second writer where locks do nothing, as on some network filesystems.
func (l *Log) unchanged() error {
	now, err := l.file.Stat()
	if err != nil {
		return err
	}
	if now.Size() != l.size {
		return fmt.Errorf("%s has %d bytes, this run left %d: another process is writing it", l.name,
			now.Size(), l.size)
	}
	return nil
}

// Append appends a line, or several, without the last newline. They are on the disk when Append
// returns.
func (l *Log) Append(line []byte) error {
	line = append(bytes.Clone(line), '\n')
	if err := l.unchanged(); err != nil {
		return err
	}
	return appendSynced(l.file, &l.size, line)
}

// appendSynced appends data to a file of *size bytes, updates *size, and syncs. It takes back an
// incomplete write.
func appendSynced(f openFile, size *int64, data []byte) error {
	if _, err := f.WriteAt(data, *size); err != nil {
		_ = f.Truncate(*size) // if this fails, opening the file repairs it
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	*size += int64(len(data))
	return nil
}

// Close closes the file. The caller then releases its lock.
func (l *Log) Close() error { return l.file.Close() }
