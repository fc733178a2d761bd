package images_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/images"
)

// Texts are iTXt chunks after the header, with the checksums of zlib; an empty one is left out.
func TestLabel(t *testing.T) {
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 3, 2))))
	labelled := images.Label(data.Bytes(), [][2]string{{"class", "night"}, {"prompt", ""},
		{"recipe", "steps=3 é"}})
	const chunks = "\x00\x00\x00\x0fiTXtclass\x00\x00\x00\x00\x00night\x92\xf3\xd4\x40" +
		"\x00\x00\x00\x15iTXtrecipe\x00\x00\x00\x00\x00steps=3 é\x55\x19\x21\x2b"
	require.Equal(t, string(data.Bytes()[:33])+chunks+string(data.Bytes()[33:]), string(labelled))
	m, err := images.Decode(labelled)
	require.NoError(t, err)
	require.Equal(t, 3, m.Width)
}
