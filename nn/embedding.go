package nn

import (
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/weights"
)

// Embedding is a table from which a pass reads few rows. It stays in the checkpoint's memory,
// usually a mapped file, in the checkpoint's type: the table of a large vocabulary has a gigabyte
// or more.
type Embedding struct {
	Weight weights.Param `weight:"weight"` // [rows, width]

	mu  sync.Mutex
	row []float32
}

// Gather computes dst[i] = table[from[i]] on the host.
func (e *Embedding) Gather(b backend.Backend, dst *tensor.Dense, from []int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	width := e.Weight.Shape[1]
	if len(e.row) < len(from)*width {
		e.row = make([]float32, len(from)*width)
	}
	for i, r := range from {
		if err := e.Weight.ReadFloat32s(e.row[i*width:(i+1)*width], int(r)*width); err != nil {
			return fmt.Errorf("embedding: %w", err)
		}
	}
	if len(from) > 0 {
		b.Write(dst, 0, e.row[:len(from)*width])
	}
	return nil
}
