// Package open opens devices by name. It links all of them in, which package backend, the
// interface, does not.
package open

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/param"
)

// MaxThreads is the most threads of a CPU's device.
const MaxThreads = 1024

// Device opens a device by name: cpu; cuda, the first GPU; cuda:N, GPU N in the driver's count;
// or auto, the first usable GPU and otherwise the CPU. threads is for the CPU, 0 for all cores.
func Device(name string, threads int) (backend.Backend, error) {
	gpu, err := parseName(name)
	if err != nil {
		return nil, err
	}
	if threads < 0 || threads > MaxThreads {
		return nil, &param.Error{
			Name:  "threads",
			Found: strconv.Itoa(threads),
			Want:  fmt.Sprintf("0 to %d", MaxThreads),
		}
	}
	if name != "cpu" {
		notice := func(line string) { slog.Info(line) }
		device, err := cuda.New(cuda.Options{Device: gpu, Notice: notice})
		if err == nil {
			return device, nil
		}
		if name != "auto" {
			return nil, err
		}
	}
	if err := cpu.CheckISA(""); err != nil {
		return nil, err
	}
	return cpu.New(cpu.Options{Threads: threads}), nil
}

// CheckName returns an error for a name that Device does not know. It opens nothing.
func CheckName(name string) error {
	_, err := parseName(name)
	return err
}

// parseName returns the number of the GPU in a device's name, 0 where the name has none.
func parseName(name string) (gpu int, err error) {
	if name == "cpu" || name == "cuda" || name == "auto" {
		return 0, nil
	}
	number, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil {
		return 0, fmt.Errorf("device is %q, want auto, cpu, cuda or cuda:N", name)
	}
	return int(n), nil
}

// KindOf returns the kind of GPU that a device is, such as cuda, or "" for a CPU. Results are
// labelled with it: a GPU sums in another order, so low bits and, in a long run, tokens may differ.
func KindOf(device backend.Backend) string {
	if device == nil {
		return ""
	}
	kind, _, isGPU := strings.Cut(device.Name(), ":")
	if !isGPU {
		return ""
	}
	return kind
}
