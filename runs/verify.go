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

	// Outputs is the number of outputs in the manifest.
	Outputs int

	Faults []Fault
}

// addFault adds a fault.
func (r *Report) addFault(name, problem string) {
	r.Faults = append(r.Faults, Fault{name, problem})
}

// verify is Verify on a filesystem.
func verify(fsys fileSystem, name string) (*Report, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, want a run's directory or file", name,
			atomicfile.Kind(info))
	}
	c, err := readContents(fsys, name)
	if err != nil {
		return nil, err
	}
	r := &Report{Contents: c, Outputs: len(c.Entries)}
	if c.tornSize > 0 {
		r.addFault(filepath.Base(manifestPath(name, c.Folder)),
			fmt.Sprintf("%d bytes follow its last whole line", c.tornSize))
	}
	if c.Folder {
		return r, r.verifyFolder(fsys, name)
	}
	return r, r.verifyLines(fsys, name)
}

// readContents reads the manifest of the run at name, a folder or a file of lines, but no output.
// It ignores an incomplete last line.
func readContents(fsys fileSystem, name string) (*Contents, error) {
	info, err := fsys.Lstat(name)
	if err != nil {
		return nil, err
	}
	path := manifestPath(name, info.IsDir())
	_, exists, err := statRegular(fsys, path)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%s is missing: no run was begun here", path)
	}
	data, err := readFile(fsys, path)
	if err != nil {
		return nil, err
	}
	c, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.Folder = info.IsDir()
	return c, nil
}

// manifestPath returns the path of the manifest of the run at name.
func manifestPath(name string, isFolder bool) string {
	if isFolder {
		return filepath.Join(name, manifestName)
	}
	return name + manifestSuffix
}

// verifyFolder compares the files of a folder with the manifest.
func (r *Report) verifyFolder(fsys fileSystem, dir string) error {
	for _, e := range r.Entries {
		name := outputName(e.Index)
		problem, err := compareFile(fsys, filepath.Join(dir, name), e)
		if err != nil {
			return err
		}
		if problem != "" {
			r.addFault(name, problem)
		}
	}
	names, err := fsys.ReadDir(dir)
	for _, n := range names {
		if i, ok := outputIndex(n); ok && (i < r.firstIndex() || i >= r.nextIndex()) {
			r.addFault(n, "is not in the manifest")
		}
	}
	return err
}

// compareFile returns what is wrong with the output at name, "" for nothing.
func compareFile(fsys fileSystem, name string, e Entry) (problem string, err error) {
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
	if err != nil {
		return "", err
	}
	if DigestOf(data) != e.SHA256 {
		return "is not what the manifest lists", nil
	}
	return "", nil
}

// verifyLines compares the lines of a file with the manifest.
func (r *Report) verifyLines(fsys fileSystem, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	err = r.verifyOpenLines(f, name)
	closeErr := f.Close()
	return cmp.Or(err, closeErr)
}

// verifyOpenLines compares an open file of lines with the manifest, and notes what it does not
// list.
func (r *Report) verifyOpenLines(f openFile, name string) error {
	listedSize, faults, err := checkLines(f, r.Entries)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.Faults = append(r.Faults, faults...)
	if unlisted := info.Size() - listedSize; unlisted > 0 && len(faults) == 0 {
		r.addFault(filepath.Base(name),
			fmt.Sprintf("%d bytes after its last line are not in the manifest", unlisted))
	}
	return nil
}
