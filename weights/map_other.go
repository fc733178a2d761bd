//go:build !unix

package weights

import (
	"io"
	"os"
)

// mapFile reads the file, on systems that cannot map it.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data)
	return data, err
}

// unmapFile has nothing to do where files are read whole.
func unmapFile([]byte) error { return nil }

// releasePages has nothing to do where files are read whole.
func releasePages(_, _ []byte) error { return nil }
