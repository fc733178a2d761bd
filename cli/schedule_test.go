package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// Whatever a file holds, a schedule that is read opens everything in the end.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte(`{"times":[0.5,0.25,0]}`))
	f.Add([]byte(`{"times":[1,0]}`))
	f.Add([]byte(`{"times":[0.1,0.2,-1e999]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := readSchedule(data); err == nil {
			require.Equal(t, 64, samplers.Open(s, 4, 4, 64))
			require.LessOrEqual(t, samplers.Open(s, 1, 4, 64), samplers.Open(s, 2, 4, 64))
		}
	})
}
