package model_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/model"
)

// roomy is a device with this much free memory.
type roomy struct {
	backend.Backend
	free int
	err  error
}

func (r roomy) MemoryFree() (free, total int, err error) { return r.free, 2 * r.free, r.err }
func (r roomy) GroupRows() int                           { return 1000 }

func TestFit(t *testing.T) {
	require.Zero(t, model.MaxSequences(plain.New(), 100, 10, 10), "a processor's memory is no concern")
	const length, sequence, row = 100, 5000, 8
	require.Equal(t, 40, model.MaxSequences(roomy{free: 1 << 30}, length, sequence, row),
		"more than four groups are of no use")
	require.Equal(t, 19, model.MaxSequences(roomy{free: 120_000}, length, sequence, row))
	require.Equal(t, 1, model.MaxSequences(roomy{free: 10}, length, sequence, row))
	require.Equal(t, 1, model.MaxSequences(roomy{err: errors.New("lost")}, length, sequence, row))
	require.Equal(t, 4, model.MaxSequences(roomy{free: 1 << 30}, 5000, sequence, row))
}
