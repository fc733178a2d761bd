package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Lines is a run's file with one line for each output (JSONL), open for one writer. Its manifest is
// beside it, with the same name and ".manifest".
type Lines struct {
	run
	log Log
}

const manifestSuffix = ".manifest"

// OpenLines creates, opens or continues the run in the file name, or part p of one, whose first
// line is output p.First; nil is all of it. It cuts off what follows the last listed line. Listed
// lines are read and must match the manifest. Other errors are those of [OpenFolder].
func openLines(fsys fileSystem, name string, s Settings, p *Part) (_ *Lines, err error) {
	dir, base := filepath.Dir(name), filepath.Base(name)
	info, exists, err := regular(fsys, name)
	if err != nil {
		return nil, err
	}
	l := &Lines{run: run{fsys: fsys, name: name, waiting: map[int]waiting{}}}
	l.check, l.place = l.whole, func(lines [][]byte) error {
		return appendSynced(l.log.file, &l.log.size, bytes.Join(lines, nil))
	}
	l.keep = func(_ int, line []byte, _ string) ([]byte, error) { return line, nil }
	if l.unlock, err = lockBeside(fsys, name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.unlock()
		}
	}()
	_, begun, err := regular(fsys, name+manifestSuffix)
	if err != nil {
		return nil, err
	}
	if exists && info.Size() > 0 && !begun {
		return nil, fmt.Errorf("%s is there but %s%s is not, want a new file or that of a run", name,
			base, manifestSuffix)
	}
	if l.m, err = openManifest(fsys, dir, base+manifestSuffix, s, p); err != nil {
		return nil, err
	}
	if err = l.open(exists); err != nil {
		l.m.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lines) open(exists bool) (err error) {
	flag := os.O_RDWR
	if len(l.m.Entries) == 0 {
		flag |= os.O_CREATE
	}
	file, err := l.fsys.OpenFile(l.name, flag)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if !exists {
		if err := l.fsys.SyncDir(filepath.Dir(l.name)); err != nil {
			return err
		}
	}
	size, faults, err := checkLines(file, l.m.Entries)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s: %s", l.name, faults[0])
	}
	now, err := file.Stat()
	if err != nil {
		return err
	}
	l.log = Log{l.name, file, now.Size()}
	return l.log.Cut(size)
}

// checkLines compares lines with the listed ones. size is where the listed lines end.
func checkLines(r io.Reader, entries []Entry) (size int64, faults []Fault, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	for i, e := range entries {
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, append(faults,
				Fault{fmt.Sprintf("line %d", i+1),
					fmt.Sprintf("is missing, as are %d after it", len(entries)-i-1)}), nil
		}
		if err != nil {
			return size, faults, err
		}
		if DigestOf(line) != e.SHA256 {
			faults = append(faults, Fault{fmt.Sprintf("line %d", i+1), "is not what the manifest lists"})
		}
		size += int64(len(line))
	}
	return size, faults, nil
}

// Done returns the index of the next line: the number of lines that the manifest lists, and of
// those before this part.
func (l *Lines) Done() int { return l.m.done() }

// Missing returns the missing lines of a run of n; its N is 0 if none is missing.
func (l *Lines) Missing(n int) Span { return Span{l.Done(), max(0, l.m.end(n)-l.Done())} }

// whole returns a line with its newline.
func (l *Lines) whole(i int, line []byte) ([]byte, error) {
	if bytes.IndexByte(line, '\n') >= 0 {
		return nil, fmt.Errorf("%s: output %d has several lines, want one", l.name, i)
	}
	return append(bytes.Clone(line), '\n'), nil
}

// Close releases the file for other processes. Lines that still wait are lost.
func (l *Lines) Close() error { return cmp.Or(l.log.Close(), l.m.Close(), l.unlock()) }
