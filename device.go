package unmask

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/generate"
	"unmask/internal/memory"
	"unmask/model"
	"unmask/param"
	"unmask/weights"
)

// MaxThreads is the most threads of a CPU's device.
const MaxThreads = 1024

// OpenDevice opens a device by name: cpu; cuda, the first GPU; cuda:N, GPU N in the driver's count;
// or auto, the first usable GPU and otherwise the CPU. threads is for the CPU, 0 for all cores.
func OpenDevice(name string, threads int) (backend.Backend, error) {
	index, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if threads < 0 || threads > MaxThreads {
		return nil, &param.Error{Name: "threads", Found: strconv.Itoa(threads),
			Want: fmt.Sprintf("0 to %d", MaxThreads)}
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
	if err := cpu.CheckISA(""); err != nil {
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

// DeviceKind returns the kind of GPU that a device is, such as cuda, or "" for a CPU. Results are
// labelled with it: a GPU sums in another order, so low bits and, in a long run, tokens may differ.
func DeviceKind(b backend.Backend) string {
	if b == nil {
		return ""
	}
	if kind, _, found := strings.Cut(b.Name(), ":"); found {
		return kind
	}
	return ""
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
	each := m.SequenceBytes(o.Request)
	if most := free / 4 * quarters / each; int64(o.Batch) > most {
		return o, fmt.Errorf("batch is %d, want 1 to %d: a sequence takes %.1f MB, and %.1f GB are free",
			o.Batch, max(1, most), float64(each)/1e6, float64(free)/1e9)
	}
	return o, nil
}

// freeMemory returns the free bytes where a batch will be: on a device with its own memory, or on
// this machine. ok is false if they are unknown.
func freeMemory(b backend.Backend) (bytes int64, ok bool) {
	if r, has := b.(backend.MemoryReporter); has {
		free, _, err := r.MemoryFree()
		return int64(free), err == nil
	}
	return memory.Available()
}

// SequenceBytes estimates the memory of one sequence of a batch, in bytes: its keys and values, its
// hidden states, which are as wide as those of a layer, and the loop's own slices.
func (m *Model) SequenceBytes(r generate.Request) int64 {
	const perPosition = 256 // tokens, probabilities and their indexes
	n := int64(r.Length) * perPosition
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return n
	}
	c := refiner.NewCache(1, r.Length)
	var layer, all int64
	for i, k := range c.K {
		if k == nil {
			continue
		}
		layer = max(layer, int64(k.Shape().TotalSize()))
		all += int64(k.Shape().TotalSize() + c.V[i].Shape().TotalSize())
	}
	n += 4 * layer
	if r.Cache > 0 || r.Reuse != generate.NoReuse {
		n += 4 * all
	}
	return n
}

// fit returns the precision in which a model is loaded, and a note if it is not o.Precision: with
// o.Fit the first that fits the free memory. The error says what is needed, free and would fit.
func (o *Options) fit(src *model.Source, b backend.Backend) (backend.Precision, string, error) {
	free, ok := freeMemory(b)
	if _, discards := b.(interface{ Discards() }); discards || !ok { // it keeps no weights
		return o.Precision, "", nil
	}
	p, note, err := fitting(WeightBytes(src.Set), free, o.Precision, o.Fit)
	if err != nil {
		err = fmt.Errorf("%s: %w", src.Name, err)
	}
	return p, note, err
}

// precisions are those of weights, from the largest to the smallest.
var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}

// fitting chooses among precisions whose weights take need(p) bytes.
func fitting(need func(backend.Precision) int64, free int64, as backend.Precision,
	replace bool) (backend.Precision, string, error) {
	if need(as) <= free {
		return as, "", nil
	}
	var fits, sizes []string
	for _, p := range precisions[slices.Index(precisions, as):] {
		if need(p) > free {
			continue
		}
		if replace {
			return p, fmt.Sprintf("weights take %.1f GB in %v and %.1f GB in %v, and %.1f GB are free: "+
				"computed in %v", gb(need(as)), as, gb(need(p)), p, gb(free), p), nil
		}
		fits = append(fits, fmt.Sprintf("--precision %v (%.1f GB)", p, gb(need(p))))
	}
	for _, p := range precisions {
		sizes = append(sizes, fmt.Sprintf("%.1f GB in %v", gb(need(p)), p))
	}
	want := append(fits, "a GGUF file of it in Q4_K")
	return as, "", fmt.Errorf("weights take %s, and %.1f GB are free, want %s", strings.Join(sizes,
		", "), gb(free), strings.Join(want, " or "))
}

func gb(bytes int64) float64 { return float64(bytes) / 1e9 }

// WeightBytes returns a function of the bytes that a set's weights take in a precision: vectors in
// float32, and matrices in block formats as they are held.
func WeightBytes(set *weights.Set) func(backend.Precision) int64 {
	var values, rest int64 // of matrices in floats; bytes of all others
	for _, name := range set.Names() {
		t, _ := set.Get(name)
		q, blocks := t.BlockFormat()
		switch {
		case t.Name != name: // another name of a tensor
		case blocks:
			rest += int64(t.Numel() / q.Values() * q.Bytes())
		case len(t.Shape) < 2 || !t.DType.IsFloat():
			rest += int64(len(t.Data))
		default:
			values += int64(t.Numel())
		}
	}
	size := map[backend.Precision]int64{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}
	return func(p backend.Precision) int64 { return values*size[p] + rest }
}
