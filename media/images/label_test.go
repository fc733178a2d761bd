package images_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/images"
)

func TestLabelsAreReadBack(t *testing.T) {
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 3, 2))))
	require.Empty(t, images.ParseLabels(data.Bytes()))
	labelled := images.AddLabels(data.Bytes(), [][2]string{{"class", "night"}, {"prompt", ""},
		{"recipe", "moment steps=3 — é"}})
	require.Equal(t, map[string]string{"class": "night", "recipe": "moment steps=3 — é"},
		images.ParseLabels(labelled))
	m, err := images.Decode(labelled)
	require.NoError(t, err)
	require.Equal(t, 3, m.Width)
	for i := range labelled { // broken anywhere
		images.ParseLabels(labelled[:i])
	}
}

func FuzzLabels(f *testing.F) {
	var data bytes.Buffer
	require.NoError(f, png.Encode(&data, image.NewGray(image.Rect(0, 0, 1, 1))))
	f.Add(images.AddLabels(data.Bytes(), [][2]string{{"class", "night"}}))
	f.Add(append(data.Bytes()[:8], "\xff\xff\xff\xffiTXtx\x00"...))
	f.Add(append(data.Bytes()[:8], "\x00\x00\x00\x03tEXta\x00b1234\x00\x00\x00\x01iTXta1234"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for key, text := range images.ParseLabels(data) {
			require.LessOrEqual(t, len(key)+len(text), len(data))
		}
	})
}
