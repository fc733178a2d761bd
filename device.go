package unmask

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/generate"
	"unmask/internal/memory"
	"unmask/model"
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

// smallBatch is the largest batch whose memory is not checked.
const smallBatch = 16

// Check fills in defaults and returns a one-line error for a run that the model cannot do or that
// needs more memory than is free.
func (m *Model) Check(o generate.Options) (generate.Options, error) {
	o, err := o.Check(m.Denoiser)
	if err != nil || o.Batch <= smallBatch {
		return o, err
	}
	free, ok := freeMemory(m.Backend)
	if !ok {
		return o, nil
	}
	// of the free memory; the rest is for weights being packed and for other programs
	const quarters = 3
	each := m.SequenceBytes(o)
	if most := free / 4 * quarters / each; int64(o.Batch) > most {
		return o, fmt.Errorf("batch is %d, want 1 to %d: a sequence takes %.1f MB, and %.1f GB are free",
			o.Batch, max(1, most), float64(each)/1e6, float64(free)/1e9)
	}
	return o, nil
}

// freeMemory returns the free bytes where a batch will be: on a device with its own memory, or on
// this machine. ok is false if they are unknown.
func freeMemory(b backend.Backend) (bytes int64, ok bool) {
	if r, has := b.(backend.Roomy); has {
		free, _, err := r.MemoryFree()
		return int64(free), err == nil
	}
	return memory.Available()
}

// SequenceBytes estimates the memory of one sequence of a batch, in bytes: its keys and values, its
// hidden states, which are as wide as those of a layer, and the loop's own slices.
func (m *Model) SequenceBytes(o generate.Options) int64 {
	const perPosition = 256 // tokens, probabilities and their indexes
	n := int64(o.Length) * perPosition
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return n
	}
	c := refiner.NewCache(1, o.Length)
	var layer, all int64
	for i, k := range c.K {
		if k == nil {
			continue
		}
		layer = max(layer, int64(k.Shape().TotalSize()))
		all += int64(k.Shape().TotalSize() + c.V[i].Shape().TotalSize())
	}
	n += 4 * layer
	if o.Cache > 0 || o.Reuse != generate.NoReuse {
		n += 4 * all
	}
	return n
}
