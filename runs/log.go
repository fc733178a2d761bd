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

// openLog is OpenLog on a filesystem.
func openLog(fsys fileSystem, name string, header []byte) (_ *Log, data []byte, err error) {
	dir, base := filepath.Split(name)
	dir = filepath.Clean(dir)
	_, exists, err := statRegular(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	temporary := filepath.Join(dir, temporaryName(base)) // which a crash may have left
	if err := ignoreMissing(fsys.Remove(temporary)); err != nil {
		return nil, nil, err
	}
	if !exists {
		if err := writeFile(fsys, dir, base, append(bytes.Clone(header), '\n')); err != nil {
			return nil, nil, err
		}
	}
	file, err := fsys.OpenFile(name, os.O_RDWR)
	if err != nil {
		return nil, nil, err
	}
	data, err = io.ReadAll(file)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return &Log{name, file, int64(len(data))}, data, nil
}

// WholeLines divides the content of a log: its whole lines without their newlines, and the bytes
// that these are in the file. What follows was cut off while it was written, or is blank.
func WholeLines(data []byte) (lines [][]byte, size int) {
	count := 0 // of lines up to the last one that is not blank
	unread := data
	for {
		line, unreadAfter, isWhole := bytes.Cut(unread, []byte("\n"))
		if !isWhole {
			return lines[:count], size
		}
		lines = append(lines, line)
		unread = unreadAfter
		if len(bytes.TrimSpace(line)) > 0 {
			count = len(lines)
			size = len(data) - len(unread)
		}
	}
}

// Cut removes everything after the first size bytes, such as a line that a crash cut off: the next
// line would otherwise become the end of that one.
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

// checkUnchanged returns an error if the file does not have the size that this run left. It detects
// a second writer where locks do nothing, as on some network filesystems.
func (l *Log) checkUnchanged() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != l.size {
		return fmt.Errorf("%s has %d bytes, this run left %d: another process is writing it", l.name,
			info.Size(), l.size)
	}
	return nil
}

// Append appends a line, or several, without the last newline. They are on the disk when Append
// returns. A file that somebody else has changed is an error.
func (l *Log) Append(line []byte) error {
	line = append(bytes.Clone(line), '\n')
	if err := l.checkUnchanged(); err != nil {
		return err
	}
	return l.appendSynced(line)
}

// appendSynced appends data and syncs. It takes back an incomplete write.
func (l *Log) appendSynced(data []byte) error {
	if _, err := l.file.WriteAt(data, l.size); err != nil {
		_ = l.file.Truncate(l.size) // if this fails, opening the file repairs it
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.size += int64(len(data))
	return nil
}

// Close closes the file. The caller then releases its lock.
func (l *Log) Close() error { return l.file.Close() }
