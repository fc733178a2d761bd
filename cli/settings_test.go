package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/samplers"
)

// A schedule of a file is known by what it opens, not by where it lies.
func TestScheduleSetting(t *testing.T) {
	o := generate.Options{Steps: 8, Cache: 1, Length: 256, Schedule: samplers.Cosine}
	require.Equal(t, "cosine", scheduleSetting("cosine", o))
	first := scheduleSetting("a.json", o)
	require.Equal(t, first, scheduleSetting("other/b.json", o))
	o.Schedule = samplers.Uniform
	require.NotEqual(t, first, scheduleSetting("a.json", o))
}
