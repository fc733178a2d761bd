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

// OpenDevice returns the device of a name: cpu; cuda for the first GPU, or cuda:N for GPU N as the
// driver counts; auto for the first GPU where there is one that can be used, and the CPU otherwise.
// Threads are the CPU's, 0 for all cores.
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

// parseDevice returns which GPU a name means, 0 for names of none.
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

// GPU returns the kind of GPU that a device is, such as cuda, "" for a CPU. It labels results: a
// GPU computes sums in another order, so low bits and, in a long run, tokens may differ.
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
