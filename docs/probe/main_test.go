package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
)

// The hidden states tell what a masked token begins with, much better than the commoner answer.
func TestProbe(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	accuracy, majority, err := run(t.Context(), m)
	require.NoError(t, err)
	require.Greater(t, accuracy, 0.85)
	require.Greater(t, accuracy, majority+0.05)
	require.Less(t, majority, 0.95, "the two labels must both be common")
}
