package flags

import (
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/param"
)

// Threads adds --threads.
func Threads(f *pflag.FlagSet, to *int, help string) {
	Int(f, to, param.Param{Name: "threads", Min: 1, Max: unmask.MaxThreads,
		Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), unmask.MaxThreads)), Help: help})
}

// Device adds --device.
func Device(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "device", "auto",
		"`DEVICE` to compute on: cpu, cuda or cuda:N, or auto for a GPU where there is one")
}

// CheckDevice returns an error for a name that no device can have.
func CheckDevice(name string) error {
	if unmask.CheckDevice(name) != nil {
		return Usage("--device is %q, want auto, cpu, cuda or cuda:N", name)
	}
	return nil
}
