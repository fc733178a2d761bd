package samplers

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any file that is read without an error gives a schedule that opens everything in the end.
func FuzzTimesFile(f *testing.F) {
	f.Add([]byte(`{"times":[0.5,0.25,0]}`))
	f.Add([]byte(`{"times":[1,0]}`))
	f.Add([]byte(`{"times":[0.1,0.2,-1e999]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := readTimes(bytes.NewReader(data)); err == nil {
			require.Equal(t, 64, Open(s, 4, 4, 64))
			require.LessOrEqual(t, Open(s, 1, 4, 64), Open(s, 2, 4, 64))
		}
	})
}

func TestTimesAreReadBack(t *testing.T) {
	times := []float64{0.5, 0.125, 0}
	data, err := MarshalTimes(times)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "times.json")
	require.NoError(t, os.WriteFile(name, data, 0o666))
	s, err := OpenTimes(name)
	require.NoError(t, err)
	require.Equal(t, "times(0.5,0.125,0)", s.String())
}
