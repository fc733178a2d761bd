// Package footprint estimates the memory of weights and of sequences, and refuses what does not fit
// before any of it is used: a machine that starts to swap, or a process that the kernel kills in
// the middle of a run, tells its user less than one line at the start.
package footprint

import (
	"fmt"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/generate"
	"unmask/internal/memory"
	"unmask/model"
	"unmask/weights"
)

// smallBatch is the largest batch whose memory is not checked.
const smallBatch = 16

// CheckBatch returns a one-line error if a batch of sequences like those of request needs more
// memory than is free where device has its memory.
func CheckBatch(d model.Denoiser, device backend.Backend, request generate.Request,
	batch int) error {
	if batch <= smallBatch {
		return nil
	}
	free, known := freeBytes(device)
	if !known {
		return nil
	}
	// A quarter of the free memory is left for weights being packed and for other programs.
	usable := free / 4 * 3
	each := SequenceBytes(d, request)
	most := usable / each
	if int64(batch) > most {
		return fmt.Errorf("batch is %d, want 1 to %d: a sequence takes %.1f MB, and %.1f GB are free",
			batch, max(1, most), float64(each)/1e6, gigabytes(free))
	}
	return nil
}

// freeBytes returns the free bytes where a batch will be: on a device with its own memory, or on
// this machine. known is false if nobody says it.
func freeBytes(device backend.Backend) (bytes int64, known bool) {
	if reporter, ok := device.(backend.MemoryReporter); ok {
		free, _, err := reporter.MemoryFree()
		return int64(free), err == nil
	}
	return memory.Available()
}

// SequenceBytes estimates the memory of one sequence of a batch, in bytes: its keys and values, its
// hidden states, which are as wide as those of a layer, and the loop's own slices.
func SequenceBytes(d model.Denoiser, r generate.Request) int64 {
	const (
		perPosition    = 256 // tokens, probabilities and their indexes
		bytesOfFloat32 = 4
	)
	bytes := int64(r.Length) * perPosition
	refiner, ok := d.(model.Refiner)
	if !ok {
		return bytes
	}

	cache := refiner.NewCache(1, r.Length)
	var largestLayer, allLayers int64
	for i, keys := range cache.K {
		if keys == nil {
			continue
		}
		largestLayer = max(largestLayer, int64(keys.Shape().TotalSize()))
		allLayers += int64(keys.Shape().TotalSize() + cache.V[i].Shape().TotalSize())
	}
	bytes += bytesOfFloat32 * largestLayer
	if r.Cache > 0 || r.Reuse != generate.NoReuse {
		bytes += bytesOfFloat32 * allLayers
	}
	return bytes
}

// ChoosePrecision returns the precision in which the weights of src are loaded, and a note if it is
// not the wanted one: with mayReplace the largest precision that fits the free memory. The error
// says how much is needed, how much is free, and what would fit.
func ChoosePrecision(src *model.Source, device backend.Backend, wanted backend.Precision,
	mayReplace bool) (p backend.Precision, note string, err error) {
	free, known := freeBytes(device)
	_, keepsNoWeights := device.(interface{ Discards() })
	if keepsNoWeights || !known {
		return wanted, "", nil
	}
	p, note, err = choosePrecision(WeightBytes(src.Set), free, wanted, mayReplace)
	if err != nil {
		err = fmt.Errorf("%s: %w", src.Name, err)
	}
	return p, note, err
}

// precisions are those of weights, from the largest to the smallest.
var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}

// choosePrecision is ChoosePrecision for weights that take need(p) bytes.
func choosePrecision(need func(backend.Precision) int64, free int64, wanted backend.Precision,
	mayReplace bool) (p backend.Precision, note string, err error) {
	if need(wanted) <= free {
		return wanted, "", nil
	}

	var advice []string
	for _, p := range precisions[slices.Index(precisions, wanted):] {
		if need(p) > free {
			continue
		}
		if mayReplace {
			return p, fmt.Sprintf("weights take %.1f GB in %v and %.1f GB in %v, and %.1f GB are free: "+
				"computed in %v", gigabytes(need(wanted)), wanted, gigabytes(need(p)), p,
				gigabytes(free), p), nil
		}
		advice = append(advice, fmt.Sprintf("--precision %v (%.1f GB)", p, gigabytes(need(p))))
	}
	advice = append(advice, "a GGUF file of it in Q4_K")

	var sizes []string
	for _, p := range precisions {
		sizes = append(sizes, fmt.Sprintf("%.1f GB in %v", gigabytes(need(p)), p))
	}
	return wanted, "", fmt.Errorf("weights take %s, and %.1f GB are free, want %s",
		strings.Join(sizes, ", "), gigabytes(free), strings.Join(advice, " or "))
}

// gigabytes returns bytes in units of 1e9.
func gigabytes(bytes int64) float64 { return float64(bytes) / 1e9 }

// WeightBytes returns a function of the bytes that a set's weights take in a precision: vectors in
// float32, and matrices in block formats as they are held.
func WeightBytes(set *weights.Set) func(backend.Precision) int64 {
	var matrixValues, otherBytes int64
	for _, name := range set.Names() {
		tensor, _ := set.Get(name)
		format, isBlocks := tensor.BlockFormat()
		switch {
		case tensor.Name != name:
			// Another name of a tensor that is counted under its own.
		case isBlocks:
			otherBytes += int64(tensor.Numel() / format.Values() * format.Bytes())
		case len(tensor.Shape) < 2 || !tensor.DType.IsFloat():
			otherBytes += int64(len(tensor.Data))
		default:
			matrixValues += int64(tensor.Numel())
		}
	}
	bytesPerValue := map[backend.Precision]int64{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}
	return func(p backend.Precision) int64 { return matrixValues*bytesPerValue[p] + otherBytes }
}
