//go:build unix

package processor

import (
	"syscall"
	"time"
)

// Seconds returns the seconds that all threads have computed so far.
func Seconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
