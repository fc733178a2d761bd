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

// Settings determine a run's bytes: the model's hash, seed, sampler, steps and so on, but not batch
// size or threads.
type Settings map[string]string

// Entry is a finished output, a line of the manifest.
type Entry struct {
	Index  int    `json:"index"`
	Seed   uint64 `json:"seed"`
	SHA256 string `json:"sha256"`
}

// Part is the range of a run's outputs that a folder or file covers: First to First+Count-1 of 0
// to Of-1.
type Part struct {
	First int `json:"first"`
	Count int `json:"count"`
	Of    int `json:"of"`
}

// String describes the part's outputs.
func (p *Part) String() string {
	if p == nil {
		return "a whole run"
	}
	return fmt.Sprintf("outputs %d to %d of %d", p.First, p.First+p.Count-1, p.Of)
}

// header is the manifest's first line.
type header struct {
	Version  int      `json:"unmask"`
	Settings Settings `json:"settings"`
	Part     *Part    `json:"part,omitempty"` // nil: a whole run
}

const version = 1

// DifferingNames returns the names of the settings that s and t do not share, sorted.
func (s Settings) DifferingNames(t Settings) []string {
	both := Settings{}
	maps.Copy(both, s)
	maps.Copy(both, t)
	same := func(name string) bool { return s.Quote(name) == t.Quote(name) }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(both)), same)
}

// Quote returns a setting in quotes, or none.
func (s Settings) Quote(name string) string {
	if value, ok := s[name]; ok {
		return strconv.Quote(value)
	}
	return "none"
}

// listDifferences lists the settings that differ.
func listDifferences(there, now Settings) (list []string) {
	for _, name := range there.DifferingNames(now) {
		list = append(list, fmt.Sprintf("%s is %s there, %s now", name, there.Quote(name),
			now.Quote(name)))
	}
	return list
}

// Contents is the content of a run's manifest.
type Contents struct {
	Folder   bool // a folder of files, not a file of lines
	Settings Settings
	Part     *Part // nil for a whole run
	Entries  []Entry
	size     int // of the whole lines
	torn     int // bytes after them
}

// parseManifest parses a manifest. Every whole line must have exactly the bytes that this package
// writes.
func parseManifest(data []byte) (*Contents, error) {
	lines, size := WholeLines(data)
	if len(lines) == 0 {
		return nil, errors.New("it has no header")
	}
	var h header
	if !exactly(lines[0], &h) || h.Version != version {
		return nil, errors.New("line 1 is not a manifest's header")
	}
	c := &Contents{Settings: h.Settings, Part: h.Part, size: size, torn: len(data) - size}
	if c.Part != nil && !c.Part.valid() {
		return nil, fmt.Errorf("line 1 has a part of %s", c.Part)
	}
	for k, line := range lines[1:] {
		var e Entry
		i := c.first() + k
		if !exactly(line, &e) || e.Index != i || len(e.SHA256) != 2*sha256.Size {
			return nil, fmt.Errorf("line %d is not the entry of output %d", k+2, i)
		}
		if i >= c.end(i+1) {
			return nil, fmt.Errorf("line %d is the entry of output %d, want %s", k+2, i, c.Part)
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}

func (p *Part) valid() bool {
	return p.First >= 0 && p.Count >= 0 && p.Of >= 0 && p.First <= p.Of && p.Count <= p.Of-p.First
}

// first returns the index of the first entry.
func (c *Contents) first() int {
	if c.Part == nil {
		return 0
	}
	return c.Part.First
}

// exactly decodes line into v, if v would be written like this.
func exactly(line []byte, v any) bool {
	if json.Unmarshal(line, v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, line)
}

// manifest is a manifest open for appending.
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
	first, err := json.Marshal(header{version, s, p})
	if err != nil {
		return nil, err
	}
	l, data, err := openLog(fsys, name, first)
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
	d := listDifferences(c.Settings, s)
	if c.Part.String() != p.String() {
		d = append(d, fmt.Sprintf("it is %s there, %s now", c.Part, p))
	}
	if len(d) > 0 {
		return nil, fmt.Errorf("%s was begun with other settings: %s", name, strings.Join(d, "; "))
	}
	if err := l.Cut(int64(c.size)); err != nil {
		return nil, err
	}
	return &manifest{l, c}, nil
}

// end returns the index after the last output of a run of n outputs, within this part.
func (c *Contents) end(n int) int {
	if c.Part != nil {
		return min(n, c.Part.First+c.Part.Count)
	}
	return n
}

// done returns the index of the next entry.
func (c *Contents) done() int { return c.first() + len(c.Entries) }

// of returns the entry of output i, which must be listed.
func (c *Contents) of(i int) Entry { return c.Entries[i-c.first()] }

// append appends entries whose outputs are
func (m *manifest) append(list ...Entry) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, e := range list {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	if err := m.Append(bytes.TrimSuffix(lines.Bytes(), []byte("\n"))); err != nil {
		return err
	}
	m.Entries = append(m.Entries, list...)
	return nil
}
