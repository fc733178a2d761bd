package durable

import (
	"os"
	"path/filepath"
)

// Remove removes a run's folder with everything in it, which must all belong to the run.
func Remove(dir string) error {
	names, err := OS{}.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == manifestName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
			return err
		}
	}
	// the manifest last, so that after a crash the rest is still recognised as a run
	return os.RemoveAll(dir)
}
