package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// A model made in memory has no files, so only a built-in tokenizer.
func TestTokenizersWithoutFiles(t *testing.T) {
	wait := new(model.Source).StartTokenizer("gpt2")
	for range 2 { // whoever waits once more gets the same
		got, from, err := wait()
		require.NoError(t, err)
		require.Equal(t, "gpt2", from)
		require.NotNil(t, got)
	}
	_, _, err := new(model.Source).StartTokenizer("other")()
	require.EqualError(t, err,
		`tokenizer is "other", want gpt2 or a tokenizer.json beside config.json`)
}
