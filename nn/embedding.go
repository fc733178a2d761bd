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

	mu   sync.Mutex
	rows []float32 // [rows of the largest call, width]
}

// Gather computes dst[i] = table[rows[i]] on the host, dst [len(rows), width].
func (e *Embedding) Gather(b backend.Backend, dst *tensor.Dense, rows []int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	width := e.Weight.Shape[1]
	if len(e.rows) < len(rows)*width {
		e.rows = make([]float32, len(rows)*width)
	}
	for i, row := range rows {
		if err := e.Weight.ReadFloat32s(e.rows[i*width:(i+1)*width], int(row)*width); err != nil {
			return fmt.Errorf("embedding: %w", err)
		}
	}
	if len(rows) > 0 {
		b.Write(dst, 0, e.rows[:len(rows)*width])
	}
	return nil
}
