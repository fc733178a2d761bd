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

// openLines is OpenLines for the part p of a run, nil for all of it.
func openLines(fsys fileSystem, name string, s Settings, p *Part) (_ *Lines, err error) {
	info, exists, err := statRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	l := &Lines{run: run{fsys: fsys, name: name, waiting: map[int]waitingOutput{}}}
	l.check = l.addNewline
	l.store = func(_ int, line []byte, _ string) ([]byte, error) { return line, nil }
	l.publish = func(lines [][]byte) error { return l.log.appendSynced(bytes.Join(lines, nil)) }
	l.unlock, err = lockBeside(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.unlock()
		}
	}()

	dir := filepath.Dir(name)
	base := filepath.Base(name)
	_, hasManifest, err := statRegular(fsys, name+manifestSuffix)
	if err != nil {
		return nil, err
	}
	if exists && info.Size() > 0 && !hasManifest { // somebody's file, which is not ours to change
		return nil, fmt.Errorf("%s is there but %s%s is not, want a new file or that of a run", name,
			base, manifestSuffix)
	}
	l.manifest, err = openManifest(fsys, dir, base+manifestSuffix, s, p)
	if err != nil {
		return nil, err
	}
	if err = l.openLog(exists); err != nil {
		l.manifest.Close()
		return nil, err
	}
	return l, nil
}

// openLog opens the file of lines, checks those that the manifest lists, and cuts off what follows
// them.
func (l *Lines) openLog(exists bool) (err error) {
	// A file that is missing although the manifest lists lines of it was deleted or moved. A new one
	// in its place would hide that.
	flag := os.O_RDWR
	if len(l.manifest.Entries) == 0 {
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

	listedSize, faults, err := checkLines(file, l.manifest.Entries)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s: %s", l.name, faults[0])
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l.log = Log{l.name, file, info.Size()}
	return l.log.Cut(listedSize)
}

// checkLines compares lines with the listed ones. size is where the listed lines end.
func checkLines(r io.Reader, entries []Entry) (size int64, faults []Fault, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	for i, e := range entries {
		name := fmt.Sprintf("line %d", i+1)
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			problem := fmt.Sprintf("is missing, as are %d after it", len(entries)-i-1)
			return size, append(faults, Fault{name, problem}), nil
		}
		if err != nil {
			return size, faults, err
		}
		if DigestOf(line) != e.SHA256 {
			faults = append(faults, Fault{name, "is not what the manifest lists"})
		}
		size += int64(len(line))
	}
	return size, faults, nil
}

// Done returns the index of the next line: the number of lines that the manifest lists, and of
// those before this part.
func (l *Lines) Done() int { return l.manifest.nextIndex() }

// Missing returns the missing lines of a run of n; its N is 0 if none is missing.
func (l *Lines) Missing(n int) Span {
	return Span{l.Done(), max(0, l.manifest.endIndex(n)-l.Done())}
}

// addNewline implements run.check: it returns a line with its newline.
func (l *Lines) addNewline(i int, line []byte) ([]byte, error) {
	if bytes.IndexByte(line, '\n') >= 0 {
		return nil, fmt.Errorf("%s: output %d has several lines, want one", l.name, i)
	}
	return append(bytes.Clone(line), '\n'), nil
}

// Close releases the file for other processes. Lines that still wait for their turn are lost.
func (l *Lines) Close() error {
	logErr := l.log.Close()
	manifestErr := l.manifest.Close()
	unlockErr := l.unlock()
	return cmp.Or(logErr, manifestErr, unlockErr)
}
