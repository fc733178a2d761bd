package inception

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

func littleEndian(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func set(t *testing.T, tensors []weights.Tensor) *weights.Set {
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, tensors, nil))
	s, err := weights.Parse(file.Bytes(), "model.safetensors")
	require.NoError(t, err)
	return s
}

func bind(t *testing.T, root any, tensors map[string]weights.Tensor) {
	require.NoError(t, weights.Bind(root, set(t, slices.Collect(maps.Values(tensors))),
		weights.BindOptions{}))
}
