package experiments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/runs"
)

// ErrStopped is the error of a run that its progress function stopped; measured results are in the
// journal.
var ErrStopped = errors.New("stopped")

// Settings are what all results of a journal share, by name: the model and its weights, the judge,
// and what affects the times.
type Settings map[string]string

// Journal is a file of results, one JSON object a line under a first line of settings. A line is
// appended whole and synced. One goroutine at a time may use one.
type Journal struct {
	Results []Result
	Dropped int // bytes after the last whole line, which OpenJournal removed

	name     string
	settings Settings
	log      *runs.Log
	unlock   func() error
}

type header struct {
	Settings Settings `json:"settings"`
}

// OpenJournal opens or creates a journal for appending. It refuses a file that is not a journal,
// one damaged anywhere but in a cut last line, and one with other settings; that error names the
// first difference.
func OpenJournal(name string, s Settings) (_ *Journal, err error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, want a file", name, atomicfile.Kind(info))
	}
	unlock, err := runs.LockBeside(name)
	if err != nil {
		return nil, err
	}
	j := &Journal{name: name, settings: s, unlock: unlock}
	defer func() {
		if err != nil {
			j.Close()
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	first, err := json.Marshal(header{s})
	if err != nil {
		return nil, err
	}
	var data []byte
	j.log, data, err = runs.OpenLog(name, first)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(first, data) { // cut within its first line, or empty
		j.Dropped = len(data)
		return j, errors.Join(j.log.Cut(0), j.log.Append(first))
	}
	have, results, size, err := parseJournal(data)
	if err != nil {
		return nil, err
	}
	if err := compareSettings(have.Settings, s); err != nil {
		return nil, err
	}
	j.Results = results
	j.Dropped = len(data) - size
	return j, j.log.Cut(int64(size))
}

// compareSettings returns an error if settings differ.
func compareSettings(recorded, current Settings) error {
	for _, name := range runs.Settings(recorded).DifferingNames(runs.Settings(current)) {
		if recorded[name] != current[name] {
			return fmt.Errorf("was begun with %s %q, found %q: want the same, or another --out", name,
				recorded[name], current[name])
		}
	}
	return nil
}

// ReadJournal reads the results of a file. It ignores what follows the last whole line; dropped is
// the number of these bytes.
func ReadJournal(name string) (_ Settings, _ []Result, dropped int, err error) {
	data, err := atomicfile.ReadFile(name)
	if err != nil {
		return nil, nil, 0, err
	}
	h, results, size, err := parseJournal(data)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return h.Settings, results, len(data) - size, nil
}

// JournalName returns the name of the file of a kind's results in a report's folder.
func JournalName(dir, kind string) string { return filepath.Join(dir, "results-"+kind+".jsonl") }

// CheckJournals returns an error if the results of any kind in a report's folder are damaged. All
// are checked first, so that damage of the second kind is found before the long work of the first.
// A file that does not exist, or has no whole line yet, is not damaged.
func CheckJournals(dir string, kinds ...string) error {
	for _, kind := range kinds {
		data, err := atomicfile.ReadFile(JournalName(dir, kind))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Contains(data, []byte("\n")) {
			continue
		}
		if _, _, _, err := ReadJournal(JournalName(dir, kind)); err != nil {
			return err
		}
	}
	return nil
}

// parseJournal returns the contents of the whole lines and their size in bytes.
func parseJournal(data []byte) (h header, results []Result, size int, err error) {
	lines, size := runs.WholeLines(data)
	if len(lines) == 0 || jsonline.DecodeStrict(lines[0], &h) != nil || h.Settings == nil {
		return h, nil, 0, errors.New("line 1 has no settings: not results of unmask sweep")
	}
	for k, line := range lines[1:] {
		if len(bytes.TrimSpace(line)) == 0 {
			return h, nil, 0, fmt.Errorf("line %d is blank, want a result", k+2)
		}
		r, err := parseResult(line)
		if err != nil {
			return h, nil, 0, fmt.Errorf("line %d: %w", k+2, err)
		}
		results = append(results, r)
	}
	return h, results, size, nil
}

// parseResult returns the result of a line. Keys that every result has must be there: a line
// without them is of another program.
func parseResult(line []byte) (r Result, err error) {
	if err := jsonline.DecodeStrict(line, &r); err != nil {
		return r, err
	}
	if key := jsonline.MissingKey(line, "sampler", "seed", "metrics"); key != "" {
		return r, fmt.Errorf("%s is missing, want a line of unmask sweep", key)
	}
	return r, r.checkRanges()
}

// checkRanges returns an error for a result that no run can have.
func (r *Result) checkRanges() error {
	_, isExact := exactLaw(r.Kind)
	switch {
	case r.Kind != "text" && r.Kind != "image" && !isExact:
		return fmt.Errorf("kind is %q, want text or image, or an exact law", r.Kind)
	case r.Steps < 1:
		return fmt.Errorf("steps is %d, want at least 1", r.Steps)
	case r.N < 1:
		return fmt.Errorf("n is %d, want at least 1", r.N)
	case r.Batch < 1:
		return fmt.Errorf("batch is %d, want at least 1", r.Batch)
	case r.Sampler == "":
		return errors.New("sampler is \"\", want a name")
	case r.Passes < 0:
		return fmt.Errorf("full_passes is %v, want at least 0", r.Passes)
	case r.HeadRows < 0:
		return fmt.Errorf("head_rows is %v, want at least 0", r.HeadRows)
	}
	for _, v := range r.Seconds {
		if !(v >= 0) {
			return fmt.Errorf("batch_seconds has %v, want at least 0", v)
		}
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

// Select returns the results of those points that have one.
func (j *Journal) Select(kind string, points []Point) (list []Result) {
	for _, p := range points {
		if r, ok := j.Find(kind, p); ok {
			list = append(list, r)
		}
	}
	return list
}

// Append adds a result; it is on the disk when Append returns.
func (j *Journal) Append(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := j.log.Append(line); err != nil {
		return err
	}
	j.Results = append(j.Results, r)
	return nil
}

// Close closes the file; a second call does nothing.
func (j *Journal) Close() error {
	var err error
	if j.log != nil {
		err = j.log.Close()
	}
	if j.unlock != nil {
		err = errors.Join(err, j.unlock())
	}
	j.log = nil
	j.unlock = nil
	return err
}
