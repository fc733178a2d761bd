package server

import (
	"os"
	"runtime"
	"runtime/debug"
)

// TuneProcess sets the Go runtime for a process that serves, where its environment does not. Go
// gets one processor more than computes: for sockets, which would otherwise wait for a pass. So a
// backend opened later wants its threads said. Garbage is collected at 25 % (GOGC), because
// weights, keys and values are large and stay.
func TuneProcess() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}
