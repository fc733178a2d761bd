package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"unmask/internal/atomicfile"
)

// Report is the result of Verify.
type Report struct {
	*Contents
	Outputs int // in the manifest
	Faults  []Fault
}

// fault adds a fault.
func (r *Report) fault(name, problem string) { r.Faults = append(r.Faults, Fault{name, problem}) }

// Verify compares every output of the run at name, a folder or a file of lines, with the manifest.
// It changes nothing. ext is the fileExtension of a folder's files.
func verify(fsys fileSystem, name string) (*Report, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, want a run's directory or file", name, atomicfile.Kind(info))
	}
	c, err := readContents(fsys, name)
	if err != nil {
		return nil, err
	}
	r := &Report{Contents: c, Outputs: len(c.Entries)}
	if c.torn > 0 {
		r.fault(filepath.Base(manifestOf(name, c.Folder)),
			fmt.Sprintf("%d bytes follow its last whole line", c.torn))
	}
	if c.Folder {
		return r, r.folder(fsys, name)
	}
	return r, r.lines(fsys, name)
}

// readContents reads the manifest of the run at name, a folder or a file of lines, but no output.
// It ignores an incomplete last line.
func readContents(fsys fileSystem, name string) (*Contents, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	name = manifestOf(name, info.IsDir())
	if _, exists, err := regular(fsys, name); err != nil {
		return nil, err
	} else if !exists {
		return nil, fmt.Errorf("%s is missing: no run was begun here", name)
	}
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	c, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.Folder = info.IsDir()
	return c, nil
}

// manifestOf returns the name of a run's manifest.
func manifestOf(name string, folder bool) string {
	if folder {
		return filepath.Join(name, manifestName)
	}
	return name + manifestSuffix
}

func (r *Report) folder(fsys fileSystem, dir string) error {
	for _, e := range r.Entries {
		name := fmt.Sprintf("%06d%s", e.Index, fileExtension)
		problem, err := compare(fsys, filepath.Join(dir, name), e)
		if err != nil {
			return err
		}
		if problem != "" {
			r.fault(name, problem)
		}
	}
	names, err := fsys.ReadDir(dir)
	for _, n := range names {
		if i, ok := outputIndex(n); ok && (i < r.first() || i >= r.done()) {
			r.fault(n, "is not in the manifest")
		}
	}
	return err
}

// compare returns what is wrong with the output at name, "" for nothing.
func compare(fsys fileSystem, name string, e Entry) (problem string, err error) {
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
	data, err := readFile(fsys, name)
	if err == nil && DigestOf(data) != e.SHA256 {
		problem = "is not what the manifest lists"
	}
	return problem, err
}

func (r *Report) lines(fsys fileSystem, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	size, faults, err := checkLines(f, r.Entries)
	if now, failed := f.Stat(); failed != nil {
		err = cmp.Or(err, failed)
	} else if r.Faults = append(r.Faults, faults...); now.Size() > size && len(faults) == 0 {
		r.fault(filepath.Base(name),
			fmt.Sprintf("%d bytes after its last line are not in the manifest", now.Size()-size))
	}
	return cmp.Or(err, f.Close())
}
