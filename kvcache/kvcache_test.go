package kvcache_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend/plain"
	"unmask/kvcache"
)

func TestShapes(t *testing.T) {
	c := kvcache.New(plain.New(), 2, 5,
		[]kvcache.Layer{{Heads: 3, HeadDim: 4}, {Heads: 1, HeadDim: 8}})
	require.Len(t, c.K, 2)
	require.Equal(t, tensor.Shape{2, 3, 5, 4}, c.K[0].Shape())
	require.Equal(t, tensor.Shape{2, 1, 5, 8}, c.V[1].Shape())
}
