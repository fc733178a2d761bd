package durable

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"unmask/internal/atomicfile"
)

// Report is the result of Verify.
type Report struct {
	Settings Settings
	Range    *Range // nil: a whole run
	Outputs  int    // number of outputs in the manifest
	Faults   []Fault
}

// Verify compares every output of the run at name, a folder or a file of lines, with the manifest.
// It changes nothing. ext is the ending of a folder's files.
func Verify(fsys FS, name, ext string) (*Report, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return verifyFolder(fsys, name, ext)
	case info.Mode().IsRegular():
		return verifyLines(fsys, name)
	}
	return nil, fmt.Errorf("%s is a %s, want a run's directory or file", name, atomicfile.Kind(info))
}

// readManifest reads a manifest and reports an incomplete last line as a fault.
func readManifest(fsys FS, name string) (*Report, *contents, error) {
	if _, exists, err := regular(fsys, name); err != nil {
		return nil, nil, err
	} else if !exists {
		return nil, nil, fmt.Errorf("%s is missing: no run was begun here", name)
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(f)
	if err := cmp.Or(err, f.Close()); err != nil {
		return nil, nil, err
	}
	c, err := parseManifest(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	r := &Report{Settings: c.settings, Range: c.part, Outputs: len(c.entries)}
	if c.torn > 0 {
		r.Faults = append(r.Faults,
			Fault{filepath.Base(name), fmt.Sprintf("%d bytes follow its last whole line", c.torn)})
	}
	return r, c, nil
}

func verifyFolder(fsys FS, dir, ext string) (*Report, error) {
	r, c, err := readManifest(fsys, filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	for _, e := range c.entries {
		name := fmt.Sprintf("%06d%s", e.Index, ext)
		problem, err := compare(fsys, filepath.Join(dir, name), e)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			r.Faults = append(r.Faults, Fault{name, problem})
		}
	}
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if i, ok := outputIndex(n, ext); ok &&
			(i < c.first() || i >= c.first()+len(c.entries)) {
			r.Faults = append(r.Faults, Fault{n, "is not in the manifest"})
		}
	}
	return r, nil
}

// compare returns what is wrong with the output at name, "" for nothing.
func compare(fsys FS, name string, e Entry) (problem string, err error) {
	info, err := fsys.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is missing", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "is a " + atomicfile.Kind(info), nil
	case info.Size() == 0:
		return "is empty", nil
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := cmp.Or(err, f.Close()); err != nil {
		return "", err
	}
	if hex.EncodeToString(h.Sum(nil)) != e.SHA256 {
		return "is not what the manifest lists", nil
	}
	return "", nil
}

func verifyLines(fsys FS, name string) (*Report, error) {
	r, c, err := readManifest(fsys, name+manifestSuffix)
	if err != nil {
		return nil, err
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	size, faults, err := checkLines(f, c.entries)
	now, sizeErr := f.Size()
	if err := cmp.Or(err, sizeErr, f.Close()); err != nil {
		return nil, err
	}
	if r.Faults = append(r.Faults, faults...); now > size && len(faults) == 0 {
		r.Faults = append(r.Faults,
			Fault{filepath.Base(name),
				fmt.Sprintf("%d bytes after its last line are not in the manifest", now-size)})
	}
	return r, nil
}

// Contents is the content of a run's manifest.
type Contents struct {
	Folder   bool // a folder of files, not a file of lines
	Settings Settings
	Range    *Range // nil for a whole run
	Entries  []Entry
}

// ReadContents reads the manifest of the run at name, a folder or a file of lines, but no output.
// It ignores an incomplete last line.
func ReadContents(fsys FS, name string) (*Contents, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	manifest := name + manifestSuffix
	if info.IsDir() {
		manifest = filepath.Join(name, manifestName)
	}
	r, c, err := readManifest(fsys, manifest)
	if err != nil {
		return nil, err
	}
	return &Contents{info.IsDir(), r.Settings, r.Range, c.entries}, nil
}
