//go:build linux || darwin || freebsd

package diskspace

import "golang.org/x/sys/unix"

// freeBytes is Free for a path that exists.
func freeBytes(path string) (bytes int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
