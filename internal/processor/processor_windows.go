package processor

import (
	"syscall"
	"time"
)

// Seconds returns the seconds that all threads have computed so far.
func Seconds() float64 {
	var begun, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err != nil || syscall.GetProcessTimes(self, &begun, &ended, &kernel, &user) != nil {
		return 0
	}
	// A Filetime counts units of 100 ns. Its method Nanoseconds would count them from 1970, which is
	// wrong for a duration.
	units := func(t syscall.Filetime) int64 {
		return int64(t.HighDateTime)<<32 + int64(t.LowDateTime)
	}
	return time.Duration(100 * (units(kernel) + units(user))).Seconds()
}
