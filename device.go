package unmask

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
)

// OpenDevice opens a device by name: cpu; cuda, the first GPU; cuda:N, GPU N in the driver's count;
// or auto, the first usable GPU and otherwise the CPU. threads is for the CPU, 0 for all cores.
func OpenDevice(name string, threads int) (backend.Backend, error) {
	index, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if name != "cpu" {
		b, err := cuda.New(cuda.Options{Device: index, Notice: func(line string) { slog.Info(line) }})
		if err == nil {
			return b, nil
		}
		if name != "auto" {
			return nil, err
		}
	}
	if err := cpu.Check(""); err != nil {
		return nil, err
	}
	return cpu.New(cpu.Options{Threads: threads}), nil
}

// CheckDevice returns an error for a name that OpenDevice does not know. It opens nothing.
func CheckDevice(name string) error {
	_, err := parseDevice(name)
	return err
}

// parseDevice returns the number of the GPU in a device's name, 0 where the name has none.
func parseDevice(name string) (gpu int, err error) {
	if name == "cpu" || name == "cuda" || name == "auto" {
		return 0, nil
	}
	number, ok := strings.CutPrefix(name, "cuda:")
	if n, err := strconv.ParseUint(number, 10, 31); ok && err == nil {
		return int(n), nil
	}
	return 0, fmt.Errorf("device is %q, want auto, cpu, cuda or cuda:N", name)
}

// GPU returns the kind of GPU that a device is, such as cuda, or "" for a CPU. Results are labelled
// with it: a GPU sums in another order, so low bits and, in a long run, tokens may differ.
func GPU(b backend.Backend) string {
	if b == nil {
		return ""
	}
	kind, _, found := strings.Cut(b.Name(), ":")
	if !found {
		return ""
	}
	return kind
}
