package unmask

import (
	"fmt"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/model"
	"unmask/weights"
)

// fit returns the precision in which a model is loaded, and a note if it is not o.Precision: with
// o.Fit the first that fits the free memory. The error says what is needed, free and would fit.
func (o *Options) fit(src *model.Source, b backend.Backend) (backend.Precision, string, error) {
	free, ok := freeMemory(b)
	if _, discards := b.(interface{ Discards() }); discards || !ok { // it keeps no weights
		return o.Precision, "", nil
	}
	p, note, err := fitting(weightBytes(src.Set), free, o.Precision, o.Fit)
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

// weightBytes returns a function of the bytes that a set's weights take in a precision: vectors in
// float32, and matrices in block formats as they are held.
func weightBytes(set *weights.Set) func(backend.Precision) int64 {
	var values, rest int64 // of matrices in floats; bytes of all others
	for _, name := range set.Names() {
		t, _ := set.Get(name)
		q, blocks := t.Quantised()
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
