package runs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Settings determine a run's bytes, by name: the model's hash, seed, sampler, steps and so on, but
// not batch size or threads, which change no byte, so that a run may go on with others. OpenFolder
// and OpenLines refuse a run with other Settings and list the differences.
type Settings map[string]string

// Entry is a finished output, a line of the manifest.
type Entry struct {
	Index int    `json:"index"`
	Seed  uint64 `json:"seed"`

	// SHA256 is that of the file, or of the line with its newline.
	SHA256 string `json:"sha256"`
}

// Part is the part of a run's outputs that a folder or file covers: First to First+Count-1 of 0 to
// Of-1.
type Part struct {
	First int `json:"first"`
	Count int `json:"count"`
	Of    int `json:"of"`
}

// String describes the part's outputs. A nil Part is a whole run.
func (p *Part) String() string {
	if p == nil {
		return "a whole run"
	}
	return fmt.Sprintf("outputs %d to %d of %d", p.First, p.First+p.Count-1, p.Of)
}

func (p *Part) valid() bool {
	return p.First >= 0 && p.Count >= 0 && p.Of >= 0 && p.First <= p.Of && p.Count <= p.Of-p.First
}

// header is the manifest's first line.
type header struct {
	formVersion
	Settings Settings `json:"settings"`

	// Part is nil for a whole run.
	Part *Part `json:"part,omitempty"`
}

// formVersion is the number of a manifest's form, which every form has.
type formVersion struct {
	Version int `json:"unmask"`
}

// manifestVersion is the version of the manifest's form.
const manifestVersion = 1

// DifferingNames returns the names of the settings that s and t do not share, sorted.
func (s Settings) DifferingNames(t Settings) []string {
	union := Settings{}
	maps.Copy(union, s)
	maps.Copy(union, t)
	isSame := func(name string) bool { return s.Quote(name) == t.Quote(name) }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(union)), isSame)
}

// Quote returns a setting in quotes, or the word none.
func (s Settings) Quote(name string) string {
	if value, ok := s[name]; ok {
		return strconv.Quote(value)
	}
	return "none"
}

// Changes say what changed the bytes of runs since 0.1.0, by the name of the setting that a run of
// today has for it. A run without one of these names, which its recipe gives it today, was begun by
// an older program and would go on with other bytes. A request has the name only where its bytes
// changed, so that all other runs go on.
var Changes = map[string]string{
	"counts":      "since 0.2 a schedule rounds as its authors' program does",
	"ends":        "since 0.2 a text is shown to another end",
	"grammar":     "since 0.2 tokens under a grammar are drawn in order of ids",
	"guided-hole": "since 0.2 guidance follows a hole that changes its length",
	"inputs":      "since 0.2 other tokens stand around the texts of a list",
	"last-block":  "since 0.2 the last block is computed whole",
	"max-length":  "since 0.2 an answer without an end grows",
	"network":     "since 0.2 the network is read as its authors' program reads it",
}

// listDifferences lists the settings that differ between those of a manifest and the caller's.
func listDifferences(recorded, current Settings) (list []string) {
	for _, name := range recorded.DifferingNames(current) {
		difference := fmt.Sprintf("%s is %s there, %s now", name, recorded.Quote(name),
			current.Quote(name))
		_, isRecorded := recorded[name]
		if change, ok := Changes[name]; ok && !isRecorded {
			difference += " (" + change + ")"
		}
		list = append(list, difference)
	}
	return list
}

// Contents is the content of a run's manifest.
type Contents struct {
	// Folder reports whether the run is a folder of files, not a file of lines.
	Folder bool

	Settings Settings

	// Part is nil for a whole run.
	Part *Part

	Entries []Entry

	// size is the bytes of the manifest's whole lines, tornSize of what follows them.
	size     int
	tornSize int
}

// parseManifest parses a manifest. Every whole line must have exactly the bytes that this package
// writes, so that two manifests of one run are equal files.
func parseManifest(data []byte) (*Contents, error) {
	lines, size := WholeLines(data)
	if len(lines) == 0 {
		return nil, errors.New("it has no header")
	}
	var h header
	isHeader := decodeExactly(lines[0], &h)
	// A newer form may have other fields, so its number alone is read.
	if json.Unmarshal(lines[0], &h.formVersion) == nil && h.Version > manifestVersion {
		return nil, fmt.Errorf("line 1 is of version %d of manifests, want %d: a newer unmask wrote it",
			h.Version, manifestVersion)
	}
	if !isHeader || h.Version != manifestVersion {
		return nil, errors.New("line 1 is not a manifest's header")
	}
	if h.Part != nil && !h.Part.valid() {
		return nil, fmt.Errorf("line 1 has a part of %s", h.Part)
	}
	c := &Contents{Settings: h.Settings, Part: h.Part, size: size, tornSize: len(data) - size}
	for k, line := range lines[1:] {
		var e Entry
		i := c.firstIndex() + k
		if !decodeExactly(line, &e) || e.Index != i || len(e.SHA256) != 2*sha256.Size {
			return nil, fmt.Errorf("line %d is not the entry of output %d", k+2, i)
		}
		if i >= c.endIndex(i+1) {
			return nil, fmt.Errorf("line %d is the entry of output %d, want %s", k+2, i, c.Part)
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}

// decodeExactly decodes line into v, if v would be written like this. A line with a field that this
// program does not know, or with the fields in another order, was written by something else, and
// going on with it would make a file that no single program writes.
func decodeExactly(line []byte, v any) bool {
	if json.Unmarshal(line, v) != nil {
		return false
	}
	reencoded, err := json.Marshal(v)
	return err == nil && bytes.Equal(reencoded, line)
}

// firstIndex returns the index of the first entry.
func (c *Contents) firstIndex() int {
	if c.Part == nil {
		return 0
	}
	return c.Part.First
}

// endIndex returns the index after the last output of a run of n outputs, within this part.
func (c *Contents) endIndex(n int) int {
	if c.Part == nil {
		return n
	}
	return min(n, c.Part.First+c.Part.Count)
}

// nextIndex returns the index of the next entry.
func (c *Contents) nextIndex() int { return c.firstIndex() + len(c.Entries) }

// entry returns the entry of output i, which must be listed.
func (c *Contents) entry(i int) Entry { return c.Entries[i-c.firstIndex()] }

// manifest is a manifest that is open for appending.
type manifest struct {
	*Log
	*Contents
}

// openManifest opens or creates the manifest `base` in dir, whose lock the caller holds. It cuts
// off an incomplete last line.
func openManifest(fsys fileSystem, dir, base string, s Settings, p *Part) (_ *manifest, err error) {
	name := filepath.Join(dir, base)
	if p != nil && !p.valid() {
		return nil, fmt.Errorf("%s: a part of %s", name, p)
	}
	firstLine, err := json.Marshal(header{formVersion{manifestVersion}, s, p})
	if err != nil {
		return nil, err
	}
	l, data, err := openLog(fsys, name, firstLine)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	c, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	differences := listDifferences(c.Settings, s)
	if c.Part.String() != p.String() {
		differences = append(differences, fmt.Sprintf("it is %s there, %s now", c.Part, p))
	}
	if len(differences) > 0 {
		return nil, fmt.Errorf("%s was begun with other settings: %s", name,
			strings.Join(differences, "; "))
	}
	if err := l.Cut(int64(c.size)); err != nil {
		return nil, err
	}
	return &manifest{l, c}, nil
}

// addEntries appends entries whose outputs are durable.
func (m *manifest) addEntries(entries []Entry) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	if err := m.Append(bytes.TrimSuffix(lines.Bytes(), []byte("\n"))); err != nil {
		return err
	}
	m.Entries = append(m.Entries, entries...)
	return nil
}
