// Package diskspace says how much room a disk has.
package diskspace

import (
	"os"
	"path/filepath"
)

// Free returns the bytes that this user may still write where path is or, where it does not exist
// yet, where it would be. known is false if the system does not say it.
func Free(path string) (bytes int64, known bool) {
	for {
		if _, err := os.Stat(path); err == nil {
			return freeBytes(path)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return 0, false
		}
		path = parent
	}
}
