// Package whole writes files that are whole after a crash, or absent.
package whole

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile replaces name by what write writes: into a temporary file beside
// it, which is synced and renamed, then the directory is synced. After an
// error name is what it was and the temporary file is gone.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	dir, base := filepath.Split(name)
	tmp := filepath.Join(dir, "."+base+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = write(w); err == nil {
		err = cmp.Or(w.Flush(), f.Sync())
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return SyncDir(filepath.Clean(dir))
}

// SyncDir makes the names in a directory durable. Windows keeps no such promise
// and needs no call.
func SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}
