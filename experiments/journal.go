package experiments

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/durable"
)

// ErrStopped ends a run that its progress function stopped; what is measured is in the journal.
var ErrStopped = errors.New("stopped")

// Settings are what a journal's results have in common, by name: the model and its weights, the
// judge, and what the times depend on.
type Settings map[string]string

// Journal is a file of results, one JSON object a line under a first line of settings. A line is
// appended whole and synced; a last line that a crash has torn is dropped when it is opened again.
type Journal struct {
	Results []Result

	file   *os.File
	unlock func() error
}

type header struct {
	Settings Settings `json:"settings"`
}

// OpenJournal opens or creates the file at name for appending. A file that has other settings is
// refused with the first difference.
func OpenJournal(name string, s Settings) (j *Journal, err error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file but %s", name, info.Mode())
	}
	j = &Journal{}
	if j.unlock, err = (durable.OS{}).Lock(filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".lock")); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer func() {
		if err != nil {
			j.Close()
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	if j.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	have, results, size, err := read(j.file)
	if err != nil {
		return nil, err
	}
	if err := j.file.Truncate(size); err != nil {
		return nil, err
	}
	if _, err := j.file.Seek(size, io.SeekStart); err != nil {
		return nil, err
	}
	j.Results = results
	if size == 0 {
		return j, errors.Join(j.line(header{s}), durable.OS{}.SyncDir(filepath.Dir(name)))
	}
	return j, have.same(s)
}

// same refuses settings that differ.
func (s Settings) same(now Settings) error {
	both := Settings{}
	maps.Copy(both, s)
	maps.Copy(both, now)
	for _, name := range sortedNames(both) {
		if s[name] != now[name] {
			return fmt.Errorf("was begun with %s %q, found %q: allowed is the same, or another file", name, s[name], now[name])
		}
	}
	return nil
}

func sortedNames(s Settings) []string { return slices.Sorted(maps.Keys(s)) }

// ReadJournal reads the results of a file.
func ReadJournal(name string) (Settings, []Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	s, results, size, err := read(f)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	case size == 0:
		return nil, nil, fmt.Errorf("%s: no settings in the first line: not results of a sweep", name)
	}
	return s, results, nil
}

// maxLine bounds a line of results, in bytes.
const maxLine = 16 << 20

// read returns what the whole lines hold and how many bytes they are.
func read(r io.Reader) (Settings, []Result, int64, error) {
	lines := bufio.NewReader(r)
	var h header
	var results []Result
	var size int64
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if err == io.EOF { // without an end the line is torn
			return h.Settings, results, size, nil
		} else if err != nil {
			return nil, nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if n == 1 {
			if err := strict(line, &h); err != nil || h.Settings == nil {
				return nil, nil, 0, fmt.Errorf("line 1 has no settings: not results of a sweep")
			}
		} else {
			var result Result
			if err := strict(line, &result); err != nil {
				return nil, nil, 0, fmt.Errorf("line %d: %w", n, err)
			}
			results = append(results, result)
		}
		size += int64(len(line))
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("more than %d bytes", maxLine)
		case err == nil:
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

func strict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// Find returns the result of a point.
func (j *Journal) Find(kind string, p Point) (Result, bool) {
	for _, r := range j.Results {
		if r.Kind == kind && r.Point == p {
			return r, true
		}
	}
	return Result{}, false
}

// Append adds a result, on the disk when it returns.
func (j *Journal) Append(r Result) error {
	if err := j.line(r); err != nil {
		return err
	}
	j.Results = append(j.Results, r)
	return nil
}

func (j *Journal) line(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

// Close releases the file; a second call does nothing.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	if j.unlock != nil {
		err = errors.Join(err, j.unlock())
	}
	j.file, j.unlock = nil, nil
	return err
}
