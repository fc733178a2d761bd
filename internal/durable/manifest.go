package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
)

// Settings are what decides a run's bytes: the model's hash, seed, sampler, steps and so on, but
// neither batch size nor threads.
type Settings map[string]string

// Entry is a finished output, a line of the manifest.
type Entry struct {
	Index  int    `json:"index"`
	Seed   uint64 `json:"seed"`
	SHA256 string `json:"sha256"`
}

// header is the manifest's first line.
type header struct {
	Version  int      `json:"unmask"`
	Settings Settings `json:"settings"`
}

const version = 1

// SettingsError says in what a run differs from the one that it would continue.
type SettingsError struct {
	Name        string
	Differences []string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("%s was begun with other settings: %s", e.Name,
		strings.Join(e.Differences, "; "))
}

// differences lists the settings that are not the same.
func differences(there, now Settings) (list []string) {
	names := map[string]bool{}
	for k := range there {
		names[k] = true
	}
	for k := range now {
		names[k] = true
	}
	show := func(s Settings, k string) string {
		if v, ok := s[k]; ok {
			return fmt.Sprintf("%q", v)
		}
		return "absent"
	}
	for k := range names {
		if a, b := show(there, k), show(now, k); a != b {
			list = append(list, fmt.Sprintf("%s is %s there, %s now", k, a, b))
		}
	}
	sort.Strings(list)
	return list
}

// contents is a manifest as read.
type contents struct {
	settings Settings
	entries  []Entry
	size     int64 // up to the last whole line
	torn     int   // bytes after it
}

// parseManifest reads a manifest. Every line must be the very bytes that this package writes; a
// last one without its newline is torn.
func parseManifest(data []byte) (*contents, error) {
	c := &contents{}
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			c.torn = len(line)
			if n == 1 {
				return nil, errors.New("it has no header")
			}
			return c, nil
		}
		data = rest
		c.size += int64(len(line)) + 1
		if n == 1 {
			var h header
			if !exactly(line, &h) || h.Version != version {
				return nil, errors.New("line 1 is not a manifest's header")
			}
			c.settings = h.Settings
			continue
		}
		var e Entry
		if !exactly(line, &e) || e.Index != n-2 || len(e.SHA256) != 2*sha256.Size {
			return nil, fmt.Errorf("line %d is not the entry of output %d", n, n-2)
		}
		c.entries = append(c.entries, e)
	}
}

// exactly decodes line into v if that is how v is written.
func exactly(line []byte, v any) bool {
	if json.Unmarshal(line, v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, line)
}

// manifest is one open for appending, and the lock on it.
type manifest struct {
	*Log
	entries []Entry
}

// openManifest opens or creates the manifest `base` of dir, whose lock the caller has taken. A
// torn last line is cut off.
func openManifest(fsys FS, dir, base string, s Settings) (_ *manifest, err error) {
	name := filepath.Join(dir, base)
	first, err := json.Marshal(header{version, s})
	if err != nil {
		return nil, err
	}
	l, data, err := OpenLog(fsys, name, first)
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
	if d := differences(c.settings, s); len(d) > 0 {
		return nil, &SettingsError{name, d}
	}
	if err := l.Cut(c.size); err != nil {
		return nil, err
	}
	return &manifest{Log: l, entries: c.entries}, nil
}

// next returns the entry of data at the next index.
func (m *manifest) next(seed uint64, data []byte) Entry {
	return Entry{len(m.entries), seed, digest(data)}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// append adds an entry whose output is durable.
func (m *manifest) append(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := m.Append(line); err != nil {
		return err
	}
	m.entries = append(m.entries, e)
	return nil
}
